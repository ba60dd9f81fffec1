# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF009 (setting() makes a field, once per class)
"""The configuration: one frozen tree, in the shape of an OpenTelemetry Collector's.

Everything about a key stands here once: its default, how it is written, what it does. The reader,
config/xpumeter.schema.json and docs/configuration.md follow.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from xpumeter.errors import ConfigError
from xpumeter.filtering import Filter
from xpumeter.forms import AUTO, ENDPOINT, FOLDER, FOLDERS, HEADERS, HOOKS, SOCKET, choice, duration
from xpumeter.hook import PINS, Hook
from xpumeter.settings import read_section, schema_of, setting, show_section


class LogLevel(StrEnum):
    """Least important message that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class MetricsLevel(StrEnum):
    """How much the agent says about itself."""

    NONE = "none"
    NORMAL = "normal"


@dataclass(frozen=True, slots=True)
class Counting:
    """Counting calls, and naming who made them."""

    collection_interval_s: float = setting(
        duration("1s", "1h"),
        10.0,
        "How often the counts are read, named and exported.",
        key="collection_interval",
    )
    hooks: tuple[Hook, ...] = setting(
        HOOKS,
        tuple(Hook),
        "Where the programs may attach: the best that works of those named is taken. This version "
        "has `fexit`; the others are refused with their reason.",
        key="hook",
    )
    runtime_endpoint: str = setting(
        SOCKET,
        AUTO,
        "Socket of the container runtime (CRI), which knows the names of containers. `auto` takes "
        "the first known one that is there.",
    )
    driver_tables: tuple[Path, ...] = setting(
        FOLDERS,
        (),
        "Folders of driver tables beside the shipped ones. A table replaces an earlier one of the "
        "same driver.",
    )
    pins: Path = setting(
        FOLDER,
        PINS,
        "Where `attach` pins programs and maps; a folder in a bpffs.",
    )
    state: Path = setting(
        FOLDER,
        Path("/run/xpumeter"),
        "Folder for what a restarted agent must still know: the names of containers that are gone "
        "by then. Made if it is not there.",
    )


@dataclass(frozen=True, slots=True)
class Receivers:
    """Where the counts come from."""

    xpumeter: Counting = Counting()


@dataclass(frozen=True, slots=True)
class Processors:
    """What happens to the counts on their way."""

    filter: Filter = Filter()


@dataclass(frozen=True, slots=True)
class OtlpGrpc:
    """OTLP over gRPC, to a Collector."""

    endpoint: str = setting(
        ENDPOINT,
        "http://localhost:4317",
        "Where the Collector is. `https` means TLS.",
        variable="OTEL_EXPORTER_OTLP_ENDPOINT",
    )
    headers: tuple[tuple[str, str], ...] = setting(
        HEADERS,
        (),
        "Sent with each batch, such as a token. Never printed. The variable has `name=text`, with "
        "commas between.",
        variable="OTEL_EXPORTER_OTLP_HEADERS",
        secret=True,
    )
    timeout_s: float = setting(
        duration("100ms", "10m"),
        10.0,
        "How long the Collector has to take a batch.",
        key="timeout",
    )


@dataclass(frozen=True, slots=True)
class Exporters:
    """Where the counts go."""

    otlp_grpc: OtlpGrpc = OtlpGrpc()


@dataclass(frozen=True, slots=True)
class Logs:
    """The agent's log, on standard error."""

    level: LogLevel = setting(choice(LogLevel), LogLevel.INFO, "Least important message logged.")


@dataclass(frozen=True, slots=True)
class Metrics:
    """The agent's metrics about itself."""

    level: MetricsLevel = setting(
        choice(MetricsLevel),
        MetricsLevel.NORMAL,
        "Whether the agent exports metrics about itself, to the same Collector.",
    )


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What the agent says about itself."""

    logs: Logs = Logs()
    metrics: Metrics = Metrics()


@dataclass(frozen=True, slots=True)
class Service:
    """The agent as a process."""

    telemetry: Telemetry = Telemetry()


@dataclass(frozen=True, slots=True)
class Config:
    """Configuration of xpumeter; `load` gives it complete and checked."""

    receivers: Receivers = Receivers()
    processors: Processors = Processors()
    exporters: Exporters = Exporters()
    service: Service = Service()

    @property
    def receiver(self) -> Counting:
        """The only receiver."""
        return self.receivers.xpumeter

    @property
    def exporter(self) -> OtlpGrpc:
        """The only exporter."""
        return self.exporters.otlp_grpc


_TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
_FIXED = "the pipeline is fixed (xpumeter, filter, otlp_grpc): leave this key out"
_ONLY_GRPC = "the exporter is called otlp_grpc: OTLP over gRPC is what there is"
_HINTS = {
    "extensions": _FIXED,
    "connectors": _FIXED,
    "service.pipelines": _FIXED,
    "service.extensions": _FIXED,
    "exporters.otlp": _ONLY_GRPC,
    "exporters.otlphttp": _ONLY_GRPC,
    "exporters.otlp_http": _ONLY_GRPC,
}
"""What users of a Collector write by habit, and what to do instead."""


def load(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Config:
    """The configuration in the file, or the defaults, with the environment in them.

    A key that is left out has its default. ConfigError for the first thing that is wrong.
    """
    if environ.get(_TEMPORALITY, "cumulative").lower() != "cumulative":
        raise ConfigError(
            f"environment variable {_TEMPORALITY}: xpumeter exports cumulative totals only",
            hint="let a Collector make deltas of them, with its cumulativetodelta processor",
        )
    if path is None:
        return read_section(Config, None, environ)
    from xpumeter import yaml_nodes  # brings PyYAML

    top = yaml_nodes.read(path, ConfigError)
    yaml_nodes.expand(top, environ)
    config = read_section(Config, top, environ, _HINTS)
    exporters = top.entries().get("exporters")
    if exporters and not exporters.entries():
        raise exporters.wrong(
            "no exporter: the counts would go nowhere",
            hint="leave `exporters` out for the default, or name otlp_grpc in it",
        )
    return config


def show(config: Config) -> dict[str, Any]:
    """The configuration as a file would say it, every key with its value; secrets hidden."""
    return show_section(config)


def schema() -> dict[str, Any]:
    """JSON Schema of the file, for editors; config/xpumeter.schema.json holds it."""
    described = schema_of(Config)
    described["properties"]["exporters"] |= {"type": "object", "minProperties": 1}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described}
