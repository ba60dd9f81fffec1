# SPDX-License-Identifier: Apache-2.0
"""The configuration: complete, strict, and the same in the reader, the schema and the docs."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from xpumeter import config, reference, validate
from xpumeter.config import Config
from xpumeter.destination import Destination, OtlpGrpc
from xpumeter.errors import ConfigError
from xpumeter.hook import Hook
from xpumeter.model.selection import Patterns, Selection
from xpumeter.settings import walk

CHECKOUT = Path(__file__).parents[2]
SHIPPED = CHECKOUT / "config/xpumeter.yaml"
SCHEMA = json.loads((CHECKOUT / "config/xpumeter.schema.json").read_text())


def load(folder: Path, text: str, **environ: str) -> Config:
    file = folder / "c.yaml"
    file.write_text(text)
    return config.load(file, environ)


def exporter(found: Config) -> Destination:
    """The exporter to a Collector, which is there."""
    assert found.exporter is not None
    return found.exporter


def in_receiver(text: str) -> str:
    return f"receivers:\n  xpumeter:\n    {text}\n"


def in_exporter(text: str) -> str:
    return f"exporters:\n  otlp_grpc:\n    {text}\n"


# --- what a file amounts to ----------------------------------------------------------------------


OFF = ("exporters.otlp_http.", "exporters.prometheus.", "extensions.")


def uncommented(text: str) -> str:
    """With the keys that stand behind a `#` taken out of there; the prose stays."""
    return re.sub(r"^( *)# ( *[a-z_]+:(?: \S+)?)$", r"\1\2", text, flags=re.MULTILINE)


def test_the_shipped_file_is_the_defaults_with_every_key() -> None:
    """Reading it is reading the manual: each key is there, commented, with its default."""
    assert config.load(SHIPPED, {}) == Config() == config.load(None, {})

    text = uncommented(SHIPPED.read_text())
    complete = yaml.safe_load(text)
    for path, _, default in walk(Config):
        value: Any = complete
        for key in path.split("."):
            value = value[key]
        assert value == default, path


def test_a_default_that_the_environment_may_change_is_a_comment_in_the_shipped_file() -> None:
    """As a key it would stand in the variable's way."""
    written = yaml.safe_load(SHIPPED.read_text())
    for path, described, _ in walk(Config):
        value: Any = written
        for key in path.split("."):
            value = (value or {}).get(key)
        if not path.startswith(OFF):  # comments as a whole
            assert (value is None) is bool(described.variables), path


def test_asking_for_delta_is_an_error_that_says_who_can() -> None:
    """Totals are what the kernel has; a Collector can subtract."""
    with pytest.raises(ConfigError, match="cumulative totals only") as caught:
        config.load(None, {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta"})
    assert "cumulativetodelta" in caught.value.hint


def test_headers_may_come_from_the_environment() -> None:
    """As OpenTelemetry writes them; what is wrong is named without showing the secret."""
    variable = "OTEL_EXPORTER_OTLP_HEADERS"
    found = config.load(None, {variable: "Authorization=Bearer%20s3cret, tenant=a"})
    assert exporter(found).headers == (("authorization", "Bearer s3cret"), ("tenant", "a"))

    with pytest.raises(ConfigError) as caught:
        config.load(None, {variable: "s3cret"})
    assert str(caught.value) == (
        f"environment variable {variable}: expected name=text, with commas between"
    )


def test_the_environment_stands_in_as_in_the_shipped_file() -> None:
    """With no file, and with one that leaves the endpoint out, the variable says where to go."""
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://otel.example:443"}

    found = config.load(None, environ)

    assert exporter(found).endpoint == "https://otel.example:443"
    assert found == config.load(SHIPPED, environ)
    assert config.load(None, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}) == Config()


def test_a_bad_variable_is_named() -> None:
    """The error is not about the file, so it names the variable."""
    with pytest.raises(ConfigError) as caught:
        config.load(None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "nowhere"})

    assert str(caught.value) == (
        "environment variable OTEL_EXPORTER_OTLP_ENDPOINT: "
        "'nowhere' is not http://HOST:PORT, https://HOST:PORT, HOST:PORT or unix:///PATH"
    )


