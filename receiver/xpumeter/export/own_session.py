# SPDX-License-Identifier: Apache-2.0
"""The session of requests that OpenTelemetry's HTTP exporter sends with: over our own transport.

So sockets, certificates, headers, compression and proxies are those of the counts, and what no
setting of that exporter can say holds for it too.
"""

from typing import Any

from requests import PreparedRequest, Response, Session
from requests.adapters import BaseAdapter

from xpumeter.destination import OtlpHttp
from xpumeter.export.http_transport import HttpTransport
from xpumeter.export.transport import Taken


def session(destination: OtlpHttp) -> Session:
    """A session whose every request goes to the destination, whatever its URL and headers."""
    made = Session()
    adapter = _Adapter(HttpTransport(destination))
    for prefix in ("http://", "https://", "unix://"):
        made.mount(prefix, adapter)
    return made


class _Adapter(BaseAdapter):
    def __init__(self, transport: HttpTransport) -> None:
        super().__init__()
        self._transport = transport

    def send(self, request: PreparedRequest, *_args: Any, **_options: Any) -> Response:
        assert isinstance(request.body, bytes)  # noqa: S101 (the exporter serialises)
        outcome = self._transport.begin(request.body).result()
        response = Response()
        response.request = request
        response.raw = None
        if isinstance(outcome, Taken):
            response.status_code = 200
            return response
        # Of its own the exporter tries again what has such a status, and nothing else.
        response.status_code = 503 if outcome.again else 400
        response.reason = outcome.reason
        if outcome.wait_s is not None:
            response.headers["retry-after"] = str(int(outcome.wait_s) + 1)
        return response

    def close(self) -> None:
        self._transport.close()
