# SPDX-License-Identifier: Apache-2.0
r"""Records what xpumeter reads of a host's /sys in one text file, and makes a /sys of it again.

A line is `PATH = TEXT` for a file or `PATH -> TARGET` for a link, paths below /sys; `\n` stands
for a line break. It can be read, compared and mended by hand. Only files that are named here are
recorded, so serial numbers, unique ids, EDIDs, MAC and host names never are.
"""

import os
from pathlib import Path

from xpumeter.errors import HostError
from xpumeter.source.attributes import Attributes
from xpumeter.source.partitions import TOPOLOGY

_FILES = (
    *("vendor", "device", "numa_node", "local_cpulist", "sriov_totalvfs", "sriov_numvfs"),
    *("manufacturer", "product", "power/runtime_status"),
)
_LINK_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
_LINKS = ("subsystem", "driver", "physfn")
_UEVENT = ("DRIVER", "OF_COMPATIBLE_0")
_KFD = ("domain", "location_id", "drm_render_minor")
_HEAD = "# A recorded host: what xpumeter reads of its /sys. Made by `xpumeter devices --record`."


def record(root: Path) -> str:
    """The host whose /sys this is, as text. Reads files only, and wakes no device."""
    found: dict[str, str] = {}
    for class_name in ("drm", "accel"):
        folder = root / "class" / class_name
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            if "-" not in entry.name and (entry / "dev").exists():
                found |= _node(root, entry)
    hives = sorted({text for path, text in found.items() if path.endswith("/xgmi_hive_id")})
    lines = [
        # The hive's number is made of serial numbers; that it is the same one is all that counts.
        f"{path} = {hives.index(text) + 1}" if path.endswith("/xgmi_hive_id") else f"{path}{text}"
        for path, text in sorted({**found, **_kfd(root), **_sockets(root, found)}.items())
    ]
    return "\n".join([_HEAD, *lines, ""])


def unpack(file: Path, into: Path) -> Path:
    """Make folders, files and links of a recorded host; the path of its /sys.

    Raises:
        HostError: It cannot be read, or has a line that is none of a recorded host.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise HostError(f"{file} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        path, is_link, target = line.partition(" -> ")
        if not is_link:
            path, is_file, target = line.partition(" =")
            if not is_file:
                raise HostError(
                    f"{file}:{number}: neither `PATH = TEXT` nor `PATH -> TARGET`",
                    hint="record a host with: xpumeter devices --record FILE",
                )
        place = into / path
        inside = os.path.normpath(place.parent / target if is_link else place)
        if not Path(inside).is_relative_to(into) or _through_link(place.parent, into):
            raise HostError(f"{file}:{number}: leads out of the recorded host")
        place.parent.mkdir(parents=True, exist_ok=True)
        if is_link:
            place.symlink_to(target)
        else:
            place.write_text(target.removeprefix(" ").replace("\\n", "\n") + "\n")
    return into


def _through_link(folder: Path, into: Path) -> bool:
    return any(each.is_symlink() for each in (folder, *folder.parents) if each != into)


def _node(root: Path, entry: Path) -> dict[str, str]:
    """One node of a class, its device, and all that is above that."""
    node = entry.resolve()
    place = str(node.relative_to(root.resolve()))
    to_node = os.path.relpath(node, entry.parent.resolve())
    found = {
        f"class/{entry.parent.name}/{entry.name}": f" -> {to_node}",
        f"{place}/dev": f" = {Attributes(node).text('dev')}",
    }
    device = (node / "device").resolve()
    if (node / "device").exists():
        found[f"{place}/device"] = f" -> {os.path.relpath(device, node)}"
        for folder in (device, *device.parents):
            if folder == (root / "devices").resolve():
                break
            found |= _folder(root, folder)
    return found


def _folder(root: Path, folder: Path) -> dict[str, str]:
    """What is read in the folder of one device or bridge."""
    attributes = Attributes(folder)
    place = str(folder.relative_to(root.resolve()))
    asleep = attributes.text("power/runtime_status") == "suspended"
    names = _FILES if asleep else (*_FILES, *_LINK_FILES)
    found = {f"{place}/{name}": f" = {text}" for name in names if (text := attributes.text(name))}
    properties = attributes.properties("uevent")
    uevent = [f"{key}={properties[key]}" for key in _UEVENT if key in properties]
    if uevent:
        found[f"{place}/uevent"] = " = " + "\\n".join(uevent)
    for name in _LINKS:
        if attributes.link(name):
            found[f"{place}/{name}"] = f" -> {(folder / name).readlink()}"
    if hive := attributes.text("xgmi_hive_info/xgmi_hive_id"):
        found[f"{place}/xgmi_hive_info/xgmi_hive_id"] = hive
    return found


def _kfd(root: Path) -> dict[str, str]:
    found = {}
    folder = root / TOPOLOGY
    for node in folder.iterdir() if folder.is_dir() else ():
        lines = (Attributes(node).text("properties") or "").splitlines()
        kept = [line for line in lines if line.split(" ")[0] in _KFD]
        if kept:
            found[f"{TOPOLOGY}/{node.name}/properties"] = " = " + "\\n".join(kept)
    return found


def _sockets(root: Path, found: dict[str, str]) -> dict[str, str]:
    """The socket of the first processor of each list of them."""
    lists = {text for path, text in found.items() if path.endswith("/local_cpulist")}
    sockets = {}
    for cpu in {text.removeprefix(" = ").split(",")[0].split("-")[0] for text in lists}:
        place = f"devices/system/cpu/cpu{cpu}/topology"
        if number := Attributes(root / place).text("physical_package_id"):
            sockets[f"{place}/physical_package_id"] = f" = {number}"
    return sockets
