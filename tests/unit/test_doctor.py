# SPDX-License-Identifier: Apache-2.0
"""What `doctor` says of a host, and that it says something of every host."""

import json
import os
import socket
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpumeter import doctor
from xpumeter.config import Config
from xpumeter.doctor import counting, examination, kernel, report, surroundings
from xpumeter.doctor.examination import Examination
from xpumeter.errors import HostError
from xpumeter.model.checks import Check, Status


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host as good as it can be; tests take something away."""
    for name, text in {
        "proc/self/status": f"CapEff:\t{(1 << 41) - 1:x}\nSeccomp:\t0\n",
        "proc/self/mounts": "bpf /sys/fs/bpf bpf rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
        "proc/sys/kernel/unprivileged_bpf_disabled": "2\n",
        "proc/sys/kernel/perf_event_paranoid": "3\n",
        "sys/kernel/btf/vmlinux": "",
        "sys/kernel/btf/drm": "",
        "sys/module/drm/initstate": "live\n",
        "sys/kernel/security/lockdown": "none [integrity] confidentiality\n",
        "sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n",
        "sys/fs/cgroup/kubepods.slice/cgroup.procs": "",
        "sys/class/drm/version": "drm 1.1.0 20060810\n",
    }.items():
        file = tmp_path / "root" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "root"


def on_kernel(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    real = os.uname()
    changed = os.uname_result((real.sysname, real.nodename, release, real.version, real.machine))
    monkeypatch.setattr(os, "uname", lambda: changed)


@pytest.mark.parametrize(
    ("release", "status"),
    [
        ("6.12.117+deb13-amd64", Status.OK),
        ("6.1.0-57-arm64", Status.OK),
        ("5.15.0-1-generic", Status.WARN),
        ("5.10.0-42-amd64", Status.FAIL),
        ("oddly named", Status.FAIL),
    ],
)
def test_old_kernels_are_told(
    root: Path, monkeypatch: pytest.MonkeyPatch, release: str, status: Status
) -> None:
    """6.1 is tested, 5.15 may work, older is refused; what cannot be read is no new kernel."""
    on_kernel(monkeypatch, release)

    found = kernel.release(root)

    assert (found.status, found.found) == (status, release)


def test_type_information_of_kernel_and_module(root: Path) -> None:
    """The module's is needed where drm is a module, and only there."""
    assert kernel.type_information(root).status is Status.OK
    (root / "sys/kernel/btf/drm").unlink()
    assert kernel.type_information(root).status is Status.FAIL
    (root / "sys/module/drm/initstate").unlink()
    assert kernel.type_information(root).found == "kernel"
    (root / "sys/kernel/btf/vmlinux").unlink()
    assert "CONFIG_DEBUG_INFO_BTF" in kernel.type_information(root).hint


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("[none] integrity confidentiality", Status.OK),
        ("none [integrity] confidentiality", Status.OK),
        ("none integrity [confidentiality]", Status.FAIL),
        ("", Status.UNKNOWN),
    ],
)
def test_lockdown(root: Path, text: str, status: Status) -> None:
    """Integrity does no harm; confidentiality does."""
    (root / "sys/kernel/security/lockdown").write_text(text)

    assert kernel.lockdown(root).status is status


def test_what_is_missing_is_named_with_its_remedy(root: Path, tmp_path: Path) -> None:
    """Capabilities, a BPF file system, drm."""
    pins = Path("/sys/fs/bpf/xpumeter")
    (root / "proc/self/status").write_text("CapEff:\t0\n")
    (root / "proc/self/mounts").write_text("")
    (root / "sys/class/drm/version").unlink()
    (root / "sys/class/drm").rmdir()

    capabilities = counting.privileges(root, tmp_path / "pins")
    assert capabilities.status is Status.WARN
    assert "missing CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN" in capabilities.found
    assert counting.bpffs(root, pins).hint.startswith("mount -t bpf bpf /sys/fs/bpf")
    assert kernel.driver(root).status is Status.WARN


HEAD = "#subsys_name hierarchy num_cgroups enabled\n"


