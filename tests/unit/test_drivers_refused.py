# SPDX-License-Identifier: Apache-2.0
"""Driver tables that are refused, and in which words; the schema refuses what it can see."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from unit.driver_tables import GOOD, write
from xpumeter import drivers
from xpumeter.errors import DriverTableError

SCHEMA = json.loads((Path(__file__).parents[2] / "config/drivers.schema.json").read_text())


def schema_refuses(document: Any) -> bool:
    return not jsonschema.Draft202012Validator(SCHEMA).is_valid(document)


BROKEN = [
    ("driver: toy\n", "", "1:1: key 'driver' is missing"),
    (
        "driver: toy",
        "driver: 7",
        "1:9: driver: expected a string, not a whole number | put it in quotes",
    ),
    ("driver: toy", "driver: a b", "1:9: driver: 'a b' is not a driver's DRM name"),
    ("type: npu", "type: tpu", "2:7: type: unknown value 'tpu' | did you mean 'npu'?"),
    (
        "header: drm/",
        "header: /drm/",
        "3:9: header: '/drm/toy_drm.h' is not a header below /usr/include",
    ),
    ("_drivers: [toy]", "_drivers: toy", "4:16: sysfs_drivers: expected a list, not a string"),
    ("[toy]", "['']", "4:17: sysfs_drivers[0]: expected text on one line"),
    ("sysfs_drivers:", "sysfs:", "4:1: unknown key 'sysfs' | it is called sysfs_drivers"),
    (
        "sysfs_drivers: [toy]",
        "core: [gem]",
        "4:8: core[0]: unknown value 'gem' | known: submit, alloc, free, wait",
    ),
    (
        "sysfs_drivers: [toy]",
        "since: 6.8",
        "4:8: since: expected a string, not a number | put it in quotes",
    ),
    ("calls:", "callls:", "5:1: unknown key 'callls' | did you mean 'calls'?"),
    (
        "nr: 0x40",
        "number: 0x40",
        "6:31: calls[0]: unknown key 'number' | did you mean 'name'?",
    ),
    ("nr: 0x40, ", "", "6:5: calls[0]: key 'nr' is missing"),
    ("0x40", "0x100", "6:35: calls[0].nr: 0x100 is not in 0x0..0xff"),
    ("0x40", "-1", "6:35: calls[0].nr: -1 is not in 0x0..0xff"),
    ("0x40", "'0x40'", "6:35: calls[0].nr: expected a whole number, not a string"),
    (
        "kind: submit",
        "kind: Submit",
        "6:47: calls[0].kind: unknown value 'Submit' | did you mean 'submit'?",
    ),
    (
        "kind: submit",
        "kind: map",
        "6:47: calls[0].kind: unknown value 'map' | known: submit, alloc, free, wait, other",
    ),
    (
        "0x40",
        "0x09",
        "6:35: calls[0].nr: 0x09 is no call of a driver's own, which are 0x40..0x9f | offsets "
        "count from there: 0x49? a call of DRM's core has `header: drm/drm.h`",
    ),
    (
        "0x40",
        "0xb2",
        "6:35: calls[0].nr: 0xb2 is no call of a driver's own, which are 0x40..0x9f | a call of "
        "DRM's core has `header: drm/drm.h`",
    ),
    (
        "kind: submit",
        "kind: submit, header: drm/drm.h",
        "6:35: calls[0].nr: 0x40 is no call of DRM's core | 0x40..0x9f are the drivers'",
    ),
    ("DRM_IOCTL_TOY_RUN", "toy_run", "6:12: calls[0].name: 'toy_run' is not the name of a macro"),
    (
        "  wait: it",
        "  idle: it",
        "8:3: not_observable: unknown key 'idle' | known: submit, alloc, free, wait",
    ),
    ("it never waits", "", "8:8: not_observable.wait: expected a string, not nothing"),
    (
        "where: hardware",
        "where: here",
        "10:13: tested[0].where: unknown value 'here' | known: vm, hardware",
    ),
    (
        '"6.12"',
        "6.12",
        "10:31: tested[0].kernel: expected a string, not a number | put it in quotes",
    ),
]


@pytest.mark.parametrize(("old", "new", "said"), BROKEN)
def test_what_is_wrong_is_said_with_its_place(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    """File, line and column, the path of the key, and the nearest right name; the schema agrees."""
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    file = write(tmp_path, text)

    with pytest.raises(DriverTableError) as caught:
        drivers.load([tmp_path])

    message, _, hint = said.partition(" | ")
    assert str(caught.value) == f"{file}:{message}"
    assert caught.value.hint == hint
    assert schema_refuses(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            GOOD.replace("not_obs", "  - {name: DRM_X, nr: 64, kind: wait}\nnot_obs"),
            ":7:23: calls[1].nr: 0x40 stands twice",
            "it is DRM_IOCTL_TOY_RUN too",
        ),
        (
            GOOD.replace("not_obs", "  - {name: DRM_IOCTL_TOY_RUN, nr: 65, kind: wait}\nnot_obs"),
            ":7:12: calls[1].name: DRM_IOCTL_TOY_RUN stands twice",
            "",
        ),
        (GOOD + "type: gpu\n", ":11:1: key 'type' stands twice", "see line 2"),
        ("", ":1:1: expected a mapping, not nothing", ""),
        ("- a\n", ":1:1: expected a mapping, not a list", ""),
        ("a: [\n", ":2:1: not YAML: did not find expected node content", ""),
        ("driver: !!str toy\nb: !c d\n", ":2:1: unknown key 'b'", "known: driver, extends, type, "),
        (
            GOOD.replace("npu", "!x npu"),
            ":2:7: type: expected a string, not a value with the tag !x",
            "",
        ),
        ("driver: core\nheader: drm/drm.h\ntype: gpu\ncalls: []\n", ":3:1: unknown key 'type'", ""),
    ],
)
def test_what_only_the_reader_sees_is_said_too(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    """Duplicates, and what is no YAML or none of ours."""
    file = write(tmp_path, text)

    with pytest.raises(DriverTableError) as caught:
        drivers.load([file])

    assert str(caught.value) == f"{file}{message}"
    assert hint in caught.value.hint


def test_two_tables_of_one_driver_in_a_folder_are_an_error(tmp_path: Path) -> None:
    """Which of them counts would depend on the names of the files."""
    first, second = write(tmp_path, GOOD, "a.yaml"), write(tmp_path, GOOD, "b.yml")

    with pytest.raises(DriverTableError) as caught:
        drivers.load([tmp_path])

    assert str(caught.value) == f"{second}: driver 'toy' has a table already"
    assert caught.value.hint == f"see {first}"


def test_a_sysfs_name_belongs_to_one_driver(tmp_path: Path) -> None:
    """Two drivers under one `DRIVER=` could not be told apart before the first call."""
    file = write(tmp_path, GOOD.replace("[toy]", "[toy, i915]"))

    with pytest.raises(
        DriverTableError, match=re.escape(f"{file}: sysfs_drivers: 'i915' is i915's already")
    ):
        drivers.load([file])


def test_a_folder_that_is_not_there_or_empty_is_an_error(tmp_path: Path) -> None:
    """A mount that did not happen is not passed over."""
    with pytest.raises(DriverTableError, match="x: cannot be read: No such file or directory"):
        drivers.load([tmp_path / "x"])
    with pytest.raises(DriverTableError, match="no driver table in it"):
        drivers.load([tmp_path])
