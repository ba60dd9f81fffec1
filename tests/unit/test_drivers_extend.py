# SPDX-License-Identifier: Apache-2.0
"""A table that extends another: what it says, what it takes over, and what is refused."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from unit.driver_tables import GOOD, write
from xpumeter import drivers
from xpumeter.errors import DriverTableError
from xpumeter.model.calls import HardwareType, Kind

SCHEMA = json.loads((Path(__file__).parents[2] / "config/drivers.schema.json").read_text())

CORRECTION = """\
driver: i915
extends: i915
calls:
  - {name: DRM_IOCTL_I915_GEM_SET_DOMAIN, nr: 0x5f, kind: wait}
  - {name: DRM_IOCTL_I915_GEM_USERPTR, nr: 0x73, kind: other}
not_observable:
  wait: waits by poll()
tested:
  - {where: hardware, pci: "8086:56a0", kernel: "6.12", by: a user}
"""

TWIN = """\
driver: xe2
extends: xe
since: "8.1"
header: drm/xe2_drm.h
sysfs_drivers: [xe2]
calls:
  - {name: DRM_IOCTL_XE_EXEC, nr: 0x60, kind: submit}
  - {name: DRM_IOCTL_XE2_NEW, nr: 0x41, kind: alloc}
"""


def test_a_correction_says_only_what_is_other(tmp_path: Path) -> None:
    """The shipped table stays as it is, but for the calls and sentences of the new one."""
    shipped = drivers.load().by_driver["i915"]

    table = drivers.load([write(tmp_path, CORRECTION)]).by_driver["i915"]

    assert table.kinds == {**shipped.kinds, 0x5F: Kind.WAIT, 0x73: Kind.OTHER}
    assert table.not_observable == {**shipped.not_observable, Kind.WAIT: "waits by poll()"}
    assert (table.hw_type, table.vendor, table.since) == (
        HardwareType.GPU,
        "Intel",
        shipped.since,
    )
    assert table.sysfs_drivers == ("i915",)
    assert [report["by"] for report in table.tested] == ["a user"]
    assert table.source == str(tmp_path / "toy.yaml")


def test_another_driver_may_begin_with_a_table(tmp_path: Path) -> None:
    """Same name or same number replaces; what sysfs calls the other is not taken over."""
    tables = drivers.load([write(tmp_path, TWIN)]).by_driver
    twin = tables["xe2"]

    assert twin.kinds[0x60] is Kind.SUBMIT
    assert 0x49 not in twin.kinds
    assert {call.nr: call.name for call in twin.calls}[0x41] == "DRM_IOCTL_XE2_NEW"
    assert twin.kinds[0x4A] is Kind.WAIT
    assert (twin.vendor, twin.since, twin.sysfs_drivers) == ("Intel", "8.1", ("xe2",))
    headers = {call.name: call.header for call in twin.calls}
    assert headers["DRM_IOCTL_XE_EXEC"] == "drm/xe2_drm.h"
    assert headers["DRM_IOCTL_XE_WAIT_USER_FENCE"] == "drm/xe_drm.h"
    assert tables["xe"].kinds[0x49] is Kind.SUBMIT


def test_places_are_extended_in_their_order(tmp_path: Path) -> None:
    """A later place extends what an earlier one made of it, and core calls are extended alike."""
    (tmp_path / "second").mkdir()
    first = write(tmp_path, CORRECTION)
    second = write(
        tmp_path / "second",
        "driver: i915\nextends: i915\ncalls:\n"
        "  - {name: DRM_IOCTL_I915_GEM_BUSY, nr: 0x57, kind: wait}\n",
    )
    core = write(
        tmp_path / "second",
        "driver: core\nextends: core\ncalls:\n"
        "  - {name: DRM_IOCTL_MODE_ATOMIC, nr: 0xbc, kind: submit}\n",
        "core.yaml",
    )

    tables = drivers.load([first, second.parent])

    assert tables.by_driver["i915"].kinds[0x5F] is Kind.WAIT
    assert tables.by_driver["i915"].kinds[0x57] is Kind.WAIT
    assert tables.by_driver["xe"].kinds[0xBC] is Kind.SUBMIT
    assert tables.by_driver["xe"].kinds[0x09] is Kind.FREE
    assert core.exists()


@pytest.mark.parametrize("text", [CORRECTION, TWIN, "driver: core\nextends: core\n"])
def test_the_schema_knows_extensions(text: str) -> None:
    """What is taken over may be left out, in an editor too."""
    jsonschema.Draft202012Validator(SCHEMA).validate(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            CORRECTION.replace("extends: i915", "extends: i916"),
            ":2:10: extends: there is no table of 'i916' to extend",
            "did you mean 'i915'?",
        ),
        (
            CORRECTION.replace("extends: i915", "extends: core"),
            ":2:10: extends: only core extends core",
            "its calls are in every table as it is",
        ),
        (
            CORRECTION.replace("extends: i915", "extends: 915"),
            ":2:10: extends: expected a string, not a whole number",
            "put it in quotes",
        ),
        (CORRECTION.replace("extends: i915\n", ""), ":1:1: key 'type' is missing", ""),
        (GOOD.replace("driver: toy", "driver: core"), ":2:1: unknown key 'type'", "known: "),
    ],
)
def test_what_cannot_be_extended_is_said(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    """An unknown table, core by another, and a table that says too little without one."""
    file = write(tmp_path, text)

    with pytest.raises(DriverTableError) as caught:
        drivers.load([file])

    assert str(caught.value) == f"{file}{message}"
    assert hint in caught.value.hint