def test_what_the_file_says_comes_before_the_environment(tmp_path: Path) -> None:
    """The file first, as with a Collector."""
    found = load(
        tmp_path, in_exporter("endpoint: http://a:1"), OTEL_EXPORTER_OTLP_ENDPOINT="http://b:2"
    )

    assert exporter(found).endpoint == "http://a:1"


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("collection_interval: 1m30s", "collection_interval_s", 90.0),
        ("collection_interval: 1500ms", "collection_interval_s", 1.5),
        ("collection_interval: 1.5s", "collection_interval_s", 1.5),
        ("hook: auto", "hooks", tuple(Hook)),
        ("hook: kprobe", "hooks", (Hook.KPROBE,)),
        ("hook: [kprobe, fexit]", "hooks", (Hook.KPROBE, Hook.FEXIT)),
        ("runtime_endpoint: none", "runtime_endpoint", "none"),
        ("runtime_endpoint: unix:///run/c.sock", "runtime_endpoint", "/run/c.sock"),
        ("runtime_endpoint: /run/c.sock", "runtime_endpoint", "/run/c.sock"),
        ("driver_tables: [/etc/xpumeter]", "driver_tables", (Path("/etc/xpumeter"),)),
        ("pins: /sys/fs/bpf/other", "pins", Path("/sys/fs/bpf/other")),
        ("hook: ${env:HOOK}", "hooks", (Hook.FILE_IOCTL,)),
        ("pins: ${env:UNSET:-/a}/b", "pins", Path("/a/b")),
        ("pins: ${env:EMPTY:-/a}", "pins", Path("/a")),
        ("pins: /$${env:HOOK}$", "pins", Path("/${env:HOOK}$")),
    ],
)
def test_each_way_to_write_a_value_is_read(
    tmp_path: Path, line: str, field: str, value: Any
) -> None:
    """Only the field changes; all others keep their defaults; the schema agrees."""
    text = in_receiver(line)

    found = load(tmp_path, text, HOOK="file_ioctl", EMPTY="")

    assert found.receiver == replace(config.Counting(), **{field: value})
    jsonschema.Draft202012Validator(SCHEMA).validate(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("line", "selection"),
    [
        ("namespaces: {exclude: [kube-*, gmp]}", Selection(Patterns(("*",), ("kube-*", "gmp")))),
        (
            'pods: {include: ["train-?"], exclude: ["*-[ab]"]}',
            Selection(pods=Patterns(("train-?",), ("*-[ab]",))),
        ),
        (
            'devices: {include: ["0000:03:*", xe]}',
            Selection(devices=Patterns(("0000:03:*", "xe"))),
        ),
        (
            'kinds: {exclude: [other, "${env:KIND}"]}',
            Selection(kinds=Patterns(("*",), ("other", "free"))),
        ),
        ("host: {enabled: false}", Selection(host_on=False)),
        ("host: {enabled: '${env:SHOW}'}", Selection(host_on=False)),
        (
            'host: {exclude: ["*/gdm.service"]}',
            Selection(host=Patterns(("*",), ("*/gdm.service",))),
        ),
        ("namespaces:", Selection()),
    ],
)
def test_a_filter_says_what_is_shown(tmp_path: Path, line: str, selection: Selection) -> None:
    """Each key has a list of patterns for what is in and one for what is out of that."""
    text = f"processors:\n  filter:\n    {line}\n"

    found = load(tmp_path, text, KIND="free", SHOW="false")

    assert found.processors.filter.selection == selection
    jsonschema.Draft202012Validator(SCHEMA).validate(yaml.safe_load(text))
    assert load(tmp_path, json.dumps(config.show(found))) == found


@pytest.mark.parametrize("brought", ["off", "1", ""])
def test_a_boolean_from_the_environment_is_true_or_false(tmp_path: Path, brought: str) -> None:
    """Anything else would be taken for one of them by somebody."""
    with pytest.raises(ConfigError, match=r"host\.enabled: expected a boolean"):
        load(
            tmp_path,
            'processors: {filter: {host: {enabled: "${env:SHOW:-}"}}}',
            SHOW=brought,
        )


@pytest.mark.parametrize("text", ["", "# nothing\n", "receivers:\n", "exporters: {otlp_grpc: }\n"])
def test_an_empty_section_has_its_defaults(tmp_path: Path, text: str) -> None:
    """As in a Collector, nothing after a key is an empty mapping."""
    assert load(tmp_path, text) == Config()


def test_an_exporter_is_on_when_it_is_named(tmp_path: Path) -> None:
    """A page to scrape goes beside a Collector, or without one; health has its own address."""
    scraped = load(tmp_path, "exporters: {prometheus: }")
    both = load(tmp_path, "exporters: {prometheus: {endpoint: '127.0.0.1:9000'}, otlp_grpc: {}}")
    probed = load(tmp_path, "extensions: {health_check: {endpoint: ':13133'}}")

    assert scraped.exporters == config.Exporters(None, None, config.Prometheus(("localhost", 8080)))
    assert both.exporters == config.Exporters(
        OtlpGrpc(), None, config.Prometheus(("127.0.0.1", 9000))
    )
    assert probed.extensions.health_check == config.HealthCheck(("", 13133))
    assert probed.exporters == Config().exporters
    for found in (scraped, both, probed):
        assert load(tmp_path, json.dumps(config.show(found))) == found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[::1]:9000", ("::1", 9000)),
        ("example.org:1", ("example.org", 1)),
        (":65535", ("", 65535)),
    ],
)
def test_an_address_to_listen_on_is_host_and_port(
    tmp_path: Path, text: str, value: tuple[str, int]
) -> None:
    """IPv6 in brackets, or no host at all; shown as it was written."""
    found = load(tmp_path, f"exporters: {{prometheus: {{endpoint: '{text}'}}}}")

    assert found.exporters.prometheus == config.Prometheus(value)
    assert config.show(found)["exporters"]["prometheus"]["endpoint"] == text


