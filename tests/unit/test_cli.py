# SPDX-License-Identifier: Apache-2.0
"""The command line: what it prints, and how it ends."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from unit.recorded import HOSTS, sysfs_of
from xpumeter import cli
from xpumeter.commands import attach as attach_command


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output, errors."""
    code = cli.main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_help_tells_a_newcomer_what_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    """What it does, the commands, the exit codes."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])

    text = capsys.readouterr().out
    assert ended.value.code == 0
    for command in ("run", "attach", "detach", "devices", "drivers", "identify", "validate"):
        assert f"\n    {command} " in text
    assert "sudo xpumeter run --config xpumeter.yaml" in text
    assert "  77  a capability is missing" in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, name and version."""
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out.startswith("xpumeter 0.")


def test_devices_of_a_recorded_host(capsys: pytest.CaptureFixture[str]) -> None:
    """A line per device under a heading, no node opened, no privilege."""
    code, out, _ = run(capsys, "devices", "--sysfs", str(HOSTS / "virtio-qxl-vgem.txt"))

    lines = out.splitlines()
    assert code == 0
    assert lines[0].split("  ")[0] == "DRIVER"
    assert any("0000:00:10.0" in line and "virtio_gpu" in line for line in lines)


def test_devices_opens_no_device() -> None:
    """Not even to ask: whatever is opened is a file of sysfs, of ours, or of Python."""
    code = (
        "import sys\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, what: event == 'open' and opened.append(str(what[0])))\n"
        "from xpumeter import cli\n"
        "cli.main(['devices'])\n"
        "print(*(path for path in opened if path.startswith('/dev/')), file=sys.stderr)\n"
        "print(any('virtio_gpu.yaml' in path for path in opened), file=sys.stderr)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert ended.stderr.splitlines()[-2:] == ["", "True"]


def test_devices_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """An array of objects; what is unknown is null."""
    _, out, _ = run(capsys, "devices", "-o", "json", "--sysfs", str(HOSTS / "virtio-qxl-vgem.txt"))

    (vgem,) = (each for each in json.loads(out) if each["id"] == "vgem")
    assert vgem["pci_id"] is None
    assert vgem["observable"] == ["alloc", "free", "wait"]


def test_a_host_is_recorded_and_shown_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One command writes the file, which is a /sys to the next; the tree is the same."""
    host, file = str(HOSTS / "laptop.txt"), str(tmp_path / "mine.txt")
    _, tree, _ = run(capsys, "devices", "--tree", "--sysfs", host)
    sysfs_of("laptop", tmp_path)

    code, out, _ = run(capsys, "devices", "--sysfs", str(tmp_path / "laptop"), "--record", file)

    assert (code, out.split(":")[0]) == (0, f"recorded in {file}")
    assert run(capsys, "devices", "--tree", "--sysfs", file) == (0, tree, "")
    assert "0000:00:0b.0  intel_vpu  Intel  accel/accel0" in tree


def test_a_record_that_cannot_be_written_or_read_is_said_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One line each, exit code 69."""
    odd = tmp_path / "odd.txt"
    odd.write_text("class/drm/card0\n")

    wrote = run(capsys, "devices", "--record", str(tmp_path))
    read = run(capsys, "devices", "--sysfs", str(odd))

    assert (wrote[0], wrote[2]) == (69, f"xpumeter: {tmp_path} cannot be written: Is a directory\n")
    assert (read[0], read[2].splitlines()) == (
        69,
        [
            f"xpumeter: {odd}:1: neither `PATH = TEXT` nor `PATH -> TARGET`",
            "  record a host with: xpumeter devices --record FILE",
        ],
    )


UID, ID = "b5ebee9a-740b-4b72-b4b4-200165f8c557", "05" * 32
POD = f"/kubepods/besteffort/pod{UID}/{ID}"


def test_identify_says_whose_a_path_is(capsys: pytest.CaptureFixture[str]) -> None:
    """A path of the kernel's, and a line of /proc/PID/cgroup; one JSON object for each."""
    lines = (POD, f"0::{POD}", "/system.slice/kubelet.service")
    code, out, _ = run(capsys, "identify", "-o", "json", *lines)

    container = {"pod_uid": UID, "container_id": ID, "unit": None, "path": POD}
    service = {
        "pod_uid": None,
        "container_id": None,
        "unit": "kubelet.service",
        "path": "/system.slice/kubelet.service",
    }
    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [container, container, service]


def test_identify_takes_a_whole_file_for_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the hierarchies of a v1 host the one that names most; a name without `/` is a path."""
    whole = f"12:pids:/user.slice\n11:memory:{POD}\n4:cpuset:/\n0::/\n"
    colon = f"kubepods-pod{UID}.slice:cri-containerd:{ID}"
    _, out, _ = run(capsys, "identify", "-o", "json", whole, colon)

    found = [json.loads(line) for line in out.splitlines()]
    assert [(each["path"], each["container_id"]) for each in found] == [
        (POD, ID),
        (f"/{colon}", ID),
    ]


def test_identify_reads_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From standard input, as a table."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{POD}\n\n/init.scope\n"))

    _, out, _ = run(capsys, "identify", "-")

    header, pod, scope = out.splitlines()
    assert header.split() == ["POD", "UID", "CONTAINER", "ID", "UNIT", "PATH"]
    assert pod.split() == [UID, ID, "-", POD]
    assert scope.split() == ["-", "-", "init.scope", "/init.scope"]


def test_a_folder_that_is_no_sysfs_is_said_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Not an empty table."""
    code, out, errors = run(capsys, "devices", "--sysfs", str(tmp_path))

    assert (code, out) == (69, "")
    assert errors == f"xpumeter: {tmp_path} is no /sys: it has no folder `class`\n"


def test_a_host_without_devices_is_said_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Beside the empty table, where scripts do not read it."""
    (tmp_path / "class").mkdir()

    code, out, errors = run(capsys, "devices", "-o", "json", "--sysfs", str(tmp_path))

    assert (code, out) == (0, "[]\n")
    assert errors == f"xpumeter: no device in {tmp_path}/class/drm or accel\n"


def test_a_fault_of_ours_is_one_line_and_its_own_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No traceback, unless it is asked for."""
    monkeypatch.setattr(attach_command, "where", lambda _options: 1 / 0)

    code, _, errors = run(capsys, "detach")

    assert code == 70
    assert errors.startswith("xpumeter: ZeroDivisionError: division by zero\n  a fault of xpumeter")
    with pytest.raises(ZeroDivisionError):
        cli.main(["detach", "--log-level", "debug"])


def test_a_wrong_configuration_names_its_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """File, line, column and the nearest right name; exit code 78."""
    file = tmp_path / "x.yaml"
    file.write_text("receivers:\n  xpumeter:\n    colection_interval: 5s\n")

    code, _, errors = run(capsys, "validate", "--config", str(file))

    assert code == 78
    assert errors.startswith(f"xpumeter: {file}:3:5: ")
    assert "collection_interval" in errors


def test_detaching_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """There is nothing to do, and it says so: exit code 75."""
    file = tmp_path / "x.yaml"
    file.write_text(f"receivers: {{xpumeter: {{pins: {tmp_path}/pins}}}}\n")

    code, _, errors = run(capsys, "detach", "--config", str(file))

    assert (code, errors) == (75, f"xpumeter: nothing is attached at {tmp_path}/pins\n")


def test_attaching_imports_what_it_needs() -> None:
    """Counting must not wait for gRPC, for YAML, nor for what only the naming needs."""
    code = (
        "import sys\n"
        "from xpumeter import cli, data_files\n"
        "from xpumeter.source import attach\n"
        "late = {'grpc', 'google', 'opentelemetry', 'yaml', 'logging', 'dataclasses'}\n"
        "print(*late & sys.modules.keys(), 'xpumeter.model' in sys.modules)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert ended.stdout == "False\n"
