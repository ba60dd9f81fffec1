# SPDX-License-Identifier: Apache-2.0
"""Driver tables: what is shipped, what a user may add, and what is refused in which words."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from unit.driver_tables import GOOD, write
from xpumeter import data_files, drivers, reference
from xpumeter.errors import HostError
from xpumeter.model.calls import HardwareType, Kind

CHECKOUT = Path(__file__).parents[2]
SHIPPED = sorted((CHECKOUT / "config/drivers").glob("*.yaml"))
SCHEMA = json.loads((CHECKOUT / "config/drivers.schema.json").read_text())


def test_the_shipped_tables_are_these() -> None:
    """Every driver that goes through drm_ioctl; the core calls are part of each."""
    tables = drivers.load()

    assert list(tables.by_driver) == [
        "amdgpu", "amdxdna_accel_driver", "asahi", "ethosu", "etnaviv", "habanalabs", "i915",
        "intel_vpu", "lima", "msm", "nouveau", "nova-drm", "nvidia-drm", "panfrost", "panthor",
        "powervr", "qaic", "qxl", "radeon", "rknpu", "rocket", "tegra", "v3d", "vc4", "vgem",
        "virtio_gpu", "vmwgfx", "xe",
    ]  # fmt: skip
    assert {nr: str(kind) for nr, kind in tables.core.kinds.items() if kind is not Kind.OTHER} == {
        0x09: "free", 0xB2: "alloc", 0xB4: "free", 0xC3: "wait", 0xCA: "wait",
    }  # fmt: skip
    for table in tables.by_driver.values():
        assert tables.core.kinds.items() <= table.kinds.items()
        assert table.hw_type
        assert table.since
        assert table.header


def test_what_has_no_call_is_said_to_be_not_observable() -> None:
    """For each driver and kind a call tells of it, or a sentence says why none does."""
    tables = drivers.load().by_driver

    assert "/dev/kfd" in tables["amdgpu"].not_observable[Kind.SUBMIT]
    for table in tables.values():
        assert {*table.observable, *table.not_observable} == set(Kind) - {Kind.OTHER}


def test_a_core_call_that_the_driver_refuses_tells_of_nothing() -> None:
    """Gaudi has no buffers of DRM's and the NPU no sync objects: their failures are no sign."""
    tables = drivers.load().by_driver

    assert tables["habanalabs"].observable == (Kind.SUBMIT, Kind.WAIT)
    assert tables["nova-drm"].observable == (Kind.ALLOC, Kind.FREE)
    assert tables["qxl"].observable == (Kind.SUBMIT, Kind.ALLOC, Kind.FREE)
    assert drivers.load().core.observable == (Kind.ALLOC, Kind.FREE, Kind.WAIT)


@pytest.mark.parametrize(
    ("driver", "name", "nr", "kind"),
    [
        ("msm", "DRM_IOCTL_MSM_GEM_CPU_PREP", 0x44, Kind.WAIT),
        ("panthor", "DRM_IOCTL_PANTHOR_GROUP_SUBMIT", 0x49, Kind.SUBMIT),
        ("vmwgfx", "DRM_VMW_EXECBUF", 0x4C, Kind.SUBMIT),
        ("habanalabs", "DRM_IOCTL_HL_MEMORY", 0x44, Kind.OTHER),
        ("rknpu", "DRM_IOCTL_RKNPU_MEM_DESTROY", 0x44, Kind.FREE),
        ("amdgpu", "DRM_IOCTL_AMDGPU_CS", 0x44, Kind.SUBMIT),
    ],
)
def test_one_number_is_another_call_in_another_driver(
    driver: str, name: str, nr: int, kind: Kind
) -> None:
    """0x44 waits, submits, frees, or does one thing or the other, by driver."""
    table = drivers.load().by_driver[driver]

    assert [(call.name, call.kind) for call in table.calls if call.nr == nr] == [(name, kind)]


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
    """A table may say otherwise of a call of DRM's core, where it names that call's header."""
    row = "  - {name: DRM_IOCTL_GEM_CLOSE, nr: 9, kind: other, header: drm/drm.h}\nnot_observable:"

    table = drivers.load([write(tmp_path, GOOD.replace("not_observable:", row))]).by_driver["toy"]

    assert table.kinds[0x09] is Kind.OTHER
    assert table.kinds[0xB2] is Kind.ALLOC


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.name)
def test_shipped_tables_fit_the_schema_and_name_it(file: Path) -> None:
    """An editor finds the schema by the first line, and has nothing to say."""
    text = file.read_text()

    assert text.startswith("# yaml-language-server: $schema=../drivers.schema.json\n")
    jsonschema.Draft202012Validator(SCHEMA).validate(yaml.safe_load(text))


def test_the_schema_is_one() -> None:
    """The schema itself is a valid one of its draft."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(yaml.safe_load(GOOD))


@pytest.mark.parametrize("page", ["drivers", "support"])
def test_the_pages_of_drivers_are_current(page: str) -> None:
    """docs/drivers.md and docs/support.md say what the tables say; `make docs` writes them."""
    assert (CHECKOUT / f"docs/{page}.md").read_text() == reference.PAGES[page]()


def test_support_says_how_much_is_known() -> None:
    """A header that was not compared, a run in a VM: each driver's line has its evidence."""
    page = reference.support_page().splitlines()
    lines = {line.split("`")[1]: line for line in page if line.startswith("| [`")}

    assert "| header not checked here |" in lines["nvidia-drm"]
    assert "| header checked |" in lines["xe"]
    assert "| header checked, VM (Linux 6.1) |" in lines["qxl"]
    assert "a doorbell, no call" in lines["amdgpu"]
    assert lines.keys() == drivers.load().by_driver.keys()


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
