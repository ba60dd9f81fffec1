# SPDX-License-Identifier: Apache-2.0
"""Which exporter there is and what it does: the file, OpenTelemetry's variables, the defaults."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from xpumeter import config, validate
from xpumeter.config import Config
from xpumeter.destination import (
    Compression,
    GrpcTls,
    HttpTls,
    OtlpGrpc,
    OtlpHttp,
    Retry,
)
from xpumeter.errors import ConfigError

SCHEMA = json.loads((Path(__file__).parents[2] / "config/xpumeter.schema.json").read_text())
OTLP = "OTEL_EXPORTER_OTLP_"


def load(folder: Path, text: str, **environ: str) -> Config:
    file = folder / "c.yaml"
    file.write_text(text)
    jsonschema.Draft202012Validator(SCHEMA).validate(yaml.safe_load(text))
    return config.load(file, environ)


def refused(folder: Path, text: str, **environ: str) -> tuple[str, str]:
    file = folder / "c.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        config.load(file, environ)
    return str(caught.value).replace(f"{folder}/", ""), caught.value.hint


# As a user of the Collector has it at hand.
GRPC = """
exporters:
  otlp_grpc:
    endpoint: gateway.example:4317
    tls: {insecure: false, ca_file: /ca, cert_file: /cert, key_file: /key, server_name_override: gw}
    headers: {authorization: "Bearer ${env:BEARER}"}
    compression: gzip
    timeout: 5s
    retry_on_failure: {enabled: true, initial_interval: 5s, randomization_factor: 0.5,
                       multiplier: 1.5, max_interval: 30s, max_elapsed_time: 5m}
    max_request_size_mib: 16
"""
HTTP = """
exporters:
  otlp_http:
    endpoint: https://gateway.example/otlp
    metrics_endpoint: https://gateway.example/otlp/v1/metrics
    tls: {insecure_skip_verify: true}
    headers: {x-scope-orgid: team}
    compression: none
    timeout: 5s
    retry_on_failure: {enabled: false}
