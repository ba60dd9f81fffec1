# SPDX-License-Identifier: Apache-2.0
"""One driver table from its file. config/drivers.schema.json says the same to an editor."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from xpumeter import yaml_nodes
from xpumeter.drivers.tables import CORE, CORE_HEADER
from xpumeter.errors import ConfigError, DriverTableError
from xpumeter.model.calls import Call, DriverTable, HardwareType, Kind
from xpumeter.yaml_nodes import Node, nearest

_OBSERVED = tuple(kind for kind in Kind if kind is not Kind.OTHER)

_KEYS = (
    "driver", "extends", "type", "vendor", "since", "header", "header_unchecked", "sysfs_drivers",
    "core", "calls", "not_observable", "tested",
)  # fmt: skip
_CORE_KEYS = ("driver", "extends", "header", "calls", "not_observable")

# The kernel's rows have room for 31 characters of a driver's name.
_DRIVER = re.compile(r"[A-Za-z0-9_-]{1,31}")
_HEADER = re.compile(r"[a-z0-9_-]+(/[a-z0-9_-]+)*\.h")
_MACRO = re.compile(r"[A-Z][A-Z0-9_]*")

_OWN = range(0x40, 0xA0)
"""Numbers that drm_ioctl() hands to the driver; all others are of DRM's core (drm_ioctl.c)."""


def read_table(
    file: Path, earlier: Mapping[str, DriverTable] = MappingProxyType({})
) -> DriverTable:
    """The table in `file`, without the core calls. DriverTableError for what is wrong in it.

    `earlier` are those that it may extend, by driver, without the core calls too.
    """
    top = yaml_nodes.read(file, DriverTableError)
    if top.is_a == "nothing":
        raise top.expected("a mapping")
    entries = top.entries(_KEYS, {"sysfs": "it is called sysfs_drivers"})
    driver = _matching(_need(top, entries, "driver"), _DRIVER, "a driver's DRM name")
    if driver == CORE:
        entries = top.entries(_CORE_KEYS)
    base = _base(entries.get("extends"), driver, earlier) or _empty(top, entries, driver)
    header = _header(entries["header"]) if "header" in entries else base.header
    own = _calls(entries["calls"], header, core=driver == CORE) if "calls" in entries else ()
    named = {call.name for call in own}
    kept = (call for call in base.calls if call.name not in named)
    return replace(
        base,
        driver=driver,
        header=header,
        source=str(file),
        calls=tuple({call.nr: call for call in (*kept, *own)}.values()),
        not_observable={**base.not_observable, **_not_observable(entries)},
        tested=(*base.tested, *(_tested(item) for item in _items(entries, "tested"))),
        **_described(entries),
    )


def places(file: Path) -> tuple[Node, dict[str, Mapping[str, Node]]]:
    """Where things stand in a file that `read_table` accepts, for errors that are found later.

    The node of its header (of the file, where that is left out); by call the node of each key.
    """
    top = yaml_nodes.read(file, DriverTableError)
    entries = top.entries()
    calls = entries["calls"].items() if "calls" in entries else []
    by_name: dict[str, Mapping[str, Node]] = {
        each["name"].text(): each for each in map(Node.entries, calls)
    }
    return entries.get("header", top), by_name


def _empty(top: Node, entries: Mapping[str, Node], driver: str) -> DriverTable:
    """To be filled: a table that extends none has to say at least this."""
    for key in ("header", "calls") if driver == CORE else ("type", "header", "calls"):
        _need(top, entries, key)
    return DriverTable(driver, None, None, (), (), {}, (), "")


def _base(node: Node | None, driver: str, earlier: Mapping[str, DriverTable]) -> DriverTable | None:
    if node is None:
        return None
    name = node.text()
    if name not in earlier:
        raise node.wrong(f"there is no table of {name!r} to extend", hint=nearest(name, earlier))
    if (name == CORE) is not (driver == CORE):
        raise node.wrong("only core extends core", hint="its calls are in every table as it is")
    base = earlier[name]
    # What sysfs calls another driver, and where that one ran, does not hold for this one.
    return base if name == driver else replace(base, sysfs_drivers=(), tested=())


