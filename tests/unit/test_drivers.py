# SPDX-License-Identifier: Apache-2.0
"""Driver tables: what is shipped, what a user may add, and what is refused in which words."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from xpumeter import data_files, drivers, reference
from xpumeter.errors import DriverTableError, HostError
from xpumeter.model.calls import HardwareType, Kind

CHECKOUT = Path(__file__).parents[2]
SHIPPED = sorted((CHECKOUT / "config/drivers").glob("*.yaml"))
SCHEMA = json.loads((CHECKOUT / "config/drivers.schema.json").read_text())

GOOD = """\
driver: toy
type: npu
header: drm/toy_drm.h
sysfs: [toy]
calls:
  - {name: DRM_IOCTL_TOY_RUN, nr: 0x40, kind: submit}
not_observable:
  wait: it never waits
tested:
  - {where: hardware, kernel: "6.12", by: a user}
"""


def write(folder: Path, text: str, name: str = "toy.yaml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def schema_refuses(document: Any) -> bool:
    return not jsonschema.Draft202012Validator(SCHEMA).is_valid(document)


def test_the_shipped_tables_are_these() -> None:
    """Seven drivers; the core calls are part of each."""
    tables = drivers.load()

    assert list(tables.by_driver) == [
        "amdgpu", "i915", "intel_vpu", "qxl", "vgem", "virtio_gpu", "xe",
    ]  # fmt: skip
    assert {nr: str(kind) for nr, kind in tables.core.kinds.items()} == {
        0x09: "free", 0xB2: "alloc", 0xB4: "free", 0xC3: "wait", 0xCA: "wait",
    }  # fmt: skip
    for table in tables.by_driver.values():
        assert tables.core.kinds.items() <= table.kinds.items()
        assert all(kind is not Kind.OTHER for kind in table.kinds.values())
        assert set(table.not_observable) >= {Kind.ALLOC, Kind.FREE, Kind.WAIT}


def test_what_has_no_call_is_said_to_be_not_observable() -> None:
    """A driver whose submits are none or not all calls says so."""
    tables = drivers.load().by_driver

    assert "/dev/kfd" in tables["amdgpu"].not_observable[Kind.SUBMIT]
    for table in tables.values():
        observable = set(table.kinds.values())
        assert observable | set(table.not_observable) >= set(Kind) - {Kind.OTHER}


@pytest.mark.parametrize(
    ("sysfs_driver", "driver"),
    [("virtio-pci", "virtio_gpu"), ("xe", "xe"), ("faux_driver", None), (None, None)],
)
def test_sysfs_stands_in_for_the_drm_name(sysfs_driver: str | None, driver: str | None) -> None:
    """`DRIVER=` leads to the table, under another name than DRM's for some."""
    table = drivers.load().of_sysfs(sysfs_driver)

    assert (table.driver if table else None) == driver


def test_a_new_driver_is_a_file(tmp_path: Path) -> None:
    """A mounted folder adds hardware, core calls included; hidden files are not looked at."""
    write(tmp_path, GOOD)
    write(tmp_path, "nonsense", ".toy.yaml")
    write(tmp_path, "nonsense", "README")

    table = drivers.load([tmp_path]).by_driver["toy"]

    assert table.hw_type is HardwareType.NPU
    assert table.kinds[0x40] is Kind.SUBMIT
    assert table.kinds[0x09] is Kind.FREE
    assert table.not_observable[Kind.WAIT] == "it never waits"
    assert table.tested == ({"where": "hardware", "kernel": "6.12", "by": "a user"},)


def test_the_later_table_of_a_driver_counts(tmp_path: Path) -> None:
    """A correction replaces the whole shipped table, also as a single file."""
    file = write(tmp_path, GOOD.replace("toy\n", "xe\n", 1))

    table = drivers.load([file]).by_driver["xe"]

    assert table.source == str(file)
    assert 0x49 not in table.kinds


def test_a_tables_own_row_beats_the_core(tmp_path: Path) -> None:
    """A driver that uses a core number for something else says what it is there."""
    row = "  - {name: DRM_IOCTL_TOY_CLOSE, nr: 0x09, kind: wait}\nnot_observable:"

    table = drivers.load([write(tmp_path, GOOD.replace("not_observable:", row))]).by_driver["toy"]

    assert table.kinds[0x09] is Kind.WAIT


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
    ("sysfs: [toy]", "sysfs: toy", "4:8: sysfs: expected a list, not a string"),
    ("sysfs: [toy]", "sysfs: ['']", "4:9: sysfs[0]: expected text on one line"),
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
        "kind: other",
        "6:47: calls[0].kind: unknown value 'other' | known: submit, alloc, free, wait",
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
        ("driver: !!str toy\nb: !c d\n", ":2:1: unknown key 'b'", "known: driver, type, vendor, "),
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
        DriverTableError, match=re.escape(f"{file}: sysfs: 'i915' is i915's already")
    ):
        drivers.load([file])


def test_a_folder_that_is_not_there_or_empty_is_an_error(tmp_path: Path) -> None:
    """A mount that did not happen is not passed over."""
    with pytest.raises(DriverTableError, match="x: cannot be read: No such file or directory"):
        drivers.load([tmp_path / "x"])
    with pytest.raises(DriverTableError, match="no driver table in it"):
        drivers.load([tmp_path])


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.name)
def test_shipped_tables_fit_the_schema_and_name_it(file: Path) -> None:
    """An editor finds the schema by the first line, and has nothing to say."""
    text = file.read_text()

    assert text.startswith("# yaml-language-server: $schema=../drivers.schema.json\n")
    jsonschema.Draft202012Validator(SCHEMA).validate(yaml.safe_load(text))


def test_the_schema_is_one() -> None:
    """The schema itself is a valid one of its draft."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert not schema_refuses(yaml.safe_load(GOOD))


def test_the_page_of_drivers_is_current() -> None:
    """docs/drivers.md says what the tables say; `make docs` writes it."""
    assert (CHECKOUT / "docs/drivers.md").read_text() == reference.drivers_page()


def test_data_is_looked_for_where_the_environment_says_first(tmp_path: Path) -> None:
    """XPUMETER_DATA, then the package; what it lacks comes from the package."""
    (tmp_path / "xpumeter.bpf.o").touch()
    environ = {"XPUMETER_DATA": str(tmp_path)}

    assert data_files.find("xpumeter.bpf.o", environ) == tmp_path / "xpumeter.bpf.o"
    assert data_files.find("drivers", environ) == data_files.find("drivers", {})


def test_data_that_is_nowhere_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The places are named, and the command that makes the file."""
    monkeypatch.setattr(data_files, "__file__", str(tmp_path / "receiver/xpumeter/data_files.py"))

    with pytest.raises(HostError, match=re.escape("xpumeter.bpf.o is not in ")) as caught:
        data_files.find("xpumeter.bpf.o", {})

    assert "`make -C bpf`" in caught.value.hint
