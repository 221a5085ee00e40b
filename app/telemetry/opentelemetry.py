"""Spans as OpenTelemetry records and exports them.

No global provider is set: libraries that look for one trace nothing.
"""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.telemetry.spans import (
    NO_ATTRIBUTES,
    Attributes,
    Kind,
    Origin,
    TraceContext,
    Traces,
    TraceSpan,
    current,
)

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
WITH_CONTENT = frozenset({"true", "span_only", "span_and_event"})

KINDS = {
    "server": trace.SpanKind.SERVER,
    "client": trace.SpanKind.CLIENT,
    "consumer": trace.SpanKind.CONSUMER,
    "internal": trace.SpanKind.INTERNAL,
}


def exporter_of(environ: Mapping[str, str]) -> SpanExporter:
    """Return the exporter that the variables name; it reads the rest of them itself."""
    if environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "console":
        return ConsoleSpanExporter()
    return OTLPSpanExporter()


@contextmanager
def exported(
    exporter: SpanExporter, process: str, environ: Mapping[str, str], *, wait_s: float = 3.0
) -> Iterator["RecordedTraces"]:
    """Return traces whose spans a thread hands to an exporter, the last ones at the end.

    The end waits no longer than `wait_s` for a collector that does not answer.
    """
    about: dict[str, str | int] = {"service.version": version("hone"), "process.pid": os.getpid()}
    named = (environ.get("OTEL_SERVICE_NAME"), environ.get("OTEL_RESOURCE_ATTRIBUTES", ""))
    if not named[0] and "service.name=" not in (named[1] or ""):
        about["service.name"] = f"hone-{process}"
    ids = TraceIds()
    provider = TracerProvider(
        resource=Resource.create(about), id_generator=ids, shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    has_content = environ.get(CONTENT, "").strip().lower() in WITH_CONTENT
    try:
        yield RecordedTraces(provider.get_tracer("hone"), ids, has_content=has_content)
    finally:
        ending = threading.Thread(target=provider.shutdown, daemon=True)
        ending.start()
        ending.join(wait_s)


class TraceIds(RandomIdGenerator):
    """Trace ids: the given one, once, else random."""

    given: int | None = None

    def generate_trace_id(self) -> int:
        given, self.given = self.given, None
        return super().generate_trace_id() if given is None else given

    def is_trace_id_random(self) -> bool:
        return False  # a given one says when it was made


class RecordedTraces(Traces):
    """Where spans begin that are recorded, unless the sampler or the caller's trace says no."""

    def __init__(self, tracer: trace.Tracer, ids: TraceIds, *, has_content: bool) -> None:
        self._tracer = tracer
        self._ids = ids
        self._has_content = has_content

    @contextmanager
    def span(
        self,
        origin: Origin,
        name: str,
        kind: Kind,
        attributes: Attributes = NO_ATTRIBUTES,
        *,
        trace_id: int | None = None,
    ) -> Iterator[TraceSpan]:
        """Go on with the trace of a request, or begin one."""
        above = _context_of(origin.trace)
        links: Sequence[trace.Link] = ()
        if origin.is_link:
            links, above = (trace.Link(trace.get_current_span(above).get_span_context()),), None
        self._ids.given = trace_id
        begun = self._tracer.start_span(
            name, above or Context(), KINDS[kind], _known(attributes), links
        )
        self._ids.given = None
        with _recording(RecordedSpan(self._tracer, begun, has_content=self._has_content)) as span:
            yield span


class RecordedSpan(TraceSpan):
    """A span that is exported when it ends, if its trace is sampled."""

    def __init__(self, tracer: trace.Tracer, span: trace.Span, *, has_content: bool) -> None:
        it = span.get_span_context()
        flags = int(it.trace_flags)
        super().__init__(
            TraceContext(
                f"00-{it.trace_id:032x}-{it.span_id:016x}-{flags:02x}", it.trace_state.to_header()
            )
        )
        self.is_recorded = span.is_recording()
        self.has_content = has_content and self.is_recorded
        self.own = span
        self._tracer = tracer
        self._wants_content = has_content

    @contextmanager
    def child(
        self, name: str, kind: Kind = "internal", attributes: Attributes = NO_ATTRIBUTES
    ) -> Iterator[TraceSpan]:
        """Begin a span inside this one."""
        above = trace.set_span_in_context(self.own, Context())
        begun = self._tracer.start_span(name, above, KINDS[kind], _known(attributes))
        with _recording(RecordedSpan(self._tracer, begun, has_content=self._wants_content)) as span:
            yield span

    def set(self, attributes: Attributes, *, error: str | None = None) -> None:
        """Add attributes, and the code of an error."""
        self.own.set_attributes(_known(attributes))
        if error is not None:
            self.own.set_attribute("error.type", error)
            self.own.set_status(trace.StatusCode.ERROR, error)

    def rename(self, name: str) -> None:
        """Give the span another name."""
        self.own.update_name(name)

    def event(self, name: str, attributes: Attributes = NO_ATTRIBUTES) -> None:
        """Add something that happened at this moment."""
        self.own.add_event(name, _known(attributes))


@contextmanager
def _recording(span: RecordedSpan) -> Iterator[TraceSpan]:
    try:
        with current(span):
            yield span
    finally:
        span.own.end()


def _known(attributes: Attributes) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _context_of(place: TraceContext | None) -> Context | None:
    return (
        None
        if place is None
        else TraceContextTextMapPropagator().extract(place.fields(), Context())
    )
