# SPDX-License-Identifier: Apache-2.0
"""Attaching, detaching, and what a host gets that cannot do it."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import prepare
from lab.job import Job
from lab.vm import Vm

pytestmark = pytest.mark.vm

PINS = "/sys/fs/bpf/xpumeter"
LIMIT_S = 60
COUNTING_LIMIT_S = 10  # 2 on a quiet machine: docs/cost.md

# Becomes uid 65534 without capabilities, then runs the rest.
NOBODY = """
import os
from xpumeter.source import privileges
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
privileges.drop_all()
"""


def python(vm: Vm, code: str) -> str:
    """Output of Python code in the guest, with xpumeter's modules; it must end well."""
    (vm.work / "code.py").write_text(code)
    done = vm.run('PYTHONPATH="$XPUMETER_APP:/opt/site" python3 /vm/code.py')
    assert done.rc == 0, done.output
    return done.output


def rows(vm: Vm) -> str:
    """Calls of each row, as root reads them."""
    return python(
        vm,
        "from pathlib import Path\n"
        "from xpumeter.source.pins import Pins\n"
        f"print(*(row.calls for row in Pins(Path({PINS!r})).read().rows))\n",
    )


def until(job: Job, said: str) -> None:
    """Return when the job has said it; it must not end before."""
    end = time.monotonic() + LIMIT_S
    while said not in job.output:
        assert job.running, job.output
        assert time.monotonic() < end, job.output
        time.sleep(0.1)


@pytest.fixture
def attached(vm: Vm) -> Iterator[Vm]:
    """A VM that counts."""
    done = vm.run("xpumeter attach")
    assert done.rc == 0, done.output
    yield vm
    vm.run("xpumeter detach")


def test_counting_begins_soon(vm: Vm) -> None:
    """From the start of the command to the first call that counts."""
    vm.run("xpumeter devices")  # its files are read over 9p once; a host has a disk

    done = vm.run(
        "cut -d' ' -f1 /proc/uptime; xpumeter attach > /dev/null; "
        f"od -An -tu8 -j12 -N8 {PINS}/meta; xpumeter detach"
    )

    began, attached_ns, *_ = done.output.split()
    took_s = int(attached_ns) / 1e9 - float(began)
    print(f"counting {took_s:.2f} s after the start of attach")
    assert 0 < took_s < COUNTING_LIMIT_S


def test_attaching_twice_keeps_the_counts(attached: Vm) -> None:
    """The second says so, and what was counted before is still there."""
    attached.run("workload --speed 5 /dev/dri/card2")

    again = attached.run("xpumeter attach -o json")

    assert json.loads(again.output) == {
        "hook": "fexit",
        "pins": PINS,
        "attached": "before, and kept",
        "program": "this version's",
    }
    assert rows(attached) == "5\n"


def test_anyone_who_may_open_the_files_can_read(attached: Vm) -> None:
    """Another user, no capability: the rows are files. Only the ring is refused."""
    attached.run("workload --speed 7 /dev/dri/card2")

    said = python(
        attached,
        "from pathlib import Path\n"
        "from xpumeter.source.pins import Pins\n"
        "from xpumeter.source.ring import Ring, why_refused\n"
        + NOBODY
        + f"print(*(row.calls for row in Pins(Path({PINS!r})).read().rows))\n"
        "try:\n"
        f"    Ring(Path({PINS!r}))\n"
        "except OSError as error:\n"
        "    print(why_refused(error))\n",
    )

    assert said.splitlines()[0] == "7"
    assert "ermission denied" in said.splitlines()[1]


def test_run_needs_no_root(attached: Vm) -> None:
    """Another user, no capability: it joins, does without the ring, and ends when it is told."""
    running = attached.start(
        "exec /usr/bin/setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all "
        "--inh-caps=-all --no-new-privs xpumeter run"
    )
    until(running, "event=no_ring")
    running.signal("TERM")

    assert running.wait().rc == 0
    assert "event=joined hook=fexit" in running.output


def test_threads_on_both_processors_lose_nothing(attached: Vm) -> None:
    """Two at full speed in one row: every call is there."""
    both = attached.run(
        "workload --speed 20000 /dev/dri/card2 & workload --speed 20000 /dev/dri/card2; wait"
    )
    assert both.rc == 0

    calls = python(
        attached,
        "from pathlib import Path\n"
        "from xpumeter.source.pins import Pins\n"
        f"reading = Pins(Path({PINS!r})).read()\n"
        "print(*(row.calls for row in reading.rows), *(each.returns for each in reading.totals))\n",
    )
    assert calls == "40000 40000\n"


