# SPDX-License-Identifier: Apache-2.0
"""What `xpumeter devices --tree` shows: where each device is, and how near they are."""

from collections.abc import Mapping, Sequence

from xpumeter.enrich.topology import bridges
from xpumeter.export import table, tree
from xpumeter.inventory import Entry


def render(entries: Sequence[Entry]) -> str:
    """The tree, then how near devices are to each other, then what else links them."""
    texts: dict[str, str] = {}
    paths = []
    for entry in entries:
        texts |= _steps(entry)
        paths.append((_processor(entry), *entry["topology"]["path"][:-1], entry["id"]))
    parts = [tree.render(tree.plant(paths, texts))]
    on_pci = [entry for entry in entries if entry["topology"]["distance"]]
    if on_pci:
        parts.append(_distances(on_pci))
    parts += _notes(entries)
    return "\n\n".join(parts)


def _processor(entry: Entry) -> str:
    """What the device hangs on."""
    where, numa_node = entry["topology"], entry["numa_node"]
    if not where["path"]:
        return "not on PCI"
    known = {"socket": where["socket"], "NUMA node": numa_node, "CPUs": where["cpus"]}
    said = [f"{name} {value}" for name, value in known.items() if value is not None]
    return ", ".join(said) or "processor"


def _steps(entry: Entry) -> dict[str, str]:
    """A line for the device and for each bridge above it."""
    where = entry["topology"]
    links = where["links"]
    above = bridges(where["path"])
    texts = {}
    for place, step in enumerate(above):
        what = "switch" if where["switch"] else "bridge"
        texts[step] = _line(step, what if place else "root port", _link(links.get(step)))
    of = f"part of {entry['part_of']}" if entry["part_of"] else ""
    texts[entry["id"]] = _line(
        entry["id"],
        entry["driver"] or entry["sysfs_driver"] or "",
        entry["model"] or entry["vendor"] or "",
        " ".join(name.removeprefix("/dev/") for name in entry["nodes"]),
        _link(links.get(where["path"][-1]) if where["path"] else None),
        of,
    )
    return texts


def _line(*words: str) -> str:
    return "  ".join(word for word in words if word)


def _link(link: Mapping[str, float | int | None] | None) -> str:
    if link is None:
        return ""
    now = _speed(link["speed_gt_s"], link["width"])
    best = _speed(link["max_speed_gt_s"], link["max_width"])
    return now if now == best else f"{now} of {best}"


def _speed(speed_gt_s: float | None, width: float | None) -> str:
    return f"{'?' if speed_gt_s is None else f'{speed_gt_s:g}'} GT/s x{width or '?'}"


def _distances(entries: Sequence[Entry]) -> str:
    ids = [entry["id"] for entry in entries]
    rows = [
        (entry["id"], *(entry["topology"]["distance"].get(other, "") for other in ids))
        for entry in entries
    ]
    return table.render(("DISTANCE", *ids), rows)


def _notes(entries: Sequence[Entry]) -> list[str]:
    notes = []
    hives = {tuple(sorted((each["id"], *each["topology"]["xgmi"]))) for each in entries}
    notes += [f"xGMI links {' '.join(hive)}" for hive in sorted(hives) if len(hive) > 1]
    unseen = {pair for each in entries for pair in each["topology"]["not_observable"].items()}
    notes += [f"{what} is not observable: {why}" for what, why in sorted(unseen)]
    return notes