@pytest.mark.parametrize(
    ("controllers", "folder", "found", "status"),
    [
        ("memory 0 9 1\npids 0 9 1\n", "kubepods.slice", "v2, pods by systemd", Status.OK),
        ("memory 0 9 1\npids 0 9 1\n", "kubepods", "v2, pods by cgroupfs", Status.OK),
        ("memory 4 9 1\npids 5 9 1\n", "unified", "v1, names come from pids", Status.OK),
        ("memory 4 9 1\n", "unified", "v1, names come from memory", Status.OK),
        ("cpu 4 9 1\n", "cpu", "v1 without pids and memory", Status.WARN),
    ],
)
def test_cgroup_layouts(
    tmp_path: Path, controllers: str, folder: str, found: str, status: Status
) -> None:
    """Where names come from and, where pods are seen, the driver that made their names."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cgroups").write_text(HEAD + controllers)
    (tmp_path / "sys/fs/cgroup" / folder).mkdir(parents=True)

    check = surroundings.cgroups(tmp_path, Config())

    assert (check.found, check.status) == (found, status)


def test_whether_a_collector_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent to it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        settings, _ = examination._configuration(None)
        assert surroundings.collector(Path("/"), settings).status is Status.OK
    absent = surroundings.collector(Path("/"), settings)
    assert (absent.status, absent.found) == (Status.WARN, f"{endpoint}: Connection refused")


def test_one_check_that_cannot_be_made_does_not_hide_the_others(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is unknown, with what happened."""

    def broken(_: Path) -> Check:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(kernel, "CHECKS", (broken, *kernel.CHECKS))

    found = doctor.examine(None, root=root)

    assert Check("broken", Status.UNKNOWN, "[Errno 13] Permission denied") in found.checks
    assert len(found.checks) > 15


def test_a_wrong_configuration_is_one_finding_among_others(root: Path, tmp_path: Path) -> None:
    """The rest is looked at with the defaults."""
    file = tmp_path / "x.yaml"
    file.write_text("receivers: {xpumeter: {collection_intervall: 10s}}\n")

    found = doctor.examine(file, root=root)

    assert found.checks[0].status is Status.FAIL
    assert "collection_intervall" in found.checks[0].found
    assert found.exit_code == HostError.exit_code


def test_scripts_read_the_exit_code_and_json() -> None:
    """Warnings are no failure; the object is as documented."""
    warned = Examination((Check("a", Status.OK, "b"), Check("c", Status.WARN, "d", "do e")))

    assert warned.exit_code == 0
    assert warned.document() == {
        "checks": [
            {"name": "a", "status": "ok", "found": "b", "hint": ""},
            {"name": "c", "status": "warn", "found": "d", "hint": "do e"},
        ]
    }
    assert warned.text() == (
        "ok       a  b\nwarn     c  d\n            -> do e\n\ncan this host count calls? yes"
    )


def test_whoever_is_warned_is_told_what_to_do(root: Path) -> None:
    """One line each, on a good host as on this one."""
    for where in (root, Path("/")):
        for check in doctor.examine(None, root=where).checks:
            if check.status in {Status.WARN, Status.FAIL}:
                assert check.hint, check
                assert "\n" not in check.hint + check.found


def test_a_report_names_nobody(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither this host, nor a container, nor the Collector's."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel.corp.example:4317")
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu-host-7")
    secret = Check("x", Status.WARN, f"on gpu-host-7: /pod{uuid.uuid4()}/{'c' * 64} 10.1.2.3", "y")

    text = report.text(Examination((secret, *doctor.examine(None).checks)), root=root)

    assert "on HOST: /podUID/CONTAINER ADDRESS" in text
    for private in ("gpu-host-7", "corp.example", "10.1.2.3", "c" * 64):
        assert private not in text
    assert json.loads(text.split("## versions\n\n")[1].split("\n\n##")[0])["xpumeter"]


@given(
    st.uuids(),
    st.sampled_from([str, lambda one: str(one).replace("-", "_"), lambda one: one.hex]),
    st.text(alphabet="/-. _:x", max_size=3),
)
def test_no_uid_survives(one: uuid.UUID, form: Callable[[uuid.UUID], str], around: str) -> None:
    """However a runtime spells it."""
    spelled = form(one)

    assert spelled not in report.private(f"{around}{spelled}{around}")
