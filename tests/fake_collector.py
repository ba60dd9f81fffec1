# SPDX-License-Identifier: Apache-2.0
"""A gRPC server that takes OTLP metrics and answers as a test tells it to."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)

Request = ExportMetricsServiceRequest
Answer = Callable[[Request, grpc.ServicerContext], ExportMetricsServiceResponse]

# As a Collector answers: the partial success is there, and empty.
TAKEN = ExportMetricsServiceResponse(partial_success=ExportMetricsPartialSuccess())


class FakeCollector(MetricsServiceServicer):
    """Answers as told; `taken` are the requests that it accepted, with their metadata."""

    def __init__(self) -> None:
        self.answer: Answer = lambda _request, _context: TAKEN
        self.taken: list[Request] = []
        self.headers: dict[str, str | bytes] = {}
        self.tries = 0
        self.endpoint = ""

    def Export(  # noqa: N802
        self, request: Request, context: grpc.ServicerContext
    ) -> ExportMetricsServiceResponse:
        """Answer one request."""
        self.tries += 1
        self.headers = dict(context.invocation_metadata())
        response = self.answer(request, context)
        self.taken.append(request)
        return response

    @property
    def resources(self) -> int:
        """How many Resources were taken in all."""
        return sum(len(request.resource_metrics) for request in self.taken)


@contextmanager
def serving(address: str = "127.0.0.1:0") -> Iterator[FakeCollector]:
    fake = FakeCollector()
    server = grpc.server(ThreadPoolExecutor(4))
    add_MetricsServiceServicer_to_server(fake, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port(address)
    fake.endpoint = f"http://127.0.0.1:{port}"
    server.start()
    try:
        yield fake
    finally:
        server.stop(grace=None).wait(5)


def refuse(code: grpc.StatusCode, text: str) -> Answer:
    def answer(_request: Request, context: grpc.ServicerContext) -> ExportMetricsServiceResponse:
        context.abort(code, text)
        raise AssertionError

    return answer


def until(condition: Callable[[], bool], *, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