def _described(entries: Mapping[str, Node]) -> dict[str, Any]:
    """Fields of the table that stand in the file as they are."""
    found: dict[str, Any] = {
        key: _sentence(entries[key])
        for key in ("vendor", "since", "header_unchecked")
        if key in entries
    }
    if "type" in entries:
        found["hw_type"] = HardwareType(entries["type"].choice(list(HardwareType)))
    if "sysfs_drivers" in entries:
        found["sysfs_drivers"] = tuple(_sentence(item) for item in entries["sysfs_drivers"].items())
    if "core" in entries:
        found["core_kinds"] = frozenset(
            Kind(item.choice(_OBSERVED)) for item in entries["core"].items()
        )
    return found


def _not_observable(entries: Mapping[str, Node]) -> dict[Kind, str]:
    if "not_observable" not in entries:
        return {}
    nodes = entries["not_observable"].entries(_OBSERVED)
    return {Kind(kind): _sentence(node) for kind, node in nodes.items()}


def _calls(node: Node, header: str, *, core: bool) -> tuple[Call, ...]:
    calls: list[Call] = []
    for item in node.items():
        entries = item.entries(("name", "nr", "kind", "header"))
        name = _matching(_need(item, entries, "name"), _MACRO, "the name of a macro")
        nr = _need(item, entries, "nr").integer(0, 0xFF)
        kind = Kind(_need(item, entries, "kind").choice(list(Kind)))
        for call in calls:
            if call.nr == nr:
                raise entries["nr"].wrong(f"{nr:#04x} stands twice", hint=f"it is {call.name} too")
            if call.name == name:
                raise entries["name"].wrong(f"{name} stands twice")
        where = _header(entries["header"]) if "header" in entries else header
        of_core = core or where == CORE_HEADER
        if of_core is (nr in _OWN):
            raise _out_of_range(entries["nr"], nr, of_core=of_core)
        calls.append(Call(name, nr, kind, where, core))
    return tuple(calls)


def _out_of_range(node: Node, nr: int, *, of_core: bool) -> ConfigError:
    if of_core:
        return node.wrong(f"{nr:#04x} is no call of DRM's core", hint="0x40..0x9f are the drivers'")
    offset = f"offsets count from there: {_OWN[nr]:#04x}? " if nr < len(_OWN) else ""
    return node.wrong(
        f"{nr:#04x} is no call of a driver's own, which are 0x40..0x9f",
        hint=f"{offset}a call of DRM's core has `header: {CORE_HEADER}`",
    )


def _tested(node: Node) -> dict[str, str]:
    """One report: where it ran (`vm` or `hardware`), on which kernel, on which device, by whom."""
    entries = node.entries(("where", "kernel", "pci", "by", "date"))
    for key in ("where", "kernel", "by"):
        _need(node, entries, key)
    entries["where"].choice(("vm", "hardware"))
    return {key: _sentence(value) for key, value in entries.items()}


def _need(node: Node, entries: Mapping[str, Node], key: str) -> Node:
    if key not in entries:
        raise node.wrong(f"key {key!r} is missing")
    return entries[key]


def _items(entries: Mapping[str, Node], key: str) -> Collection[Node]:
    return entries[key].items() if key in entries else ()


def _sentence(node: Node) -> str:
    """A text that is not empty, on one line."""
    text = node.text()
    if not text.strip() or not text.isprintable():
        raise node.wrong("expected text on one line")
    return text


def _header(node: Node) -> str:
    return _matching(node, _HEADER, "a header below /usr/include")


def _matching(node: Node, pattern: re.Pattern[str], what: str) -> str:
    text = node.text()
    if not pattern.fullmatch(text):
        raise node.wrong(f"{text!r} is not {what}")
    return text
