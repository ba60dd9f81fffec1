# SPDX-License-Identifier: Apache-2.0
"""What is wrong in a configuration is one error with its place; nothing else comes out of it."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from xpumeter import config
from xpumeter.config import Config
from xpumeter.errors import ConfigError

SCHEMA = json.loads((Path(__file__).parents[2] / "config/xpumeter.schema.json").read_text())


def refused(folder: Path, text: str) -> tuple[str, str]:
    """What is said of a file, without the folder; and the hint."""
    file = folder / "c.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        config.load(file, {})
    return str(caught.value).replace(f"{folder}/", ""), caught.value.hint


def in_receiver(text: str) -> str:
    return f"receivers:\n  xpumeter:\n    {text}\n"


def in_exporter(text: str) -> str:
    return f"exporters:\n  otlp_grpc:\n    {text}\n"


def in_filter(text: str) -> str:
    return f"processors:\n  filter:\n    {text}\n"


FIXED = "the pipeline is fixed (xpumeter, filter, the exporters): leave this key out"

BROKEN = [
    ("recievers: {}", "1:1: unknown key 'recievers'", "did you mean 'receivers'?"),
    ("receivers: []", "1:12: receivers: expected a mapping, not a list", ""),
    ("[a]", "1:1: expected a mapping, not a list", ""),
    (
        in_receiver("colection-interval: 1s"),
        "3:5: receivers.xpumeter: unknown key 'colection-interval'",
        "did you mean 'collection_interval'?",
    ),
    (
        in_receiver("collection_interval: 10"),
        "3:26: receivers.xpumeter.collection_interval: expected a string, not a whole number",
        "put it in quotes",
    ),
    (
        in_receiver("collection_interval: '10'"),
        "3:26: receivers.xpumeter.collection_interval: "
        "'10' is not a duration such as 10s, 500ms or 1m30s",
        "",
    ),
    (
        in_receiver("hook: kprobes"),
        "3:11: receivers.xpumeter.hook: unknown value 'kprobes'",
        "did you mean 'kprobe'?",
    ),
    (
        in_receiver("hook: [auto]"),
        "3:12: receivers.xpumeter.hook[0]: unknown value 'auto'",
        "known: fexit, kprobe, file_ioctl, bcc",
    ),
    (
        in_receiver("hook: []"),
        "3:11: receivers.xpumeter.hook: an empty list leaves no hook to try",
        "write auto to try all",
    ),
    (
        in_receiver("runtime_endpoint: containerd"),
        "3:23: receivers.xpumeter.runtime_endpoint: "
        "'containerd' is not auto, none or the path of a socket",
        "",
    ),
    (
        in_receiver("runtime_endpoint: false"),
        "3:23: receivers.xpumeter.runtime_endpoint: expected a string, not a boolean",
        "put it in quotes",
    ),
    (
        in_receiver("driver_tables: /etc"),
        "3:20: receivers.xpumeter.driver_tables: expected a list, not a string",
        "",
    ),
    (
        in_receiver("driver_tables: [here]"),
        "3:21: receivers.xpumeter.driver_tables[0]: 'here' is not an absolute path",
        "",
    ),
    (
        in_receiver("pins:"),
        "3:10: receivers.xpumeter.pins: expected a string, not nothing",
        "",
    ),
    (
        "processors: {filter: {namespace: {}}}",
        "1:23: processors.filter: unknown key 'namespace'",
        "did you mean 'namespaces'?",
    ),
    (
        in_filter("namespaces: [kube-system]"),
        "3:17: processors.filter.namespaces: expected a mapping, not a list",
        "",
    ),
    (
        in_filter("pods: {exclude: canary-*}"),
        "3:21: processors.filter.pods.exclude: expected a list, not a string",
        "",
    ),
    (
        in_filter("pods: {include: []}"),
        "3:21: processors.filter.pods.include: an empty list includes nothing",
        'leave it out, or write ["*"], for all',
    ),
    (
        in_filter('devices: {exclude: [ast, ""]}'),
        "3:30: processors.filter.devices.exclude[1]: an empty pattern",
        'write "*" for all',
    ),
    (
        in_filter("devices: {exclude: [1]}"),
        "3:25: processors.filter.devices.exclude[0]: expected a string, not a whole number",
        "put it in quotes",
    ),
    (
        in_filter("kinds: {include: [wait, sumbit]}"),
        "3:29: processors.filter.kinds.include[1]: unknown value 'sumbit'",
        "did you mean 'submit'?",
    ),
    (
        in_filter('host: {enabled: "off"}'),
        "3:21: processors.filter.host.enabled: expected a boolean, not a string",
        "write true or false",
    ),
    (
        "processors: {batch: {}}",
        "1:14: processors: unknown key 'batch'",
        "known: filter",
    ),
    (
        "exporters: {otlp: {}}",
        "1:13: exporters: unknown key 'otlp'",
        "the exporter is called otlp_grpc",
    ),
    (
        "exporters: {}",
        "1:12: exporters: no exporter: the counts would go nowhere",
        "leave `exporters` out, or name otlp_grpc, otlp_http or prometheus in it",
    ),
    (
        in_exporter("endpoint: localhost"),
        "3:15: exporters.otlp_grpc.endpoint: 'localhost' is not "
        "http://HOST:PORT, https://HOST:PORT, HOST:PORT or unix:///PATH",
        "",
    ),
    (
        in_exporter("headers: {grpc-x: a}"),
        "3:23: exporters.otlp_grpc.headers.grpc-x: 'grpc-x' is no header's name",
        "not grpc-..., not ...-bin",
    ),
    (
        in_exporter("headers: {tenant: 12}"),
        "3:23: exporters.otlp_grpc.headers.tenant: expected a string, not a whole number",
        "put it in quotes",
    ),
    ("service: {pipelines: {}}", "1:11: service: unknown key 'pipelines'", FIXED),
    ("connectors: {}", "1:1: unknown key 'connectors'", FIXED),
    (
        "exporters: {prometheus: {endpoint: 8080}}",
        "1:36: exporters.prometheus.endpoint: expected a string, not a whole number",
        "put it in quotes",
    ),
    (
        "extensions: {health_check: {endpoint: '::1:13133'}}",
        "1:39: extensions.health_check.endpoint: "
        "'::1:13133' is not HOST:PORT, [IPV6]:PORT or :PORT",
        "",
    ),
    (
        "service: {telemetry: {logs: {level: warning}}}",
        "1:37: service.telemetry.logs.level: unknown value 'warning'",
        "did you mean 'warn'?",
    ),
]


@pytest.mark.parametrize(("text", "message", "hint"), BROKEN)
def test_what_is_wrong_is_one_error_with_its_place(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    """File, line, column, and the nearest right name; the schema refuses the same."""
    assert refused(tmp_path, text) == (f"c.yaml:{message}", hint)
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(yaml.safe_load(text))


ONLY_THE_READER = [
    (
        in_receiver("collection_interval: 10ms"),
        ":3:26: receivers.xpumeter.collection_interval: '10ms' is not between 1s and 1h",
        "",
    ),
    (
        in_exporter("endpoint: http://a:65536"),
        ":3:15: exporters.otlp_grpc.endpoint: 'http://a:65536' is not "
        "http://HOST:PORT, https://HOST:PORT, HOST:PORT or unix:///PATH",
        "",
    ),
    (
        in_receiver("pins: ${env:NOT_SET}"),
        ":3:11: environment variable NOT_SET is not set",
        "set it, or write ${env:NOT_SET:-default}",
    ),
    (
        in_receiver("pins: ${HOME}"),
        ":3:11: ${...} is no reference",
        "write ${env:NAME}; $$ is a dollar",
    ),
    ("receivers: {}\nreceivers: {}", ":2:1: key 'receivers' stands twice", "see line 1"),
    ("? [a]\n: b", ":1:3: a key cannot be a list", ""),
    ("a: b: c", ":1:5: not YAML: mapping values are not allowed in this context", ""),
    ("a: *b", ":1:4: not YAML: found undefined alias", ""),
    ("---\n---\n", ":2:1: not YAML: but found another document", ""),
]


@pytest.mark.parametrize(("text", "message", "hint"), ONLY_THE_READER)
def test_what_no_schema_sees_is_refused_too(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    """Ranges, the environment, keys that stand twice, and what is no YAML."""
    assert refused(tmp_path, text) == (f"c.yaml{message}", hint)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """Missing, a folder, or not text."""
    for path, reason in [
        (tmp_path / "x", "No such file or directory"),
        (tmp_path, "Is a directory"),
    ]:
        with pytest.raises(ConfigError) as caught:
            config.load(path)
        assert str(caught.value) == f"{path}: cannot be read: {reason}"

    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"a: b\nc: \xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.yaml:2: not UTF-8"):
        config.load(latin)


WORDS = st.sampled_from(
    [*"{}[]:,&*!?|>#%@-\n \"'$", ": ", "\n  ", "- ", "receivers", "xpumeter", "hook", "exporters",
     "otlp_grpc", "headers", "endpoint", "collection_interval", "1h", "9" * 5000, "1e400", "${env:",
     "${env:A}", "}", "&a", "*a", "<<", "!!int", "null", "0x", "---\n", "\x85", "\ufeff", "\x00"]
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.one_of(st.binary(), st.lists(WORDS).map(lambda words: "".join(words).encode())))
@example(b"receivers: &a {xpumeter: *a}")
@example(b"exporters: &a {otlp_grpc: {headers: *a}}")
@example(b"[" * 3000)
@example(b"receivers: {xpumeter: {collection_interval: " + b"9" * 400 + b"h}}")
def test_any_file_is_a_configuration_or_a_config_error(tmp_path: Path, content: bytes) -> None:
    """Never another exception, whatever the bytes."""
    file = tmp_path / "any.yaml"
    file.write_bytes(content)

    try:
        outcome: Config | ConfigError = config.load(file, {"A": "b\udcff"})
    except ConfigError as error:
        outcome = error

    assert isinstance(outcome, Config) or str(outcome).startswith(f"{file}:")