def test_detach_leaves_nothing(vm: Vm) -> None:
    """No pin, no program: calls are not counted any more, and there is nothing to detach again."""
    vm.run("xpumeter attach")

    removed = vm.run("xpumeter detach")

    assert removed.rc == 0
    assert "link_entry_stub" in removed.output
    assert vm.run("ls -A /sys/fs/bpf").output == ""
    again = vm.run("xpumeter detach")
    assert (again.rc, again.output) == (75, f"xpumeter: nothing is attached at {PINS}\n")


def test_without_privileges_it_says_which(vm: Vm) -> None:
    """One line that names the capabilities, and what to do: exit code 77."""
    said = python(
        vm,
        NOBODY + "from xpumeter import cli\n"
        "print([cli.main([command]) for command in ('attach', 'run')])\n",
    )

    attach, hint, run, _, codes = said.splitlines()
    assert attach == "xpumeter: attaching needs CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN"
    assert "sudo" in hint
    assert run.startswith(f"xpumeter: nothing is attached at {PINS}, and attaching needs CAP_BPF")
    assert codes == "[77, 77]"


def test_pins_that_a_user_may_not_enter_are_said_so(attached: Vm) -> None:
    """Many systems make /sys/fs/bpf root's alone: not a missing capability, and another remedy."""
    attached.run("chmod 700 /sys/fs/bpf")
    try:
        said = python(attached, NOBODY + "from xpumeter import cli\nprint(cli.main(['run']))\n")
    finally:
        attached.run("chmod 1777 /sys/fs/bpf")

    assert said.splitlines() == [
        f"xpumeter: {PINS} cannot be read: Permission denied",
        "  give this user the right to enter the folder and to read its files",
        "75",
    ]


def test_pins_outside_a_bpffs_are_refused(vm: Vm) -> None:
    """Exit code 69, and how to mount one."""
    (vm.work / "pins.yaml").write_text("receivers: {xpumeter: {pins: /tmp/xpumeter}}\n")

    said = vm.run("xpumeter attach --config /vm/pins.yaml")

    assert said.rc == 69
    assert said.output == (
        "xpumeter: /tmp is not in a BPF file system\n"
        "  let receivers.xpumeter.pins be a folder in /sys/fs/bpf\n"
    )


def test_a_program_that_the_kernel_refuses_gives_its_last_words(vm: Vm, tmp_path: Path) -> None:
    """The end of the verifier's log, and how to get the whole."""
    bpf = shutil.copytree(prepare.CHECKOUT / "bpf", tmp_path / "bpf")
    source = bpf / "xpumeter.bpf.c"
    # Reads memory at the address that the caller gave as its request.
    wild = source.read_text().replace(
        "return count_return(file, cmd, result);",
        "return count_return(file, cmd, result) + *(int *)(long)cmd;",
    )
    source.write_text(wild)
    subprocess.run(["make", "-s", "-B", "-C", bpf], check=True)
    (vm.work / "data").mkdir()
    shutil.copy(bpf / "build/xpumeter.bpf.o", vm.work / "data")

    said = vm.run("XPUMETER_DATA=/vm/data xpumeter attach")
    whole = vm.run("XPUMETER_DATA=/vm/data xpumeter attach --log-level debug")

    assert said.rc == 69
    first, *tail, hint = said.output.splitlines()
    assert first.startswith("xpumeter: no hook attaches on kernel ")
    assert any("invalid mem access" in line for line in tail)
    assert len(tail) <= 8
    assert hint.startswith("  --log-level debug prints the whole log")
    assert len(whole.output.splitlines()) > len(tail) + 20


def test_run_waits_for_a_driver(
    made: prepare.Parts, app: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No drm yet: attach says so and ends, run says so and counts as soon as it is loaded.

    A VM of its own: qxl of Linux 6.1 leaves its interrupt behind when it is unloaded.
    """
    kernel = prepare.kernel(made, prepare.metapackages()[0])
    work = tmp_path_factory.mktemp("bare") / "work"
    without = ("lab_drm=0", "lab_containerd=0")
    with Vm(made, kernel, work, app=app, variables=without) as vm:
        early = vm.run("xpumeter attach")
        running = vm.start("exec xpumeter run")
        until(running, "event=waiting")
        vm.run("modprobe vgem")
        until(running, "event=attached")
        vm.run("workload --speed 3 /dev/dri/card0")
        counted = rows(vm)
        running.signal("TERM")

        assert early.rc == 69
        assert early.output.startswith("xpumeter: drm is not loaded")
        assert counted == "3\n"
        assert running.wait().rc == 0
