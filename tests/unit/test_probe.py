# SPDX-License-Identifier: Apache-2.0
"""A host that cannot count says why, in one line, and what to do."""

from pathlib import Path

import pytest

from xpumeter.errors import DriverNotLoaded, HostError, MissingCapability
from xpumeter.source import privileges, probe
from xpumeter.source.layout import Hierarchy
from xpumeter.source.privileges import Capability

GOOD = probe.Host(kernel="6.12.1", kernel_btf=True, drm=True, drm_module_btf=True, missing=())
MOUNTS = """\
proc /proc proc rw 0 0
sysfs /sys sysfs rw 0 0
bpf /sys/fs/bpf bpf rw,mode=700 0 0
tmpfs /sys/fs/bpf/over tmpfs rw 0 0
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    """A file like /proc/self/mounts."""
    file = tmp_path / "mounts"
    file.write_text(MOUNTS)
    return file


@pytest.mark.parametrize(
    ("folder", "found"),
    [("/sys/fs/bpf", True), ("/sys/fs/bpf/deep", True), ("/sys/fs/bpfx", False),
     ("/sys/fs", False), ("/sys/fs/bpf/over", False), ("/nowhere", False)],
)  # fmt: skip
def test_a_bpffs_is_known_by_its_mount(mounts: Path, folder: str, found: bool) -> None:
    """The innermost mount over the folder decides."""
    assert probe.is_bpffs(Path(folder), mounts=mounts) is found


def test_missing_capabilities_are_named() -> None:
    """Not `permission denied`: which, and what to do."""
    host = GOOD._replace(missing=("CAP_BPF", "CAP_PERFMON"))

    with pytest.raises(MissingCapability, match=r"^attaching needs CAP_BPF, CAP_PERFMON$") as found:
        probe.require_attachable(host, Path("/sys/fs/bpf/xpumeter"))
    assert found.value.exit_code == 77
    assert "sudo" in found.value.hint


def test_a_kernel_without_type_information() -> None:
    """No BTF, no CO-RE."""
    with pytest.raises(HostError, match=r"^kernel 6\.12\.1 has no BTF") as found:
        probe.require_attachable(GOOD._replace(kernel_btf=False), Path("/sys/fs/bpf/xpumeter"))
    assert found.value.exit_code == 69


@pytest.mark.parametrize(
    ("pins", "hint"),
    [
        ("/sys/fs/bpf/xpumeter", "mount one: mount -t bpf bpf /sys/fs/bpf"),
        ("/tmp/xpumeter", "let receivers.xpumeter.pins be a folder in /sys/fs/bpf"),
    ],
)
def test_pins_need_a_bpffs(monkeypatch: pytest.MonkeyPatch, pins: str, hint: str) -> None:
    """An ordinary folder cannot hold them; the usual place is to be mounted, and no other."""
    monkeypatch.setattr(probe, "is_bpffs", lambda _path: False)

    with pytest.raises(HostError, match="is not in a BPF file system") as found:
        probe.require_attachable(GOOD, Path(pins))
    assert found.value.hint == hint


def test_a_name_with_a_dot_is_refused_before_the_kernel_does() -> None:
    """The kernel would say `Operation not permitted`, which helps nobody."""
    with pytest.raises(
        HostError, match=r"^/sys/fs/bpf/x\.1: a BPF file system takes no names with"
    ):
        probe.require_attachable(GOOD, Path("/sys/fs/bpf/x.1"))


@pytest.mark.parametrize(
    ("controllers", "found"),
    [
        ("cpu 0 90 1, memory 0 90 1, pids 0 90 1", Hierarchy.V2),
        ("cpu 2 90 1, memory 4 90 1, pids 7 90 1", Hierarchy.PIDS),
        ("cpu 2 90 1, memory 4 90 1, pids 0 90 1", Hierarchy.MEMORY),
        ("cpu 2 90 1, memory 4 90 1", Hierarchy.MEMORY),
        ("cpu 2 90 1, memory 0 90 0, pids 7 90 1", Hierarchy.PIDS),
        ("net_cls 2 1 1, memory 0 90 1, pids 0 90 1", Hierarchy.V2),
        ("cpu 2 90 1, memory 0 90 0", Hierarchy.V1),
        ("nonsense, cpu 0", Hierarchy.V2),
    ],
)
def test_containers_are_where_the_controllers_are(
    tmp_path: Path, controllers: str, found: Hierarchy
) -> None:
    """On v1 the pids or the memory hierarchy names them, wherever v2 is mounted besides."""
    (tmp_path / "proc").mkdir()
    lines = ["#subsys_name\thierarchy\tnum_cgroups\tenabled"]
    lines += ["\t".join(each.split()) for each in controllers.split(", ")]
    (tmp_path / "proc/cgroups").write_text("\n".join(lines) + "\n")

    assert probe.hierarchy(tmp_path) is found


def test_a_kernel_that_does_not_list_controllers_has_no_v1(tmp_path: Path) -> None:
    """Then there is v2 alone."""
    assert probe.hierarchy(tmp_path) is Hierarchy.V2


def test_a_driver_that_is_not_loaded_may_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """`run` waits for it; `attach` says so."""
    monkeypatch.setattr(probe, "is_bpffs", lambda _path: True)

    with pytest.raises(DriverNotLoaded, match=r"^drm is not loaded"):
        probe.require_attachable(GOOD._replace(drm=False), Path("/sys/fs/bpf/xpumeter"))


def test_capabilities_are_read_from_the_effective_set(tmp_path: Path) -> None:
    """CAP_BPF alone: bit 39."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self/status").write_text("CapPrm:\t000001ffffffffff\nCapEff:\t0000008000000000\n")

    assert privileges.missing((Capability.CAP_BPF, Capability.CAP_PERFMON), proc=tmp_path) == (
        "CAP_PERFMON",
    )
