# SPDX-License-Identifier: Apache-2.0
"""Paths out of the names that the kernel stored."""

from hypothesis import given
from hypothesis import strategies as st

from xpumeter.enrich.cgroups import path_of
from xpumeter.model.kernel import CgroupId, CgroupName


def tree(*rows: tuple[int, int, str]) -> dict[CgroupId, CgroupName]:
    """Names by id, out of (id, parent, name)."""
    return {
        CgroupId(each): CgroupName(CgroupId(each), CgroupId(parent), name, dead=False)
        for each, parent, name in rows
    }


WHOLE = tree((1, 0, ""), (7, 1, "system.slice"), (9, 7, "box.service"))


def test_a_path_is_its_names_from_the_root() -> None:
    """Each cgroup is spelled from the root down to its own name."""
    assert path_of(CgroupId(9), WHOLE) == "/system.slice/box.service"
    assert path_of(CgroupId(7), WHOLE) == "/system.slice"
    assert path_of(CgroupId(1), WHOLE) == "/"


def test_a_chain_that_breaks_off_is_no_path() -> None:
    """Without the names nearest the root nobody can tell a pod: half a path is None."""
    assert path_of(CgroupId(9), tree((7, 1, "system.slice"), (9, 7, "box.service"))) is None
    assert path_of(CgroupId(9), tree((1, 0, ""), (9, 7, "box.service"))) is None
    assert path_of(CgroupId(5), WHOLE) is None
    assert path_of(CgroupId(9), {}) is None


def test_a_circle_is_no_path() -> None:
    """Names that lead back to themselves end in None, not in a loop."""
    assert path_of(CgroupId(7), tree((7, 9, "a"), (9, 7, "b"))) is None
    assert path_of(CgroupId(7), tree((7, 7, "a"))) is None


def test_only_the_root_is_the_root() -> None:
    """A name without parent, or a parent without name, is damage and not the root."""
    assert path_of(CgroupId(9), tree((7, 0, "lost"), (9, 7, "box.service"))) is None
    assert path_of(CgroupId(9), tree((1, 0, ""), (7, 1, ""), (9, 7, "box.service"))) is None


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.sampled_from(["", "a", "b"]))))
def test_any_tree_gives_a_path_from_the_root_or_none(rows: list[tuple[int, int, str]]) -> None:
    """Whatever is in the map, the answer is a whole path or None, and it comes."""
    names = tree(*rows)
    for cgroup_id in names:
        path = path_of(cgroup_id, names)
        assert path is None or path.startswith("/")
