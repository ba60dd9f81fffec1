# SPDX-License-Identifier: Apache-2.0
"""What a setting of the configuration is, and what is done with a tree of them.

A section of the configuration is a frozen dataclass; each of its fields is another section or a
`setting()`. Reader, JSON Schema and the table in the docs all come from these, so they agree.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

from xpumeter.errors import ConfigError
from xpumeter.forms import Form

if TYPE_CHECKING:  # it brings PyYAML, which a run without a file does not need
    from xpumeter.yaml_nodes import Node

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """One key of the configuration.

    Attributes:
        form: How it is written.
        about: What it does, one sentence or two.
        key: Its name in the file; empty: that of the field.
        variables: Environment variables that stand in for a key that is left out; the first that
            is set and not empty.
        parse: Value of a variable's text, where that is not written as in the file.
        unless: Key beside it; if the file has that one, no variable stands in for this one.
    """

    form: Form[T]
    about: str
    key: str = ""
    variables: tuple[str, ...] = ()
    parse: Callable[[str], T] | None = None
    unless: str = ""


def setting(
    form: Form[T],
    default: T,
    about: str,
    *,
    key: str = "",
    variables: tuple[str, ...] = (),
    parse: Callable[[str], T] | None = None,
    unless: str = "",
    secret: bool = False,
) -> T:
    """A field of a section. `secret`: the value never shows up in a repr."""
    described = Setting(form, about, key, variables, parse, unless)
    value: T = field(default=default, repr=not secret, metadata={"setting": described})
    return value


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a section: its name in Python, its key in the file, and what it is."""

    name: str
    key: str
    default: Any
    setting: Setting[Any] | None
    section: Any
    """Class of the section, where it is one."""
    optional: bool
    """Naming the section switches it on: its value is None where it is off."""


def fields_of(section: Any) -> Iterator[Field]:
    """Fields of a section (class or value), in order."""
    for described in fields(section):
        found = described.metadata.get("setting")
        key = (found.key if found else "") or described.name
        alternatives = get_args(described.type) or (described.type,)
        inner = next(filter(is_dataclass, alternatives), None)
        yield Field(
            described.name, key, described.default, found, inner, type(None) in alternatives
        )


def read_section(
    section: type[T],
    node: "Node | None",
    environ: Mapping[str, str],
    hints: Mapping[str, str] = MappingProxyType({}),
) -> T:
    """A section from a file. A key that is left out has its default, as has all without a node.

    Optional sections are None unless they are named. `hints` are what to say of unknown keys, by
    dotted path, instead of naming the nearest.
    """
    known = list(fields_of(section))
    entries = node.entries([one.key for one in known], hints) if node else {}
    values: dict[str, Any] = {}
    for one in known:
        entry = entries.get(one.key)
        if one.optional and not entry:
            values[one.name] = None
        elif one.section:
            values[one.name] = read_section(one.section, entry, environ, hints)
        elif one.setting and entry:
            values[one.name] = one.setting.form.read(entry)
        elif one.setting:
            given = {} if one.setting.unless in entries else environ
            values[one.name] = _left_out(one.setting, one.default, given)
    return section(**values)


def _left_out(described: Setting[T], default: T, environ: Mapping[str, str]) -> T:
    parse = described.parse or described.form.parse
    for variable in described.variables:
        if parse and (text := environ.get(variable)):
            try:
                return parse(text)
            except ValueError as fault:
                raise ConfigError(f"environment variable {variable}: {fault}") from None
    return default


def show_section(section: Any) -> dict[str, Any]:
    """A section as a file would say it, every key with its value; secrets hidden."""
    shown: dict[str, Any] = {}
    for one in fields_of(section):
        value = getattr(section, one.name)
        if one.setting:
            shown[one.key] = one.setting.form.show(value)
        elif value is not None:
            shown[one.key] = show_section(value)
    return shown


def walk(section: Any, prefix: str = "") -> Iterator[tuple[str, Setting[Any], Any]]:
    """Each setting of a section with its dotted path and its default, in order."""
    for one in fields_of(section):
        path = f"{prefix}{one.key}"
        if one.setting:
            yield path, one.setting, one.setting.form.show(one.default)
        else:
            yield from walk(one.section, f"{path}.")


def schema_of(section: Any) -> dict[str, Any]:
    """JSON Schema of a section."""
    properties: dict[str, Any] = {}
    for one in fields_of(section):
        if one.setting:
            default = one.setting.form.show(one.default)
            about = {"description": one.setting.about, "default": default}
            properties[one.key] = {**about, **one.setting.form.schema}
        else:
            properties[one.key] = schema_of(one.section)
    return {
        "description": (section.__doc__ or "").splitlines()[0],
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": False,
    }
