# SPDX-License-Identifier: Apache-2.0
"""`doctor` on a real host: it is as it says, before and after attaching, as root and nobody."""

import json

import pytest

from lab.vm import Vm

pytestmark = pytest.mark.vm

NOBODY = "/usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all"


def doctor(vm: Vm, prefix: str = "") -> dict[str, tuple[str, str]]:
    """Name of each check -> status and what was found."""
    done = vm.run(f"{prefix} xpumeter doctor -o json || true")
    checks = json.loads(done.output)["checks"]
    return {one["name"]: (one["status"], one["found"]) for one in checks}


def test_before_and_after_attaching(vm: Vm) -> None:
    """Programs load and leave nothing behind; then they count, and the ring wakes."""
    before = doctor(vm)
    assert before["attached"][0] == "warn"
    assert before["hook"] == (
        "ok",
        "fexit: loads; attaching is left to `attach`, which makes calls asleep in the driver go "
        "unseen",
    )
    assert before["cgroups"][0] == before["bpffs"][0] == before["BTF"][0] == "ok"
    assert before["runtime"][0] == "ok"
    vgem = "1 vgem (its first call names the driver)"
    assert before["devices"] == ("ok", f"1 virtio_gpu, 1 qxl, {vgem}")

    vm.run("xpumeter attach")
    try:
        after = doctor(vm)
        assert after["attached"][0] == after["hook"][0] == after["ring"][0] == "ok"
    finally:
        vm.run("xpumeter detach")


def test_without_privileges(vm: Vm) -> None:
    """It says what it cannot see, and what is missing; it does not fail."""
    vm.run("xpumeter attach")
    try:
        found = doctor(vm, NOBODY)
    finally:
        vm.run("xpumeter detach")

    assert found["attached"][0] == "ok"
    assert found["capabilities"] == (
        "ok",
        "none of those that attaching needs; attached already, so none is needed",
    )
    assert found["runtime"][0] == "warn"


def test_a_report_is_written(vm: Vm) -> None:
    """One file, with what the machine is; no name of it."""
    vm.run("xpumeter doctor --report /tmp/report.txt || true")
    report = vm.run("cat /tmp/report.txt").output

    assert "Linux version" in report
    assert vm.run("hostname").output.strip() not in report.split()
