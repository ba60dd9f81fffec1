# SPDX-License-Identifier: Apache-2.0
"""How the values of the configuration are written: each form reads, shows and describes itself."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import unquote

from xpumeter.hook import Hook

if TYPE_CHECKING:  # it brings PyYAML, which a run without a file does not need
    from xpumeter.yaml_nodes import Node

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

AUTO = "auto"
"""`hook`: try all. `runtime_endpoint`: the first container runtime whose socket is there."""

NONE = "none"
"""`runtime_endpoint`: ask no container runtime."""


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """One way to write a value.

    Attributes:
        about: What may be written, for the docs.
        read: Value of a node; raises what the node gives for it.
        show: The value as a file would say it; secrets hidden.
        schema: JSON Schema of what may be written.
        parse: Value of a bare text, ValueError says what is wrong; None where a value is more.
    """

    about: str
    read: Callable[["Node"], T]
    show: Callable[[T], Any]
    schema: Mapping[str, Any]
    parse: Callable[[str], T] | None = None


def text_form(
    about: str, parse: Callable[[str], T], *, show: Callable[[T], Any] = str, pattern: str
) -> Form[T]:
    """Form of a value that is one text. `pattern` is for the schema; `parse` has the last word."""

    def read(node: "Node") -> T:
        text = node.text()
        try:
            return parse(text)
        except ValueError as fault:
            raise node.wrong(str(fault)) from None

    return Form(about, read, show, text_schema(pattern), parse)


def text_schema(pattern: str) -> dict[str, Any]:
    """Schema of a text that matches `pattern` as a whole, or has the environment in it."""
    return {"type": "string", "pattern": rf"^(?:{pattern})$|\$\{{env:"}


_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h)"


def duration(low: str, high: str) -> Form[float]:
    """Form of a time span as Go writes it; the value is in seconds."""
    low_s, high_s = _seconds(low), _seconds(high)

    def parse(text: str) -> float:
        value_s = _seconds(text)
        if not low_s <= value_s <= high_s:
            raise ValueError(f"{text!r} is not between {low} and {high}")
        return value_s

    about = f"a duration such as `10s`, `500ms` or `1m30s`, from {low} to {high}"
    return text_form(about, parse, show=_go_duration, pattern=f"(?:{_PART})+")


def _seconds(text: str) -> float:
    if not re.fullmatch(f"(?:{_PART})+", text):
        raise ValueError(f"{text!r} is not a duration such as 10s, 500ms or 1m30s")
    return sum(
        float(part.rstrip("nuµmsh")) * _UNITS_S[part.lstrip("0123456789.")]
        for part in re.findall(_PART, text)
    )


def _go_duration(value_s: float) -> str:
    return f"{value_s:g}s" if value_s >= 1 or value_s == 0 else f"{value_s * 1000:g}ms"


def choice(names: type[E]) -> Form[E]:
    """Form of one of the names of an enum."""
    return Form(
        about=", ".join(f"`{name}`" for name in names),
        read=lambda node: names(node.choice(list(names))),
        show=str,
        schema=text_schema("|".join(names)),
    )


def _parse_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is not true or false")
    return text.lower() == "true"


_REFERENCE = {"type": "string", "pattern": r"\$\{env:"}
BOOLEAN: Form[bool] = Form(
    about="`true` or `false`",
    read=lambda node: node.boolean(),
    show=bool,
    schema={"anyOf": [{"type": "boolean"}, _REFERENCE]},
    parse=_parse_boolean,
)


def _read_hooks(node: "Node") -> tuple[Hook, ...]:
    if node.is_a != "a list":
        name = node.choice([AUTO, *Hook])
        return tuple(Hook) if name == AUTO else (Hook(name),)
    hooks = tuple(Hook(item.choice(list(Hook))) for item in node.items())
    if not hooks:
        raise node.wrong("an empty list leaves no hook to try", hint="write auto to try all")
    return hooks


_HOOK_NAMES = "|".join(Hook)
HOOKS: Form[tuple[Hook, ...]] = Form(
    about=f"`{AUTO}`, or one or a list of {', '.join(f'`{hook}`' for hook in Hook)}",
    read=_read_hooks,
    show=lambda hooks: AUTO if hooks == tuple(Hook) else [str(hook) for hook in hooks],
    schema={
        "anyOf": [
            text_schema(f"{AUTO}|{_HOOK_NAMES}"),
            {"type": "array", "minItems": 1, "items": text_schema(_HOOK_NAMES)},
        ]
    },
)


def _parse_socket(text: str) -> str:
    if text in (AUTO, NONE):
        return text
    path = text.removeprefix("unix://")
    if not path.startswith("/"):
        raise ValueError(f"{text!r} is not auto, none or the path of a socket")
    return path


SOCKET = text_form(
    "`auto`, `none`, or the path of a socket",
    _parse_socket,
    pattern=r"auto|none|(?:unix://)?/.*",
)


def _parse_folder(text: str) -> Path:
    if not text.startswith("/"):
        raise ValueError(f"{text!r} is not an absolute path")
    return Path(text)


def _read_folders(node: "Node") -> tuple[Path, ...]:
    return tuple(FOLDER.read(item) for item in node.items())


FOLDER = text_form("an absolute path", _parse_folder, pattern="/.*")
FOLDERS: Form[tuple[Path, ...]] = Form(
    about="a list of absolute paths",
    read=_read_folders,
    show=lambda folders: [str(folder) for folder in folders],
    schema={"type": "array", "items": FOLDER.schema},
)

_ENDPOINT_PATTERN = (
    r"https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?/?|unix:///\S+"
)


def _parse_endpoint(text: str) -> str:
    found = re.fullmatch(_ENDPOINT_PATTERN, text)
    if not found or not 0 < int(found["port"] or 1) <= 0xFFFF:
        raise ValueError(f"{text!r} is not http://HOST:PORT, https://HOST:PORT or unix:///PATH")
    return text


ENDPOINT = text_form(
    "`http://HOST:PORT`, `https://HOST:PORT` or `unix:///PATH`",
    _parse_endpoint,
    pattern=_ENDPOINT_PATTERN.replace("?P<port>", ""),
)


# gRPC keeps the names that begin with grpc- to itself, and those that end in -bin for bytes.
_HEADER_NAME = r"(?![gG][rR][pP][cC]-)(?!.*-[bB][iI][nN]$)[A-Za-z0-9_.-]+"


def _header_name(name: str) -> str:
    if not re.fullmatch(_HEADER_NAME, name):
        raise ValueError(f"{name!r} is no header's name")
    return name.lower()


def _header_text(name: str, text: str) -> str:
    """The error never shows the text, which may be a secret."""
    if not text.isascii() or not text.isprintable():
        raise ValueError(f"the text of {name!r} is not printable ASCII")
    return text


def _read_headers(node: "Node") -> tuple[tuple[str, str], ...]:
    headers: list[tuple[str, str]] = []
    for name, value in node.entries().items():
        text = value.text()
        try:
            sent_as = _header_name(name)
        except ValueError as fault:
            raise value.wrong(str(fault), hint="not grpc-..., not ...-bin") from None
        try:
            headers.append((sent_as, _header_text(name, text)))
        except ValueError as fault:
            raise value.wrong(str(fault)) from None
    return tuple(headers)


def _parse_headers(text: str) -> tuple[tuple[str, str], ...]:
    """`name=text,name=text`, texts percent-encoded: OpenTelemetry's OTEL_EXPORTER_OTLP_HEADERS."""
    headers: list[tuple[str, str]] = []
    for part in filter(None, map(str.strip, text.split(","))):
        name, separator, value = map(str.strip, part.partition("="))
        if not separator:
            raise ValueError("expected name=text, with commas between")
        headers.append((_header_name(name), _header_text(name, unquote(value))))
    return tuple(headers)


HEADERS: Form[tuple[tuple[str, str], ...]] = Form(
    about="a mapping of names to texts",
    read=_read_headers,
    parse=_parse_headers,
    show=lambda headers: {name: "(hidden)" for name, _ in headers},
    schema={
        "type": ["object", "null"],
        "propertyNames": {"pattern": f"^{_HEADER_NAME}$"},
        "additionalProperties": {"type": "string", "pattern": "^[ -~]*$"},
    },
)
