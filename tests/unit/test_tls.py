# SPDX-License-Identifier: Apache-2.0
"""Certificates: what the configuration names is what is used, and an error names the file."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from fake_collector import until
from scene import GRPC, HTTP, Scene, authority, other_authority, scene, tls
from senders import SOON, batch, sender
from xpumeter.destination import Destination, GrpcTls, HttpTls, OtlpGrpc, OtlpHttp, Tls
from xpumeter.errors import ConfigError
from xpumeter.export.tls import context


def write(folder: Path, name: str, *blobs: trustme.Blob) -> str:
    """A PEM file of these."""
    file = folder / name
    file.unlink(missing_ok=True)
    for blob in blobs:
        blob.write_to_path(str(file), append=True)
    return str(file)


def files(folder: Path, certificate: trustme.LeafCert) -> dict[str, str]:
    return {
        "ca_file": write(folder, "ca.pem", authority().cert_pem),
        "cert_file": write(folder, "cert.pem", *certificate.cert_chain_pems),
        "key_file": write(folder, "key.pem", certificate.private_key_pem),
    }


@pytest.fixture(params=[GRPC, HTTP])
def guarded(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A Collector of either protocol that wants to see a certificate. Its name is gw.example."""
    with scene(request.param) as one:
        one.secure = True
        one.front.tls = tls(authority().issue_cert("gw.example"), client_ca=authority())
        one.front.listen()
        yield one


def destination(guarded: Scene, **named: Any) -> Destination:
    if guarded.grpc:
        return OtlpGrpc(guarded.endpoint, GrpcTls(**named))
    return OtlpHttp(guarded.endpoint, tls=HttpTls(**named))


def test_both_sides_show_a_certificate(guarded: Scene, tmp_path: Path) -> None:
    """Under the name that the Collector's has."""
    named = files(tmp_path, authority().issue_cert("agent"))
    one = sender(destination(guarded, server_name_override="gw.example", **named))
    one.send(batch())
    until(lambda: one.delivered == 1)
    one.close(deadline_s=1)


def test_a_renewed_certificate_is_used_for_the_next_batch(guarded: Scene, tmp_path: Path) -> None:
    """Certificates live for weeks, and the agent for longer; half of a pair changes nothing."""
    named = files(tmp_path, other_authority().issue_cert("agent"))
    one = sender(destination(guarded, server_name_override="gw.example", **named), SOON)
    one.send(batch(1))
    until(lambda: one.stats.requests >= 2)

    renewed = authority().issue_cert("agent")
    os.utime(write(tmp_path, "cert.pem", *renewed.cert_chain_pems), ns=(1, 1))
    tries = one.stats.requests
    until(lambda: one.stats.requests >= tries + 2)
    assert one.delivered == 0

    os.utime(write(tmp_path, "key.pem", renewed.private_key_pem), ns=(2, 2))
    until(lambda: one.delivered == 1)
    one.close(deadline_s=1)


def test_http_may_leave_the_check_out(tmp_path: Path) -> None:
    """If it is told to: for trials."""
    with scene(HTTP) as stranger:
        stranger.secure = True
        stranger.front.tls = tls(other_authority().issue_cert("elsewhere.example"))
        stranger.front.listen()
        one = sender(OtlpHttp(stranger.endpoint, tls=HttpTls(insecure_skip_verify=True)))
        one.send(batch())
        until(lambda: one.delivered == 1)
        one.close(deadline_s=1)


def test_a_file_that_is_not_what_it_should_be_is_named(tmp_path: Path) -> None:
    """Missing, no PEM, or of another pair; before anything is attached."""
    good = files(tmp_path, authority().issue_cert("agent"))
    other = write(tmp_path, "other.pem", authority().issue_cert("other").private_key_pem)
    noise = tmp_path / "noise.pem"
    noise.write_text("noise")
    cert = good["cert_file"]
    for named, message in [
        ({"ca_file": "/none"}, "tls.ca_file: /none: cannot be read: No such file or directory"),
        ({"ca_file": str(noise)}, f"tls.ca_file: {noise}: not usable: NO_CERTIFICATE_OR_CRL_FOUND"),
        ({"cert_file": str(noise)}, f"tls.cert_file: {noise}: not usable: "),
        ({"key_file": str(tmp_path)}, f"tls.key_file: {tmp_path}: cannot be read: Is a directory"),
        (
            {"key_file": other},
            f"tls.cert_file: {cert}: not usable: KEY_VALUES_MISMATCH",
        ),
    ]:
        with pytest.raises(ConfigError) as caught:
            context(Tls(**{**good, **named}))
        assert str(caught.value).startswith(message)

    assert context(Tls(**good)).get_ca_certs()
