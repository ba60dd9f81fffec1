# SPDX-License-Identifier: Apache-2.0
"""`processors.filter` of the configuration: what is left out."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from xpumeter.forms import BOOLEAN, Form, text_schema
from xpumeter.model.calls import Kind
from xpumeter.model.selection import Patterns, Selection
from xpumeter.settings import setting

if TYPE_CHECKING:  # it brings PyYAML, which a run without a file does not need
    from xpumeter.yaml_nodes import Node

_ABOUT = "a list of patterns: `*` any text, `?` any character, `[ab]` one of these"


def _read_patterns(node: "Node") -> tuple[str, ...]:
    texts = []
    for item in node.items():
        texts.append(item.text())
        if not texts[-1]:
            raise item.wrong("an empty pattern", hint='write "*" for all')
    return tuple(texts)


def _read_included(node: "Node") -> tuple[str, ...]:
    patterns = _read_patterns(node)
    if not patterns:
        raise node.wrong(
            "an empty list includes nothing", hint='leave it out, or write ["*"], for all'
        )
    return patterns


def _checked_kinds(node: "Node", patterns: tuple[str, ...]) -> tuple[str, ...]:
    for item, pattern in zip(node.items(), patterns, strict=True):
        if not any(fnmatchcase(kind, pattern) for kind in Kind):
            item.choice(list(Kind))
    return patterns


def _form(about: str, *, needed: bool, kinds: bool = False) -> Form[tuple[str, ...]]:
    def read(node: "Node") -> tuple[str, ...]:
        patterns = _read_included(node) if needed else _read_patterns(node)
        return _checked_kinds(node, patterns) if kinds else patterns

    # A kind is one of them, or it is a pattern.
    items = text_schema(rf"{'|'.join(Kind)}|.*[*?\[].*" if kinds else ".+")
    schema = {"type": "array", "items": items, **({"minItems": 1} if needed else {})}
    return Form(about, read, list, schema)


def _include(what: str, *, kinds: bool = False) -> tuple[str, ...]:
    about = f"{what} that are shown: those that match one of these."
    return setting(_form(_ABOUT, needed=True, kinds=kinds), ("*",), about)


def _exclude(what: str, *, kinds: bool = False) -> tuple[str, ...]:
    about = f"{what} that are left out of these."
    return setting(_form(_ABOUT, needed=False, kinds=kinds), (), about)


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Kubernetes' namespaces."""

    include: tuple[str, ...] = _include("Namespaces")
    exclude: tuple[str, ...] = _exclude("Namespaces")


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods, by name."""

    include: tuple[str, ...] = _include("Pods, by name,")
    exclude: tuple[str, ...] = _exclude("Pods, by name,")


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices, by id or driver."""

    include: tuple[str, ...] = _include("Devices, by id (`0000:03:00.0`) or driver (`xe`),")
    exclude: tuple[str, ...] = _exclude("Devices, by id or driver,")


@dataclass(frozen=True, slots=True)
class Kinds:
    """Kinds of calls."""

    include: tuple[str, ...] = _include("Kinds of calls", kinds=True)
    exclude: tuple[str, ...] = _exclude("Kinds of calls", kinds=True)


@dataclass(frozen=True, slots=True)
class Host:
    """What runs outside pods: services of the host, plain containers."""

    enabled: bool = setting(
        BOOLEAN,
        True,
        "Whether what runs outside pods is shown. If not, its calls are under `host_off`.",
    )
    include: tuple[str, ...] = _include("Cgroups outside pods, by path (or container id),")
    exclude: tuple[str, ...] = _exclude("Cgroups outside pods, by path (or container id),")


@dataclass(frozen=True, slots=True)
class Filter:
    """What is left out; its calls stay in the sum, as `filtered`."""

    namespaces: Namespaces = Namespaces()
    pods: Pods = Pods()
    devices: Devices = Devices()
    kinds: Kinds = Kinds()
    host: Host = Host()

    @property
    def selection(self) -> Selection:
        """The same for the stage that leaves out."""

        def patterns(section: Namespaces | Pods | Devices | Kinds | Host) -> Patterns:
            return Patterns(section.include, section.exclude)

        return Selection(
            namespaces=patterns(self.namespaces),
            pods=patterns(self.pods),
            devices=patterns(self.devices),
            kinds=patterns(self.kinds),
            host=patterns(self.host),
            host_on=self.host.enabled,
        )
