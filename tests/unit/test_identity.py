# SPDX-License-Identifier: Apache-2.0
"""Names of cgroups, as kubelets and runtimes of all kinds give them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpumeter.enrich.identity import identify, identify_process
from xpumeter.model.owners import Identity

POD = "b5ebee9a-740b-4b72-b4b4-200165f8c557"
OTHER_POD = "36a50509-eb46-41e0-b3d6-f24ca02da9dc"
CONTAINER = "05b9a3305caeae2f1fa49fbc09456cd8bf5749209bf5a1a315078377f57665be"
INNER = "5dc0bc601254de3520e7ebbc4e4786f4209fcde55c5e16419840e3d6c64a15ec"

LETTERS = {
    "U": POD,
    "u": POD.replace("-", "_"),
    "V": OTHER_POD,
    "G": "437ce1cc3a060dda3304ccfd8cfe483a",  # of a static pod
    "H": CONTAINER,
    "h": CONTAINER[:-1],
    "N": "2158654f0fa14c5cb0f89301113496abb0bea28468c63492df1d24c01fe803ee",  # holds a node
    "I": INNER,  # in a container
    "C": POD.upper(),
    "S": "abfda5fc6c70ecd7793cf0c46ec4364a3c4720db5bda2d22333c7812e1918945",  # pod sandbox
}
NSPAWN = "systemd-nspawn@web.service"
SCOPE = f"cri-containerd-{CONTAINER}.scope"


def known(cell: str) -> str | None:
    """Text of a cell, `-` being none."""
    return None if cell == "-" else cell


def table() -> list[tuple[str, str, str | None, str | None]]:
    """Rows of cgroup_paths.tsv with the letters filled in: id, path, pod, container."""
    rows: list[tuple[str, str, str | None, str | None]] = []
    text = Path(__file__).with_name("cgroup_paths.tsv").read_text()
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        setting, *cells = line.split("\t")
        path, pod, container = (cell.format_map(LETTERS) for cell in cells)
        name = f"{len(rows) + 1} {setting}".replace(" ", "-")
        rows.append((name, path, known(pod), known(container)))
    return rows


TABLE = table()


def test_the_table_is_whole() -> None:
    """Each setting has a path of its own."""
    assert len({path for _, path, _, _ in TABLE}) == len(TABLE) >= 97


@pytest.mark.parametrize(
    ("path", "pod", "container"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_each_setting(path: str, pod: str | None, container: str | None) -> None:
    """Pod and container are found in every layout that is known, and in no other name."""
    identity = identify(path) if path.startswith("/") else identify_process(path)

    assert (identity.pod_uid, identity.container_id) == (pod, container)


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("/system.slice/k3s.service", "k3s.service"),
        (r"/machine.slice/machine-qemu\x2d2\x2dbuild.scope", r"machine-qemu\x2d2\x2dbuild.scope"),
        ("/system.slice/box.service/init.scope", "box.service"),
        ("/init.scope", "init.scope"),
        ("/user.slice/user-1000.slice/session-2.scope", "session-2.scope"),
        ("/user.slice/user-7.slice/user@7.service/app.slice/app-x.scope", "user@7.service"),
        ("/system.slice/dev-hugepages.mount", "dev-hugepages.mount"),
        ("/system.slice/_memory.service", "memory.service"),
        (f"/system.slice/crio-conmon-{CONTAINER}.scope", f"crio-conmon-{CONTAINER}.scope"),
        ("/machine.slice/systemd-nspawn@web.service/payload/nginx.service", NSPAWN),
        ("/lxc.payload.web/system.slice/nginx.service", None),
        ("/podruntime/kubelet.service", None),
        ("/user.slice", None),
        ("/", None),
        (f"/system.slice/docker-{CONTAINER}.scope", None),
        (f"/kubepods/burstable/pod{POD}/{CONTAINER}/nginx.service", None),
    ],
)
def test_only_a_service_of_the_host_has_a_unit(path: str, unit: str | None) -> None:
    """What lies below the slices is the unit; units inside a container are its own affair."""
    assert identify(path).unit == unit


@pytest.mark.parametrize(
    "path",
    [
        f"/kubepods/burstable/pod{POD}/{CONTAINER}0",
        f"/kubepods/burstable/pod{POD}/cri-containerd{CONTAINER}",
        f"/kubepods/burstable/pod{POD}/{CONTAINER}.scope.d",
        f"/kubepods/burstable/pod{POD}/init/{CONTAINER}",
        f"/kubepods-pod{POD}.slice:cri-containerd:{CONTAINER[:-1]}",
        f"/kubepods-pod{POD}.slice:crio-conmon:{CONTAINER}",
    ],
)
def test_what_is_no_container_leaves_the_pod(path: str) -> None:
    """Digits too many, other endings, a level too deep: the pod is known, the container is not."""
    assert identify(path) == Identity(path, pod_uid=POD)


@pytest.mark.parametrize(
    "path",
    [
        f"/kubepods/burstable/pod{POD[:-1]}",
        f"/kubepods/burstable/pod{POD}0",
        f"/kubepods/burstable/pod{POD}.scope",
        f"/kubepods/burstable/my-pod{POD}",
        f"/kubepods/burstable/pod{POD.replace('b', 'g')}",
        f"/kubepods/burstable/pod-{POD}",
    ],
)
def test_what_is_no_whole_uid_is_no_pod(path: str) -> None:
    """A uid that is cut off, too long or not hexadecimal names nobody."""
    assert identify(path).pod_uid is None
    assert identify(path).container_id is None


def test_the_outermost_pod_wins() -> None:
    """A cluster in a container belongs to the container."""
    path = f"/kubepods/pod{POD}/{CONTAINER}/kubepods/pod{OTHER_POD}/{INNER}"

    assert identify(path) == Identity(path, pod_uid=POD, container_id=CONTAINER)


def test_a_path_seen_from_inside_a_cgroup_namespace_loses_its_dots() -> None:
    """`..` at the head of a path of /proc says where its reader sits, not whose the cgroup is."""
    identity = identify(f"/../../kubepods/pod{POD}//{CONTAINER}")

    assert identity == Identity(
        f"/kubepods/pod{POD}/{CONTAINER}", pod_uid=POD, container_id=CONTAINER
    )


def test_a_whole_proc_file_of_cgroup_v1() -> None:
    """The line with a pod wins over lines of controllers that the runtime does not use."""
    path = f"/kubepods/burstable/pod{POD}/{CONTAINER}"
    text = f"12:pids:/user.slice\n11:memory:{path}\n4:cpuset:/\n0::/\n"

    assert identify_process(text) == Identity(path, pod_uid=POD, container_id=CONTAINER)


def test_a_proc_file_without_pod_or_container_gives_the_first_path_in_order() -> None:
    """memory, pids, systemd's, the others, v2."""
    text = "0::/v2\n4:cpuset:/set\n3:name=systemd:/unit\n7:net_cls,pids:/pids\n"

    assert identify_process(text).path == "/pids"
    assert identify_process("0::/v2\n4:cpuset:/set\n").path == "/set"
    assert identify_process("").path == "/"


