# SPDX-License-Identifier: Apache-2.0
"""`xpumeter drivers`, and what `devices` says where a table is missing."""

import json
from pathlib import Path

import pytest

from unit.driver_tables import GOOD, write
from xpumeter import cli

HOSTS = Path(__file__).parents[1] / "hosts"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output, errors."""
    code = cli.main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_list_has_a_line_for_each_driver(capsys: pytest.CaptureFixture[str]) -> None:
    """What it drives, from which Linux on, and of which kinds a call tells."""
    code, out, _ = run(capsys, "drivers", "list")

    lines = {line.split()[0]: line for line in out.splitlines()}
    assert code == 0
    assert out.startswith("DRIVER ")
    assert len(lines) >= 28
    assert "npu   Intel        6.12         submit wait  " in lines["habanalabs"]


def test_list_takes_further_tables(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """As JSON one object for each, null for what the table does not say."""
    file = write(tmp_path, GOOD)

    code, out, _ = run(capsys, "drivers", "list", "--drivers", str(tmp_path), "-o", "json")

    (toy,) = [each for each in json.loads(out) if each["driver"] == "toy"]
    assert code == 0
    assert toy == {
        "driver": "toy",
        "type": "npu",
        "vendor": None,
        "since": None,
        "observable": ["submit", "alloc", "free", "wait"],
        "file": str(file),
    }


def test_show_has_all_that_a_table_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Calls with name, number and kind, the core's too; and what no call shows."""
    code, out, _ = run(capsys, "drivers", "show", "habanalabs", "-o", "json")

    shown = json.loads(out)
    assert code == 0
    assert {name: shown[name] for name in ("driver", "type", "vendor", "header")} == {
        "driver": "habanalabs",
        "type": "npu",
        "vendor": "Intel",
        "header": "drm/habanalabs_accel.h",
    }
    assert {"name": "DRM_IOCTL_HL_CS", "nr": 0x42, "kind": "submit"} in shown["calls"]
    assert {"name": "DRM_IOCTL_GEM_CLOSE", "nr": 9, "kind": "free"} in shown["calls"]
    assert "its argument says which" in shown["not_observable"]["alloc"]


def test_show_is_for_people_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Facts, then calls by number, then what is not observable, then reports."""
    code, out, _ = run(capsys, "drivers", "show", "qxl")

    assert code == 0
    assert "vendor            -\n" in out
    assert "\n0x42  submit  DRM_IOCTL_QXL_EXECBUFFER\n" in out
    assert "\nwait   it has no call to wait; " in out
    assert "\ntested: vm 1b36:0100 6.1 make test\n" in out


def test_a_driver_that_nobody_knows_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """With the nearest name."""
    assert run(capsys, "drivers", "show", "voodoo_banshee") == (
        78,
        "",
        "xpumeter: there is no table of a driver 'voodoo_banshee'\n"
        "  known: amdgpu, amdxdna_accel_driver, asahi, ethosu, etnaviv, habanalabs, i915, "
        "intel_vpu, lima, msm, nouveau, nova-drm, nvidia-drm, panfrost, panthor, powervr, qaic, "
        "qxl, radeon, rknpu, rocket, tegra, v3d, vc4, vgem, virtio_gpu, vmwgfx, xe, core\n",
    )
    assert "did you mean 'i915'?" in run(capsys, "drivers", "show", "i916")[2]


@pytest.mark.parametrize(
    ("name", "driver"), [("amdxdna", "amdxdna_accel_driver"), ("tyr", "panthor")]
)
def test_a_driver_is_found_by_its_other_names(
    capsys: pytest.CaptureFixture[str], name: str, driver: str
) -> None:
    """What sysfs calls it, or its file."""
    code, out, _ = run(capsys, "drivers", "show", name, "-o", "json")

    assert (code, json.loads(out)["driver"]) == (0, driver)


def test_check_says_what_a_table_amounts_to(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A new driver, or whose table it replaces; whether numbers were compared."""
    new = write(tmp_path, GOOD)
    other = write(tmp_path, GOOD.replace("driver: toy", "driver: xe"), "other.yaml")

    _, out, _ = run(capsys, "drivers", "check", str(new), "-o", "json")
    _, again, _ = run(capsys, "drivers", "check", str(other), "-o", "json")

    assert json.loads(out) == {
        "driver": "toy",
        "file": str(new),
        "replaces": "nothing: the driver is new",
        "calls": "1 of its own, 11 of DRM's core",
        "observable": "submit alloc free wait",
        "numbers": "not compared: --headers DIR names the headers",
    }
    assert json.loads(again)["replaces"].endswith("drivers/xe.yaml")


@pytest.mark.parametrize(
    ("header", "message", "hint"),
    [
        (
            None,
            "3:9: header: drm/toy_drm.h is not in {0}",
            "--headers names the folder that has it",
        ),
        (
            "#define DRM_IOCTL_TOY_RAN 1",
            "6:12: calls[0].name: drm/toy_drm.h has no DRM_IOCTL_TOY_RUN",
            "a slip, or a call of a newer kernel than these headers are of",
        ),
        (
            "#define DRM_IOCTL_TOY_RUN 0x6441",
            "6:35: calls[0].nr: 0x40, but drm/toy_drm.h has 0x41",
            "write nr: 0x41",
        ),
        (
            "#define DRM_IOCTL_TOY_RUN 0x4840",
            "6:12: calls[0].name: DRM_IOCTL_TOY_RUN is of ioctl type 0x48, not DRM's 0x64",
            "drm_ioctl refuses such a call: it has no place in a driver table",
        ),
    ],
)
def test_check_says_what_differs_from_a_header(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    header: str | None,
    message: str,
    hint: str,
) -> None:
    """File, line and column of what is wrong, and what would be right."""
    file = write(tmp_path, GOOD)
    (tmp_path / "drm").mkdir()
    if header:
        (tmp_path / "drm/toy_drm.h").write_text(header)

    code, out, errors = run(capsys, "drivers", "check", str(file), "--headers", str(tmp_path))

    first, second = errors.splitlines()
    assert (code, out) == (78, "")
    assert first == f"xpumeter: {file}:{message.format(tmp_path)}"
    assert second.strip().startswith(hint)


def test_check_takes_one_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A folder is for `validate`; what is not there is said."""
    assert run(capsys, "drivers", "check", str(tmp_path)) == (
        69,
        "",
        f"xpumeter: {tmp_path} is a folder\n  name one file; `validate --drivers` takes folders\n",
    )
    assert run(capsys, "drivers", "check", str(tmp_path / "no.yaml"))[0] == 78


def test_devices_says_which_table_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for a driver, on standard error; JSON says it with a null."""
    host = str(HOSTS / "exynos.txt")
    _, out, silent = run(capsys, "devices", "--sysfs", host, "-o", "json")
    _, _, errors = run(capsys, "devices", "--sysfs", host)

    assert json.loads(out)[0]["observable"] == ["alloc", "free", "wait"]
    assert (json.loads(out)[0]["driver"], silent) == (None, "")
    assert errors == (
        "xpumeter: exynos-drm: no driver table: its own calls are counted as `other`; "
        "docs/adding-a-driver.md says how to add one\n"
    )


def test_a_device_without_a_driver_in_sysfs_waits_for_its_first_call(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Such as vgem, which has no DRIVER=; the others of that host have tables and no line."""
    _, _, errors = run(capsys, "devices", "--sysfs", str(HOSTS / "virtio-qxl-vgem.txt"))

    assert errors == (
        "xpumeter: vgem: sysfs does not name its driver: kinds are known from its first call on\n"
    )
