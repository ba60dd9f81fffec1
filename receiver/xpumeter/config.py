# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF009 (setting() makes a field, once per class)
"""The configuration: one frozen tree, in the shape of an OpenTelemetry Collector's.

Everything about a key stands here once: its default, how it is written, what it does. The reader,
config/xpumeter.schema.json and docs/configuration.md follow.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpumeter.destination import Destination, OtlpGrpc, OtlpHttp, Protocol, variables
from xpumeter.errors import ConfigError
from xpumeter.filtering import Filter
from xpumeter.forms import AUTO, FOLDER, FOLDERS, HOOKS, LISTEN, SOCKET, choice, duration
from xpumeter.hook import PINS, Hook
from xpumeter.settings import read_section, schema_of, setting, show_section

if TYPE_CHECKING:  # it brings PyYAML, which a run without a file does not need
    from xpumeter.yaml_nodes import Node


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
        "the first known one that lists a container which calls; `none` leaves the names out.",
    )
    driver_tables: tuple[Path, ...] = setting(
        FOLDERS,
        (),
        "Folders of driver tables beside the shipped ones. A table replaces an earlier one of the "
        "same driver, or extends it where it says so.",
    )
    pins: Path = setting(
        FOLDER,
        PINS,
        "Where `attach` pins programs and maps; a folder in a bpffs.",
    )
    state: Path = setting(
        FOLDER,
        Path("/run/xpumeter"),
        "Folder for what a restarted agent must still know: counts and names of containers that "
        "are gone by then, and the kinds of what was counted. Made if it is not there; who deletes "
        "it loses those counts.",
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
class Prometheus:
    """A page for Prometheus to scrape, `/metrics`; naming it switches it on."""

    endpoint: tuple[str, int] = setting(
        LISTEN,
        ("localhost", 8080),
        "Where it listens. Whoever can reach it can read all counts.",
    )


@dataclass(frozen=True, slots=True)
class Exporters:
    """Where the counts go: `otlp_grpc` unless others are named, and then those that are."""

    otlp_grpc: OtlpGrpc | None = OtlpGrpc()
    otlp_http: OtlpHttp | None = None
    prometheus: Prometheus | None = None


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """Answers to probes, `/healthz` and `/readyz`; naming it switches it on."""

    endpoint: tuple[str, int] = setting(
        LISTEN,
        ("localhost", 13133),
        "Where it listens; the same address as another page is one listener for both. The kubelet "
        "asks from outside the pod: `:13133`.",
    )


@dataclass(frozen=True, slots=True)
class Extensions:
    """What runs beside the pipeline."""

    health_check: HealthCheck | None = None


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
        "Whether the agent exports metrics about itself, the same ways as the counts.",
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
    extensions: Extensions = Extensions()
    service: Service = Service()

    @property
    def receiver(self) -> Counting:
        """The only receiver."""
        return self.receivers.xpumeter

    @property
    def exporter(self) -> Destination | None:
        """The exporter to a Collector; None if there is only a page to scrape."""
        return self.exporters.otlp_grpc or self.exporters.otlp_http


_TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
_FIXED = "the pipeline is fixed (xpumeter, filter, the exporters): leave this key out"
_NO_QUEUE = "leave it out: a batch has all totals, so the newest replaces the one that waits"
_HINTS = {
    "connectors": _FIXED,
    "service.pipelines": _FIXED,
    "service.extensions": _FIXED,
    "exporters.otlp": "the exporter is called otlp_grpc",
    "exporters.otlphttp": "the exporter is called otlp_http",
    "exporters.otlp_grpc.sending_queue": _NO_QUEUE,
    "exporters.otlp_http.sending_queue": _NO_QUEUE,
    "exporters.otlp_grpc.tls.insecure_skip_verify": "gRPC always checks the certificate: give its "
    "issuer as ca_file and its name as server_name_override, or use otlp_http",
    "exporters.otlp_http.tls.insecure": "the endpoint says it: http:// speaks no TLS",
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
        return _complete(read_section(Config, None, environ), environ)
    from xpumeter import yaml_nodes  # brings PyYAML

    top = yaml_nodes.read(path, ConfigError)
    yaml_nodes.expand(top, environ)
    config = read_section(Config, top, environ, _HINTS)
    if (exporters := top.entries().get("exporters")) is not None:
        _check_exporters(exporters)
    return _complete(config, environ)


def _check_exporters(exporters: "Node") -> None:
    given = exporters.entries()
    if not given:
        raise exporters.wrong(
            "no exporter: the counts would go nowhere",
            hint="leave `exporters` out, or name otlp_grpc, otlp_http or prometheus in it",
        )
    if {"otlp_grpc", "otlp_http"} <= given.keys():
        first, second = sorted(
            (exporters.key(name).raw.start_mark.line + 1, name)
            for name in ("otlp_grpc", "otlp_http")
        )
        raise exporters.key(second[1]).wrong(
            f"{second[1]} beside {first[1]} (line {first[0]}): the counts go one way",
            hint="take one of them out; a Collector can send them on to several places",
        )


def _complete(config: Config, environ: Mapping[str, str]) -> Config:
    """With the exporter that the environment asks for, where the file names none."""
    exporters = config.exporters
    if exporters == Exporters(None, None, None):
        if _protocol(environ) is Protocol.GRPC:
            exporters = replace(exporters, otlp_grpc=read_section(OtlpGrpc, None, environ))
        else:
            exporters = replace(exporters, otlp_http=read_section(OtlpHttp, None, environ))
    tls = (exporters.otlp_grpc or exporters.otlp_http or OtlpGrpc()).tls
    if bool(tls.cert_file) is not bool(tls.key_file):
        raise ConfigError(
            "exporters: tls.cert_file and tls.key_file go together, and one of them is missing",
            hint="name both, in the file or in the environment, or neither",
        )
    return replace(config, exporters=exporters)


def _protocol(environ: Mapping[str, str]) -> Protocol:
    for variable in variables("PROTOCOL"):
        if text := environ.get(variable):
            if text not in list(Protocol):
                raise ConfigError(
                    f"environment variable {variable}: {text!r} is not {' or '.join(Protocol)}"
                )
            return Protocol(text)
    return Protocol.GRPC


def show(config: Config) -> dict[str, Any]:
    """The configuration as a file would say it, every key with its value; secrets hidden."""
    return show_section(config)


def schema() -> dict[str, Any]:
    """JSON Schema of the file, for editors; config/xpumeter.schema.json holds it."""
    described = schema_of(Config)
    described["properties"]["exporters"] |= {
        "type": "object",
        "minProperties": 1,
        "not": {"required": ["otlp_grpc", "otlp_http"]},
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described}