"""


def test_the_collectors_own_keys_mean_what_they_mean_there(tmp_path: Path) -> None:
    """Over gRPC and over HTTP."""
    assert load(tmp_path, GRPC, BEARER="t").exporter == OtlpGrpc(
        "gateway.example:4317",
        GrpcTls("/ca", "/cert", "/key", "gw"),
        (("authorization", "Bearer t"),),
        Compression.GZIP,
        5.0,
        Retry(True, 5.0, 0.5, 1.5, 30.0, 300.0),
        16.0,
    )
    assert load(tmp_path, HTTP).exporter == OtlpHttp(
        "https://gateway.example/otlp",
        "https://gateway.example/otlp/v1/metrics",
        HttpTls(insecure_skip_verify=True),
        (("x-scope-orgid", "team"),),
        Compression.NONE,
        5.0,
        Retry(enabled=False),
    )


@pytest.mark.parametrize("text", [GRPC, HTTP])
def test_what_is_shown_is_a_file_that_means_the_same(tmp_path: Path, text: str) -> None:
    """Only secrets are not in it."""
    found = load(tmp_path, text, BEARER="s3cret")
    shown = config.show(found)

    assert "s3cret" not in f"{shown}{found!r}"
    again = load(tmp_path, json.dumps(shown))
    assert config.show(again) == shown


def test_both_exporters_are_one_error_that_names_the_lines(tmp_path: Path) -> None:
    """In whichever order they stand."""
    text = "exporters:\n  otlp_http:\n    timeout: 5s\n  otlp_grpc: {}\n"

    assert refused(tmp_path, text) == (
        "c.yaml:4:3: exporters: otlp_grpc beside otlp_http (line 2): the counts go one way",
        "take one of them out; a Collector can send them on to several places",
    )
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("environ", "exporter"),
    [
        ({"PROTOCOL": "grpc"}, OtlpGrpc()),
        ({"PROTOCOL": "http/protobuf"}, OtlpHttp()),
        ({"PROTOCOL": "grpc", "METRICS_PROTOCOL": "http/protobuf"}, OtlpHttp()),
        ({"PROTOCOL": "http/protobuf", "METRICS_PROTOCOL": ""}, OtlpHttp()),
        ({"ENDPOINT": "https://a:1"}, OtlpGrpc("https://a:1")),
        ({"ENDPOINT": "https://a:1", "METRICS_ENDPOINT": "http://b:2"}, OtlpGrpc("http://b:2")),
        ({"ENDPOINT": "a:1", "INSECURE": "TRUE"}, OtlpGrpc("a:1", GrpcTls(insecure=True))),
        ({"HEADERS": "a=1,b=2", "METRICS_HEADERS": "c=3"}, OtlpGrpc(headers=(("c", "3"),))),
        ({"COMPRESSION": "gzip"}, OtlpGrpc(compression=Compression.GZIP)),
        ({"METRICS_COMPRESSION": "none", "COMPRESSION": "gzip"}, OtlpGrpc()),
        ({"TIMEOUT": "2500"}, OtlpGrpc(timeout_s=2.5)),
        (
            {"CERTIFICATE": "ca", "CLIENT_CERTIFICATE": "cert", "CLIENT_KEY": "key"},
            OtlpGrpc(tls=GrpcTls("ca", "cert", "key")),
        ),
        (
            {"CERTIFICATE": "ca", "METRICS_CERTIFICATE": "m-ca", "PROTOCOL": "http/protobuf"},
            OtlpHttp(tls=HttpTls("m-ca")),
        ),
        (
            {"PROTOCOL": "http/protobuf", "ENDPOINT": "http://a/x", "METRICS_ENDPOINT": "http://b"},
            OtlpHttp("http://a/x", "http://b"),
        ),
    ],
    ids=str,
)
def test_opentelemetrys_variables_stand_in(environ: dict[str, str], exporter: Any) -> None:
    """That of metrics before that of all signals; an empty one is none."""
    found = config.load(None, {f"{OTLP}{name}": value for name, value in environ.items()})

    assert found.exporter == exporter


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("PROTOCOL", "http/json", "'http/json' is not grpc or http/protobuf"),
        ("TIMEOUT", "10s", "'10s' is not a whole number of milliseconds from 100 to 600000"),
        ("TIMEOUT", "10", "'10' is not a whole number of milliseconds from 100 to 600000"),
        ("METRICS_COMPRESSION", "zstd", "'zstd' is not none or gzip"),
        ("INSECURE", "yes", "'yes' is not true or false"),
    ],
)
def test_a_variable_that_cannot_be_read_is_named(variable: str, value: str, message: str) -> None:
    """It would do something else than was meant."""
    with pytest.raises(ConfigError) as caught:
        config.load(None, {f"{OTLP}{variable}": value})

    assert str(caught.value) == f"environment variable {OTLP}{variable}: {message}"


def test_the_file_comes_before_the_environment(tmp_path: Path) -> None:
    """Key by key, the protocol too; an endpoint in the file also before that of metrics."""
    environ = {
        f"{OTLP}PROTOCOL": "grpc",
        f"{OTLP}ENDPOINT": "http://b:2",
        f"{OTLP}METRICS_ENDPOINT": "http://c:3",
        f"{OTLP}TIMEOUT": "1000",
    }
    found = load(tmp_path, "exporters: {otlp_http: {endpoint: 'http://a:1'}}", **environ)

    assert found.exporter == OtlpHttp("http://a:1", timeout_s=1.0)


def test_the_environment_may_bring_a_boolean_or_a_number(tmp_path: Path) -> None:
    """It is a text, which means what it would mean in the file."""
    text = (
        "exporters: {otlp_grpc: {tls: {insecure: '${env:PLAIN}'}, "
        "retry_on_failure: {multiplier: '${env:TIMES}'}, headers: {tenant: '${env:TIMES}'}}}"
    )

    exporter = load(tmp_path, text, PLAIN="true", TIMES="3").exporter

    assert isinstance(exporter, OtlpGrpc)
    assert exporter.tls.insecure
    assert exporter.retry_on_failure.multiplier == 3
    assert exporter.headers == (("tenant", "3"),)


@pytest.mark.parametrize(
    ("exporter", "message", "hint"),
    [
        (
            "otlp_grpc: {sending_queue: {}}",
            "1:25: exporters.otlp_grpc: unknown key 'sending_queue'",
            "leave it out: a batch has all totals, so the newest replaces the one that waits",
        ),
        (
            "otlp_grpc: {tls: {insecure_skip_verify: true}}",
            "1:31: exporters.otlp_grpc.tls: unknown key 'insecure_skip_verify'",
            "gRPC always checks the certificate: give its issuer as ca_file and its name as "
            "server_name_override, or use otlp_http",
        ),
        (
            "otlp_http: {tls: {insecure: true}}",
            "1:31: exporters.otlp_http.tls: unknown key 'insecure'",
            "the endpoint says it: http:// speaks no TLS",
        ),
        (
            "otlp_http: {retry_on_failure: {initial-interval: 5s}}",
            "1:44: exporters.otlp_http.retry_on_failure: unknown key 'initial-interval'",
            "did you mean 'initial_interval'?",
        ),
        (
            "otlp_http: {endpoint: 'localhost:4318'}",
            "1:35: exporters.otlp_http.endpoint: 'localhost:4318' is not "
            "http://HOST:PORT/PATH, https://HOST:PORT/PATH or unix:///PATH",
            "",
        ),
        (
            "otlp_grpc: {tls: {insecure: 'true'}}",
            "1:41: exporters.otlp_grpc.tls.insecure: expected a boolean, not a string",
            "write true or false",
        ),
        (
            "otlp_grpc: {max_request_size_mib: 0.01}",
            "1:47: exporters.otlp_grpc.max_request_size_mib: 0.01 is not between 0.0625 and 1024",
            "",
        ),
        (
            "otlp_grpc: {max_request_size_mib: 4MiB}",
            "1:47: exporters.otlp_grpc.max_request_size_mib: expected a number, not a string",
            "",
        ),
        (
            "otlp_grpc: {compression: zstd}",
            "1:38: exporters.otlp_grpc.compression: unknown value 'zstd'",
            "known: none, gzip",
        ),
    ],
)
def test_what_is_wrong_has_its_place_and_what_to_do(
    tmp_path: Path, exporter: str, message: str, hint: str
) -> None:
    """Also for what users of the Collector write by habit; the schema refuses it too."""
    text = f"exporters: {{{exporter}}}"

    assert refused(tmp_path, text) == (f"c.yaml:{message}", hint)
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(yaml.safe_load(text))


def test_a_certificate_goes_with_a_key(tmp_path: Path) -> None:
    """One of them alone is a slip."""
    message, hint = refused(tmp_path, "exporters: {otlp_http: {tls: {cert_file: /cert}}}")

    assert message == (
        "exporters: tls.cert_file and tls.key_file go together, and one of them is missing"
    )
    assert hint == "name both, in the file or in the environment, or neither"


def test_validate_reads_the_certificates(tmp_path: Path) -> None:
    """A file that is not there is found before anything runs."""
    file = tmp_path / "c.yaml"
    file.write_text("exporters: {otlp_grpc: {tls: {ca_file: /none}}}")

    with pytest.raises(ConfigError, match=r"tls\.ca_file: /none: cannot be read: No such file"):
        validate.check(file, environ={})


@pytest.mark.parametrize("exporter", ["otlp_grpc", "otlp_http"])
def test_a_password_in_an_endpoint_is_not_repeated(tmp_path: Path, exporter: str) -> None:
    """The error says that it is wrong, and not what it was."""
    file = tmp_path / "c.yaml"
    file.write_text(f"exporters: {{{exporter}: {{endpoint: 'http://me:s3cret@there:4317'}}}}")

    with pytest.raises(ConfigError) as raised:
        config.load(file, {})

    assert "s3cret" not in str(raised.value)
    assert "http://(hidden)@there:4317" in str(raised.value)


def test_a_token_in_a_url_is_not_shown(tmp_path: Path) -> None:
    """It is used, and `validate` hides it."""
    file = tmp_path / "c.yaml"
    url = "https://there/v1/metrics?api_key=s3cret"
    file.write_text(f"exporters: {{otlp_http: {{metrics_endpoint: '{url}'}}}}")

    found = config.load(file, {})

    assert found.exporters.otlp_http is not None
    assert found.exporters.otlp_http.metrics_endpoint == url
    assert "s3cret" not in str(config.show(found))
