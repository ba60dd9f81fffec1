# SPDX-License-Identifier: Apache-2.0
"""One VM per kernel, which all tests of that kernel share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import prepare
from lab.errors import LabError
from lab.require import cannot_run
from lab.vm import Vm
from lab.wheels import xpumeter_tree


@pytest.fixture(scope="session")
def made() -> prepare.Parts:
    """Everything but the kernel."""
    try:
        return prepare.parts()
    except LabError as error:
        cannot_run("vm", error)


@pytest.fixture(scope="session")
def app(made: prepare.Parts) -> Path:
    """The checkout, as the guest's `xpumeter` runs it."""
    return xpumeter_tree(made.cache, made.root, prepare.CHECKOUT)


@pytest.fixture(scope="session", params=prepare.metapackages())
def vm(
    request: pytest.FixtureRequest,
    made: prepare.Parts,
    app: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Vm]:
    """A running VM: virtio_gpu is /dev/dri/card0, qxl card1, vgem card2; containerd is up."""
    try:
        kernel = prepare.kernel(made, request.param)
        running = Vm(made, kernel, tmp_path_factory.mktemp("vm") / "work", app=app)
        running.boot()
    except LabError as error:
        cannot_run("vm", f"{error}\n{error.hint}")
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def counting(vm: Vm) -> Iterator[Vm]:
    """A VM that counts."""
    done = vm.run("xpumeter attach")
    assert done.rc == 0, done.output
    yield vm
    vm.run("xpumeter detach")
