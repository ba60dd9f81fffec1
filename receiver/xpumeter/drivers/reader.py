# SPDX-License-Identifier: Apache-2.0
"""One driver table from its file. config/drivers.schema.json says the same to an editor."""

import re
from collections.abc import Collection
from pathlib import Path

from xpumeter import yaml_nodes
from xpumeter.drivers.tables import CORE
from xpumeter.errors import DriverTableError
from xpumeter.model.calls import Call, DriverTable, HardwareType, Kind
from xpumeter.yaml_nodes import Node

KINDS = tuple(kind for kind in Kind if kind is not Kind.OTHER)
"""What a call can be in a table; `other` are those that no table has."""

_KEYS = (
    "driver", "type", "vendor", "header", "sysfs", "calls", "not_observable", "tested",
)  # fmt: skip
_CORE_KEYS = ("driver", "header", "calls", "not_observable")

# The kernel's rows have room for 31 characters of a driver's name.
_DRIVER = re.compile(r"[A-Za-z0-9_-]{1,31}")
_HEADER = re.compile(r"[a-z0-9_]+(/[a-z0-9_]+)*\.h")
_MACRO = re.compile(r"[A-Z][A-Z0-9_]*")


def read_table(file: Path) -> DriverTable:
    """The table in `file`, without the core calls. DriverTableError for what is wrong in it."""
    top = yaml_nodes.read(file, DriverTableError)
    if top.is_a == "nothing":
        raise top.expected("a mapping")
    entries = top.entries(_KEYS)
    driver = _matching(_need(top, entries, "driver"), _DRIVER, "a driver's DRM name")
    if driver == CORE:
        entries = top.entries(_CORE_KEYS)
        hw_type = None
    else:
        hw_type = HardwareType(_need(top, entries, "type").choice(list(HardwareType)))
    header = _matching(_need(top, entries, "header"), _HEADER, "a header below /usr/include")
    vendor = entries.get("vendor")
    return DriverTable(
        driver=driver,
        hw_type=hw_type,
        vendor=_sentence(vendor) if vendor else None,
        sysfs_drivers=tuple(_sentence(item) for item in _items(entries, "sysfs")),
        calls=_calls(_need(top, entries, "calls"), header),
        not_observable={
            Kind(kind): _sentence(node)
            for kind, node in (
                entries["not_observable"].entries(KINDS) if "not_observable" in entries else {}
            ).items()
        },
        tested=tuple(_tested(item) for item in _items(entries, "tested")),
        source=str(file),
    )


def _calls(node: Node, header: str) -> tuple[Call, ...]:
    calls: list[Call] = []
    for item in node.items():
        entries = item.entries(("name", "nr", "kind", "header"))
        name = _matching(_need(item, entries, "name"), _MACRO, "the name of a macro")
        nr = _need(item, entries, "nr").integer(0, 0xFF)
        kind = Kind(_need(item, entries, "kind").choice(KINDS))
        for call in calls:
            if call.nr == nr:
                raise entries["nr"].wrong(f"{nr:#04x} stands twice", hint=f"it is {call.name} too")
            if call.name == name:
                raise entries["name"].wrong(f"{name} stands twice")
        own = entries.get("header")
        where = _matching(own, _HEADER, "a header below /usr/include") if own else header
        calls.append(Call(name, nr, kind, where))
    return tuple(calls)


def _tested(node: Node) -> dict[str, str]:
    """One report: where it ran (`vm` or `hardware`), on which kernel, on which device, by whom."""
    entries = node.entries(("where", "kernel", "pci", "by", "date"))
    for key in ("where", "kernel", "by"):
        _need(node, entries, key)
    entries["where"].choice(("vm", "hardware"))
    return {key: _sentence(value) for key, value in entries.items()}


def _need(node: Node, entries: dict[str, Node], key: str) -> Node:
    if key not in entries:
        raise node.wrong(f"key {key!r} is missing")
    return entries[key]


def _items(entries: dict[str, Node], key: str) -> Collection[Node]:
    return entries[key].items() if key in entries else ()


def _sentence(node: Node) -> str:
    """A text that is not empty, on one line."""
    text = node.text()
    if not text.strip() or not text.isprintable():
        raise node.wrong("expected text on one line")
    return text


def _matching(node: Node, pattern: re.Pattern[str], what: str) -> str:
    text = node.text()
    if not pattern.fullmatch(text):
        raise node.wrong(f"{text!r} is not {what}")
    return text
