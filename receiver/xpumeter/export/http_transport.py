# SPDX-License-Identifier: Apache-2.0
"""OTLP over HTTP/1.1, in protobuf. Importing this imports urllib3."""

import contextlib
import gzip
import logging
import re
import threading
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from typing import Any
from urllib.parse import unquote
from urllib.request import getproxies, proxy_bypass

import urllib3
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)

from xpumeter.destination import Compression, OtlpHttp
from xpumeter.errors import ConfigError
from xpumeter.export import tls
from xpumeter.export.endpoint import http_target, shown
from xpumeter.export.http_pools import Line, pool_classes
from xpumeter.export.transport import (
    ANSWER_LIMIT_BYTES,
    CLOSING,
    CONNECTION,
    NO_OTLP,
    TIMEOUT,
    TLS,
    Refused,
    Taken,
    Try,
    says_too_large,
    shortened,
)

_log = logging.getLogger(__name__)

_PROTOBUF = "application/x-protobuf"
_JSON = "application/json"
# OTLP's table of what may be tried again.
_RETRYABLE = {429, 502, 503, 504}
_TOO_LARGE = 413
_GZIP_LEVEL = 6


class HttpTransport:
    """The way to a Collector over HTTP; ConfigError if TLS files are not usable.

    Proxies are those of HTTP_PROXY, HTTPS_PROXY and NO_PROXY. A redirect is not followed: a token
    among the headers is for this Collector only.
    """

    def __init__(self, destination: OtlpHttp) -> None:
        self._target = http_target(destination)
        self.endpoint = shown(destination)
        self._destination = destination
        self._gzip = destination.compression is Compression.GZIP
        self._headers = {
            **dict(destination.headers),
            "content-type": _PROTOBUF,
            "user-agent": f"xpumeter/{version('xpumeter')}",
            **({"content-encoding": "gzip"} if self._gzip else {}),
        }
        if destination.tls.insecure_skip_verify:
            _log.warning("event=certificate_unchecked endpoint=%s", self.endpoint)
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._stamp = tls.stamp(destination.tls)
        self._line = Line()
        self._manager = self._connect()

    def begin(self, request: bytes) -> Try:
        """Send a request; never waits."""
        return _Post(self, request)

    def post(self, request: bytes) -> urllib3.BaseHTTPResponse:
        """Send a request and wait for the head of the answer; urllib3's errors, or ConfigError."""
        if (stamp := tls.stamp(self._destination.tls)) != self._stamp:
            self._manager = self._connect()
            self._stamp = stamp
        timeout_s = self._destination.timeout_s
        return self._manager.request(
            "POST",
            self._target.url,
            body=gzip.compress(request, _GZIP_LEVEL) if self._gzip else request,
            headers=self._headers,
            timeout=urllib3.Timeout(connect=timeout_s, read=timeout_s),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )

    def cut(self) -> None:
        """End what goes over the connection, from any thread."""
        self._line.cut()

    def close(self) -> None:
        """Let go of the connection; ends a try that is there."""
        self._line.close()
        self._manager.clear()

    @property
    def timeout_s(self) -> float:
        """How long a try may take."""
        return self._destination.timeout_s

    def _connect(self) -> urllib3.PoolManager:
        files = self._destination.tls
        name = files.server_name_override
        secure = self._target.url.startswith("https:")
        options: dict[str, Any] = {
            "maxsize": 1,
            **({"ssl_context": tls.context(files)} if secure else {}),
            **({"server_hostname": name, "assert_hostname": name} if name and secure else {}),
        }
        if files.insecure_skip_verify:
            options["cert_reqs"] = "CERT_NONE"  # what the context says is not enough
        if self._target.unix_path:
            manager = urllib3.PoolManager(**options)
        else:
            manager = _manager(self._target.url, **options)
        manager.pool_classes_by_scheme = pool_classes(self._line, self._target.unix_path)
        return manager


