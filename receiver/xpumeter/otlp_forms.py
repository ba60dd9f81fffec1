# SPDX-License-Identifier: Apache-2.0
"""How an OTLP exporter's settings are written, in the file and in OpenTelemetry's variables."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from xpumeter.forms import Form, text_form

if TYPE_CHECKING:  # it brings PyYAML, which a run without a file does not need
    from xpumeter.yaml_nodes import Node

_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)"
_PORT = ":(?P<port>[0-9]{1,5})"


def masked(endpoint: str) -> str:
    """An endpoint as it may be printed: without a password or a query, which may hold a token."""
    without_user = re.sub(r"(?<=//)[^/@\s]*@", "(hidden)@", endpoint)
    return re.sub(r"\?.*", "?(hidden)", without_user)


def _endpoint(about: str, pattern: str) -> Form[str]:
    def parse(text: str) -> str:
        found = re.fullmatch(pattern, text)
        if not found or not 0 < int(found["port"] or found["bare"] or 1) <= 0xFFFF:
            raise ValueError(f"{masked(text)!r} is not {about.replace('`', '')}")
        return text

    return text_form(about, parse, show=masked, pattern=re.sub(r"\?P<\w+>", "", pattern))


_BARE = ":(?P<bare>[0-9]{1,5})"
GRPC_ENDPOINT = _endpoint(
    "`http://HOST:PORT`, `https://HOST:PORT`, `HOST:PORT` or `unix:///PATH`",
    rf"https?://{_HOST}(?:{_PORT})?/?|{_HOST}{_BARE}|unix:///\S+",
)
HTTP_ENDPOINT = _endpoint(
    "`http://HOST:PORT/PATH`, `https://HOST:PORT/PATH` or `unix:///PATH`",
    rf"https?://{_HOST}(?:{_PORT})?(?:/[^\s?#]*)?(?P<bare>)|unix:///\S+",
)
HTTP_URL = _endpoint(
    "`http://HOST:PORT/PATH`, `https://HOST:PORT/PATH`, or empty",
    rf"(?:https?://{_HOST}(?:{_PORT})?(?:/[^\s#]*)?)?(?P<bare>)",
)
HOST_NAME = text_form("a host's name, or empty", str, pattern="[A-Za-z0-9._-]*")


def milliseconds(low_s: float, high_s: float) -> Callable[[str], float]:
    """Parser of a variable that is a time span: a whole number of ms; the value is in seconds."""

    def parse(text: str) -> float:
        # Python refuses to convert thousands of digits.
        value_s = int(text) / 1000 if re.fullmatch("[0-9]{1,9}", text) else -1
        if not low_s <= value_s <= high_s:
            raise ValueError(
                f"{text!r} is not a whole number of milliseconds "
                f"from {low_s * 1000:g} to {high_s * 1000:g}"
            )
        return value_s

    return parse


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
