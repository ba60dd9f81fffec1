# SPDX-License-Identifier: Apache-2.0
"""Strict reading of YAML: each thing that is wrong is one error with file, line and column.

Importing this imports PyYAML, which `attach` has no time for: import it where a file is read.
"""

import difflib
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import yaml

from xpumeter.errors import ConfigError

# Base: it leaves plain scalars untyped, and PyYAML's own types are those of YAML 1.1, where `on`
# is a boolean and `1:30` a number. C where there is one: ten times as fast.
_Loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

_UNTAGGED = [f"tag:yaml.org,2002:{name}" for name in ("str", "seq", "map")]

# Plain scalars as in the core schema of YAML 1.2, which editors and the Collector read too.
_PLAIN = (
    ("nothing", re.compile(r"~|null|Null|NULL|")),
    ("a boolean", re.compile(r"true|True|TRUE|false|False|FALSE")),
    ("a whole number", re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")),
    (
        "a number",
        re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", re.I),
    ),
)


# Either a whole reference, or its beginning, which is an error.
_REFERENCE = re.compile(
    r"\$\$|\$\{env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(:-(?P<default>[^}]*))?\}|\$\{[^}]*\}?"
)

# In the place of a quote: what the environment brought is a string where one is expected, and
# may be a number or a boolean where that is.
_FROM_ENVIRONMENT = "$"


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a file, and where it stands.

    Attributes:
        raw: PyYAML's node.
        file: As the caller named it.
        path: Keys from the top, with dots between; empty at the top.
        error: What is raised when something is wrong.
    """

    raw: yaml.Node
    file: str
    path: str
    error: type[ConfigError]

    @property
    def is_a(self) -> str:
        """What stands here, as errors say it: `a string`, `a list`, `nothing`."""
        if self.raw.tag not in _UNTAGGED:
            return f"a value with the tag {self.raw.tag}"
        if isinstance(self.raw, yaml.MappingNode):
            return "a mapping"
        if isinstance(self.raw, yaml.SequenceNode):
            return "a list"
        if isinstance(self.raw, yaml.ScalarNode) and not self.raw.style:
            for name, pattern in _PLAIN:
                if pattern.fullmatch(self.raw.value):
                    return name
        return "a string"

    def wrong(self, message: str, *, hint: str = "") -> ConfigError:
        """The error to raise about this value."""
        where = f"{self.path}: " if self.path else ""
        return self.error(f"{_place(self.file, self.raw.start_mark)}: {where}{message}", hint=hint)

    def expected(self, what: str) -> ConfigError:
        """The error to raise when this value is of the wrong type."""
        hint = ""
        if what == "a string" and self.is_a in ("a boolean", "a whole number", "a number"):
            hint = "put it in quotes"
        elif what == "a boolean":
            hint = "write true or false"
        return self.wrong(f"expected {what}, not {self.is_a}", hint=hint)

    def text(self) -> str:
        """A string: quoted, or plain and nothing that YAML takes for a number or the like."""
        if self.is_a != "a string":
            raise self.expected("a string")
        return str(self.raw.value)

    def integer(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, written as decimal, 0x or 0o."""
        if self.is_a != "a whole number":
            raise self.expected("a whole number")
        text = self.raw.value
        # Python refuses to convert thousands of digits; base 0 would refuse a leading zero.
        base = {"0x": 16, "0o": 8}.get(text[:2], 10)
        value = int(text, base) if len(text) < 20 else high + 1
        if not low <= value <= high:
            raise self.wrong(f"{text[:20]} is not in {low:#x}..{high:#x}")
        return value

    def number(self, low: float, high: float) -> float:
        """A number from `low` to `high`; the environment may have brought it."""
        if self.is_a not in ("a whole number", "a number") and not self._is_plain("a number"):
            raise self.expected("a number")
        try:
            value = float(self.raw.value)
        except ValueError:  # 0x10, which YAML takes for a number and Python for none
            value = math.nan
        if not low <= value <= high:
            raise self.wrong(f"{self.raw.value[:20]} is not between {low:g} and {high:g}")
        return value

    def boolean(self) -> bool:
        """True or false; the environment may have brought it."""
        if self.is_a != "a boolean" and not self._is_plain("a boolean"):
            raise self.expected("a boolean")
        return bool(self.raw.value.lower() == "true")

    def _is_plain(self, what: str) -> bool:
        """Whether the environment has brought a text that would be `what` without quotes."""
        brought = isinstance(self.raw, yaml.ScalarNode) and self.raw.style == _FROM_ENVIRONMENT
        return brought and any(
            pattern.fullmatch(self.raw.value)
            for name, pattern in _PLAIN
            if name == what or (name, what) == ("a whole number", "a number")
        )

    def choice(self, names: Collection[str]) -> str:
        """One of `names`."""
        text = self.text()
        if text not in names:
            raise self.wrong(f"unknown value {text!r}", hint=nearest(text, names))
        return text

    def items(self) -> list["Node"]:
        """The entries of a list."""
        if self.is_a != "a list":
            raise self.expected("a list")
        return [
            Node(raw, self.file, f"{self.path}[{place}]", self.error)
            for place, raw in enumerate(self.raw.value)
        ]

    def key(self, name: str) -> "Node":
        """The key itself, of a mapping that has it: an error about it names its line."""
        (raw,) = (raw for raw, _ in self.raw.value if raw.value == name)
        return Node(raw, self.file, self.path, self.error)

    def entries(
        self,
        known: Collection[str] | None = None,
        hints: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, "Node"]:
        """A mapping, by key. A key that stands twice is an error, and one that is not `known`.

        Nothing (`filter:`) is an empty mapping, as in the Collector. `hints` are what to say of
        unknown keys, by dotted path, instead of naming the nearest.
        """
        if self.is_a == "nothing":
            return {}
        if self.is_a != "a mapping":
            raise self.expected("a mapping")
        entries: dict[str, Node] = {}
        for raw_key, raw in self.raw.value:
            key_node = Node(raw_key, self.file, self.path, self.error)
            if not isinstance(raw_key, yaml.ScalarNode):
                raise key_node.wrong(f"a key cannot be {key_node.is_a}")
            key = raw_key.value
            if key in entries:
                first = entries[key].raw.start_mark.line + 1
                raise key_node.wrong(f"key {key!r} stands twice", hint=f"see line {first}")
            path = f"{self.path}.{key}" if self.path else key
            if known is not None and key not in known:
                hint = hints.get(path) or nearest(key, known)
                raise key_node.wrong(f"unknown key {key!r}", hint=hint)
            entries[key] = Node(raw, self.file, path, self.error)
        return entries


def nearest(name: str, known: Collection[str]) -> str:
    """A hint: the known name that is nearest to a wrong one, or all of them."""
    if not known:
        return "nothing is known here yet"
    # Case and the two ways to join words are the commonest slips.
    plain = {other.lower().replace("-", "_"): str(other) for other in known}
    near = difflib.get_close_matches(name.lower().replace("-", "_"), plain, n=1)
    return f"did you mean {plain[near[0]]!r}?" if near else f"known: {', '.join(known)}"


def read(path: Path, error: type[ConfigError]) -> Node:
    """The top of a YAML file. `error` is raised, here and by the nodes, for all that is wrong."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = fault.object[: fault.start].count(b"\n") + 1
        raise error(f"{path}:{line}: not UTF-8", hint="save the file as UTF-8") from None
    except (OSError, ValueError) as fault:  # ValueError: a NUL in the name
        reason = fault.strerror if isinstance(fault, OSError) else fault
        raise error(f"{path}: cannot be read: {reason}") from None
    return parse(text, str(path), error)


def parse(text: str, file: str, error: type[ConfigError]) -> Node:
    """The top of a YAML text; `file` is its name in errors. An empty text is `nothing`."""
    try:
        raw = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        place = _place(file, mark) if mark else file
        raise error(f"{place}: not YAML: {fault.problem or fault.context}") from None
    except yaml.YAMLError as fault:
        raise error(f"{file}: not YAML: {str(fault).splitlines()[0]}") from None
    except RecursionError:
        raise error(f"{file}: not YAML: nested too deep") from None
    if raw is None:
        start = yaml.Mark(file, 0, 0, 0, None, 0)
        raw = yaml.ScalarNode(_UNTAGGED[0], "", start, start)
    return Node(raw, file, "", error)


def expand(top: Node, environ: Mapping[str, str]) -> None:
    """Put the environment into all values below `top`, in place, as the Collector does.

    `${env:NAME}` is the variable, `${env:NAME:-default}` the default where it is unset or empty,
    `$$` a dollar. A value with a variable in it is a string, whatever the variable holds, unless a
    number or a boolean is expected there.
    """
    seen: set[int] = set()
    raws = [top.raw]
    while raws:
        raw = raws.pop()
        if id(raw) in seen:  # an alias
            continue
        seen.add(id(raw))
        if isinstance(raw, yaml.MappingNode):
            raws.extend(value for _, value in reversed(raw.value))
        elif isinstance(raw, yaml.SequenceNode):
            raws.extend(reversed(raw.value))
        elif isinstance(raw, yaml.ScalarNode) and "$" in raw.value:
            replace = partial(_referred, Node(raw, top.file, "", top.error), environ)
            raw.value = _REFERENCE.sub(replace, raw.value)
            raw.style = _FROM_ENVIRONMENT


def _referred(node: Node, environ: Mapping[str, str], found: re.Match[str]) -> str:
    if found[0] == "$$":
        return "$"
    if not found["name"]:
        # What stands in the braces may be part of a secret.
        raise node.wrong("${...} is no reference", hint="write ${env:NAME}; $$ is a dollar")
    value = environ.get(found["name"]) or found["default"]
    if value is None:
        raise node.wrong(
            f"environment variable {found['name']} is not set",
            hint=f"set it, or write ${{env:{found['name']}:-default}}",
        )
    return value


def _place(file: str, mark: yaml.Mark) -> str:
    return f"{file}:{mark.line + 1}:{mark.column + 1}"