class _Post:
    def __init__(self, transport: HttpTransport, request: bytes) -> None:
        self._transport = transport
        self._request = request
        self._ended_by = ""

    def result(self) -> Taken | Refused:
        # urllib3's timeouts are for each read: a Collector that says a byte a second has no end.
        watch = threading.Timer(self._transport.timeout_s, self._end, [TIMEOUT])
        watch.daemon = True
        watch.start()
        try:
            if self._ended_by:
                return self._ended()
            outcome = self._answer()
        except (urllib3.exceptions.HTTPError, ConfigError) as error:
            self._transport.cut()
            outcome = _broken(error)
        finally:
            watch.cancel()
        return self._ended() if self._ended_by and isinstance(outcome, Refused) else outcome

    def cancel(self) -> None:
        self._end(CLOSING)

    def _end(self, why: str) -> None:
        self._ended_by = why
        self._transport.cut()

    def _ended(self) -> Refused:
        return Refused(self._ended_by, "given up", again=self._ended_by == TIMEOUT)

    def _answer(self) -> Taken | Refused:
        response = self._transport.post(self._request)
        body = response.read(ANSWER_LIMIT_BYTES + 1)
        if len(body) > ANSWER_LIMIT_BYTES:
            response.close()
            return Refused(NO_OTLP, f"the answer has more than {ANSWER_LIMIT_BYTES} bytes")
        response.release_conn()
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if 200 <= response.status < 300:
            return _read(body, kind)
        return _refused(response.status, response.headers, body, kind)


def _broken(error: Exception) -> Refused:
    """There is no answer: it may have been taken all the same, which does no harm to totals."""
    if isinstance(error, urllib3.exceptions.NewConnectionError):  # of the family of timeouts too
        cause = CONNECTION
    elif isinstance(error, urllib3.exceptions.TimeoutError):
        cause = TIMEOUT
    elif isinstance(error, (urllib3.exceptions.SSLError, ConfigError)):  # half-written files
        cause = TLS
    else:
        cause = CONNECTION
    return Refused(cause, shortened(str(error)), again=True)


def _read(body: bytes, kind: str) -> Taken | Refused:
    answer = ExportMetricsServiceResponse()
    try:
        if kind == _JSON:  # some answer in the language that was not spoken to them
            json_format.Parse(body, answer, ignore_unknown_fields=True)
        elif body and kind != _PROTOBUF:
            return Refused(NO_OTLP, shortened(f"{kind or 'no content-type'}: {_text(body)}"))
        else:
            answer.ParseFromString(body)
    except (DecodeError, json_format.ParseError):
        return Refused(NO_OTLP, "the answer is no ExportMetricsServiceResponse")
    partial = answer.partial_success
    return Taken(partial.rejected_data_points, partial.error_message)


def _refused(status: int, headers: Mapping[str, str], body: bytes, kind: str) -> Refused:
    reason = _text(body)
    if kind == _PROTOBUF:
        with contextlib.suppress(DecodeError):
            reason = Status.FromString(body).message
    if location := headers.get("location"):
        reason = f"redirected to {location}: name that as the endpoint"
    return Refused(
        str(status),
        shortened(reason),
        again=status in _RETRYABLE,
        wait_s=_retry_after_s(headers.get("retry-after")) if status in _RETRYABLE else None,
        # The Collector's own receiver says 400.
        too_large=status == _TOO_LARGE or (400 <= status < 500 and says_too_large(reason)),
    )


def _retry_after_s(text: str | None) -> float | None:
    """Seconds, or a date (RFC 9110, 10.2.3); None for neither."""
    if text is None:
        return None
    if re.fullmatch("[0-9]{1,9}", text.strip()):
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _text(body: bytes) -> str:
    return " ".join(body[:1000].decode(errors="replace").split())


def _manager(url: str, **options: Any) -> urllib3.PoolManager:
    """Through the proxy that the environment names for a URL, or without one."""
    found = urllib3.util.parse_url(url)
    proxies = getproxies()
    proxy = proxies.get(found.scheme or "") or proxies.get("all")
    if not proxy or proxy_bypass(found.netloc or ""):
        return urllib3.PoolManager(**options)
    through = urllib3.util.parse_url(proxy if "://" in proxy else f"http://{proxy}")
    secret = unquote(through.auth) if through.auth else None
    headers = urllib3.make_headers(proxy_basic_auth=secret) if secret else None
    return urllib3.ProxyManager(through._replace(auth=None).url, proxy_headers=headers, **options)
