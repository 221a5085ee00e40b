"""A collector on this machine: reads what is sent to it with OpenTelemetry's own messages."""

from collections.abc import Iterator
from contextlib import contextmanager
from gzip import decompress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import DEFAULT_ON, Sampler

from app.telemetry.opentelemetry import Ids, SdkTraces


@contextmanager
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """Run a collector; yield its address and what it has received."""
    received: list[ExportTraceServiceRequest] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_packed = self.headers.get("Content-Encoding") == "gzip"
            received.append(
                ExportTraceServiceRequest.FromString(decompress(body) if is_packed else body)
            )
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class RecordedSpans:
    """Traces whose spans are kept in memory, in the order in which they ended."""

    def __init__(self, sampler: Sampler = DEFAULT_ON, *, has_content: bool = False) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler, id_generator=Ids(), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.traces = SdkTraces(provider, has_content=has_content)

    @property
    def ended(self) -> tuple[ReadableSpan, ...]:
        """All spans that have ended."""
        return self._exporter.get_finished_spans()

    def named(self, start: str) -> list[ReadableSpan]:
        """Return the spans whose names begin so."""
        return [span for span in self.ended if span.name.startswith(start)]
