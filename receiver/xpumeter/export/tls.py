# SPDX-License-Identifier: Apache-2.0
"""Certificates and keys of the way to the Collector."""

import ssl
from collections.abc import Callable
from pathlib import Path

from xpumeter.destination import HttpTls, Tls
from xpumeter.errors import ConfigError

# Where distributions keep what they trust, in Go's order (crypto/x509/root_linux.go).
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def context(tls: Tls) -> ssl.SSLContext:
    """What OpenSSL needs to speak TLS. ConfigError names the file that is not what it should be.

    Files are read here, and not again: whoever holds a context compares `stamp`.
    """
    made = ssl.create_default_context()
    if tls.ca_file:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _loaded("ca_file", tls.ca_file, lambda: made.load_verify_locations(tls.ca_file))
    if tls.cert_file:
        read(tls.key_file, "key_file")  # OpenSSL's words do not say which of the two is missing
        # Without a password of ours OpenSSL asks at the terminal.
        _loaded(
            "cert_file",
            tls.cert_file,
            lambda: made.load_cert_chain(tls.cert_file, tls.key_file, password=""),
        )
    if isinstance(tls, HttpTls) and tls.insecure_skip_verify:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    return made


def roots(tls: Tls) -> bytes | None:
    """PEM of the certificates to trust, for gRPC; None if the system has none: gRPC has some."""
    if tls.ca_file:
        return read(tls.ca_file, "ca_file")
    bundles = (ssl.get_default_verify_paths().cafile, *_BUNDLES)
    found = next((each for each in bundles if each and Path(each).is_file()), None)
    return read(found, "ca_file") if found else None


def read(file: str, key: str) -> bytes:
    """Content of a file that `key` names."""
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as fault:  # ValueError: a NUL in the name
        reason = fault.strerror if isinstance(fault, OSError) else fault
        raise ConfigError(f"tls.{key}: {file}: cannot be read: {reason}") from None


def stamp(tls: Tls) -> tuple[int, ...]:
    """Changes when one of the files does: certificates are renewed under a running agent."""
    return tuple(_changed_ns(file) for file in (tls.ca_file, tls.cert_file, tls.key_file) if file)


def _changed_ns(file: str) -> int:
    try:
        return Path(file).stat().st_mtime_ns
    except (OSError, ValueError):
        return 0


def _loaded(key: str, file: str, load: Callable[[], None]) -> None:
    read(file, key)
    try:
        load()
    except (ssl.SSLError, OSError, ValueError) as fault:
        reason = getattr(fault, "reason", None) or fault
        raise ConfigError(
            f"tls.{key}: {file}: not usable: {reason}",
            hint="PEM; cert_file and key_file must belong together, and the key have no password",
        ) from None