@pytest.mark.parametrize("name", ["edge.yaml"])
def test_the_other_shipped_files_load_and_fit_the_schema(name: str) -> None:
    """Each is a right configuration, and an editor has nothing to say."""
    file = CHECKOUT / "config" / name

    found = config.load(file, {})

    jsonschema.Draft202012Validator(SCHEMA).validate(yaml.safe_load(file.read_text()))
    assert found.exporter is None
    assert found.exporters.prometheus
    assert found.receiver.collection_interval_s == 60


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    """Neither in what `validate` prints nor in a repr; and an error does not show them either."""
    text = in_exporter('headers: {Authorization: "Bearer ${env:BEARER}"}')

    found = load(tmp_path, text, BEARER="s3cret")

    assert exporter(found).headers == (("authorization", "Bearer s3cret"),)
    assert "s3cret" not in f"{found!r}{config.show(found)}"
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, BEARER="s3cret\n")
    assert str(caught.value).endswith(
        ":3:30: exporters.otlp_grpc.headers.Authorization: "
        "the text of 'Authorization' is not printable ASCII"
    )
    assert caught.value.hint == ""  # its name is right


def test_what_is_shown_is_a_file_that_means_the_same(tmp_path: Path) -> None:
    """The effective configuration can be pasted back."""
    text = in_receiver("hook: [bcc]\n    collection_interval: 90s\n    pins: /a")

    found = load(tmp_path, text)

    assert load(tmp_path, json.dumps(config.show(found))) == found


# --- what follows from the tree ------------------------------------------------------------------


def test_the_schema_is_current() -> None:
    """config/xpumeter.schema.json is what the tree says; `make docs` writes it."""
    assert (CHECKOUT / "config/xpumeter.schema.json").read_text() == reference.schema()
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_shipped_file_fits_the_schema_and_names_it() -> None:
    """An editor finds the schema by the first line, and has nothing to say."""
    text = SHIPPED.read_text()

    assert text.startswith("# yaml-language-server: $schema=xpumeter.schema.json\n")
    jsonschema.Draft202012Validator(SCHEMA).validate(yaml.safe_load(text))


def test_the_page_of_keys_is_current() -> None:
    """docs/configuration.md says what the tree says; `make docs` writes it."""
    assert (CHECKOUT / "docs/configuration.md").read_text() == reference.configuration()


def test_without_a_file_no_yaml_is_imported() -> None:
    """`attach` counts before PyYAML would be loaded."""
    program = (
        "import sys; from xpumeter import config, drivers; config.load(None); "
        "print([name for name in sys.modules if 'yaml' in name])"
    )
    path = str(CHECKOUT / "receiver")

    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": path}, capture_output=True, check=True
    )

    assert done.stdout == b"[]\n"


def test_validate_shows_settings_and_drivers(tmp_path: Path) -> None:
    """Every key with its value, every driver with its numbers of calls, for people and as JSON."""
    file = tmp_path / "c.yaml"
    file.write_text(in_exporter("headers: {a: s3cret}"))

    checked = validate.check(file, environ={})

    text = checked.text()
    shown = {tuple(line.split()) for line in text.splitlines()}
    assert ("exporters.otlp_grpc.headers.a", "(hidden)") in shown
    assert ("exporters.otlp_grpc.tls.insecure", "false") in shown
    assert ("exporters.otlp_grpc.retry_on_failure.multiplier", "2") in shown
    assert ("receivers.xpumeter.collection_interval", "10s") in shown
    assert "xe                    gpu   1       2      2     3     " in text
    document = checked.document()
    assert document["config"] == config.show(checked.config)
    assert [driver["driver"] for driver in document["drivers"]] == list(checked.tables.by_driver)
    json.dumps(document)


def test_validate_reads_the_tables_that_the_file_names(tmp_path: Path) -> None:
    """A wrong table is found before anything runs."""
    file = tmp_path / "c.yaml"
    file.write_text(in_receiver(f"driver_tables: [{tmp_path}/none]"))

    with pytest.raises(ConfigError, match="none: cannot be read: No such file or directory"):
        validate.check(file)