def test_no_control_character_makes_a_line() -> None:
    """A cgroup's name may have any of them but the newline, and must not pass for another line."""
    for separator in "\r\x0b\x0c\x1c\x85\u2028":
        path = f"/mine{separator}4:memory:/kubepods/pod{POD}/{CONTAINER}x"
        assert identify_process(f"0::{path}\n").path == path


def test_only_the_kernel_s_own_mark_is_cut_off() -> None:
    """v1 writes none: there it is part of a name."""
    assert identify_process("0::/a (deleted)\n").path == "/a"
    assert identify_process("4:pids:/a (deleted)\n").path == "/a (deleted)"


NAMES = st.one_of(
    st.text(max_size=80),
    st.from_regex(r"(.*-)?pod[0-9a-f_-]{30,37}(\.slice)?(:x:[0-9a-f]{63,65})?", fullmatch=True),
    st.from_regex(r"([a-z-]*-)?[0-9a-fA-F]{63,65}(\.scope)?", fullmatch=True),
    st.sampled_from([f"pod{POD}", f"a-pod{POD}.slice", CONTAINER, SCOPE, "..", "kubepods.slice"]),
)


@given(st.lists(NAMES, max_size=8).map("/".join))
def test_nothing_is_named_that_is_not_in_the_path(path: str) -> None:
    """Whatever a cgroup is called, nothing is raised and no id is made up."""
    for identity in (identify(path), identify_process(path), identify_process("0::/" + path)):
        uid, container = identity.pod_uid, identity.container_id
        assert uid is None or uid.replace("-", "_") in path.replace("-", "_")
        assert uid is None or len(uid) in {32, 36}
        assert container is None or (container in path and len(container) == 64)
        assert identity.path.startswith("/")


ABOVE = st.sampled_from(["kubelet", f"docker-{INNER}.scope", "a.slice", "kubepods", "..", "pod"])


@given(
    above=st.lists(ABOVE, max_size=5),
    pod=st.sampled_from([f"pod{POD}", f"x-kubepods-pod{LETTERS['u']}.slice"]),
    runtime=st.sampled_from(["", "cri-containerd-", "crio-", "docker-", "of-tomorrow_2-"]),
    scope=st.sampled_from(["", ".scope"]),
    below=st.lists(NAMES, max_size=5),
)
def test_what_is_above_a_pod_and_below_a_container_changes_nothing(
    above: list[str], pod: str, runtime: str, scope: str, below: list[str]
) -> None:
    """Nodes in containers, clusters in pods, runtimes that are not written yet."""
    path = "/".join(["", *above, pod, f"{runtime}{CONTAINER}{scope}", *below])

    identity = identify(path)

    assert (identity.pod_uid, identity.container_id) == (POD, CONTAINER)
