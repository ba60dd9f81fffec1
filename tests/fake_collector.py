# SPDX-License-Identifier: Apache-2.0
"""A gRPC server that takes OTLP metrics and answers as a test tells it to."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

_SERVICE = "opentelemetry.proto.collector.metrics.v1.MetricsService"

Request = ExportMetricsServiceRequest
Response = ExportMetricsServiceResponse
Answer = Callable[[Request, grpc.ServicerContext], Response | bytes]

# As a Collector answers: the partial success is there, and empty.
TAKEN = ExportMetricsServiceResponse(partial_success=ExportMetricsPartialSuccess())


class FakeCollector:
    """Answers as told; `taken` are the requests that it accepted, with their metadata."""

    def __init__(self) -> None:
        self.answer: Answer = lambda _request, _context: TAKEN
        self.taken: list[Request] = []
        self.headers: dict[str, str | bytes] = {}
        self.tries = 0
        self.port = 0

    def export(self, request: Request, context: grpc.ServicerContext) -> Response | bytes:
        """Answer one request."""
        self.tries += 1
        self.headers = dict(context.invocation_metadata())
        response = self.answer(request, context)
        self.taken.append(request)
        return response

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def resources(self) -> int:
        """How many Resources were taken in all."""
        return sum(len(request.resource_metrics) for request in self.taken)


def _serialize(answer: Response | bytes) -> bytes:
    return answer if isinstance(answer, bytes) else answer.SerializeToString()


@contextmanager
def serving(address: str = "127.0.0.1:0") -> Iterator[FakeCollector]:
    fake = FakeCollector()
    server = grpc.server(ThreadPoolExecutor(4))
    handler = grpc.unary_unary_rpc_method_handler(fake.export, Request.FromString, _serialize)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(_SERVICE, {"Export": handler}),)
    )
    fake.port = server.add_insecure_port(address)
    server.start()
    try:
        yield fake
    finally:
        server.stop(grace=None).wait(5)


def refuse(code: grpc.StatusCode, text: str, *, retry_s: float | None = None) -> Answer:
    """Refuse it; with the time that a RetryInfo asks for."""

    def answer(_request: Request, context: grpc.ServicerContext) -> Response:
        if retry_s is not None:
            status = Status(code=code.value[0], message=text)
            info = RetryInfo()
            info.retry_delay.FromMilliseconds(int(retry_s * 1000))
            status.details.add().Pack(info)
            context.set_trailing_metadata(
                (("grpc-status-details-bin", status.SerializeToString()),)
            )
        context.abort(code, text)
        raise AssertionError

    return answer


def until(condition: Callable[[], bool], *, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
