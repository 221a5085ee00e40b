"""Spans that are exported, by the SDK of OpenTelemetry.

No global provider is set: libraries that look for one trace nothing.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
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

from app.telemetry.traces import (
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
) -> Iterator["SdkTraces"]:
    """Return traces whose spans a thread hands to an exporter, the last ones at the end.

    The end waits no longer than `wait_s` for a collector that does not answer.
    """
    about: dict[str, str | int] = {"service.version": version("hone"), "process.pid": os.getpid()}
    is_named = "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if not environ.get("OTEL_SERVICE_NAME") and not is_named:
        about["service.name"] = f"hone-{process}"
    provider = TracerProvider(
        resource=Resource.create(about), id_generator=Ids(), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    has_content = environ.get(CONTENT, "").strip().lower() in WITH_CONTENT
    try:
        yield SdkTraces(provider, has_content=has_content)
    finally:
        ending = threading.Thread(target=provider.shutdown, daemon=True)
        ending.start()
        ending.join(wait_s)


wanted_id: ContextVar[int | None] = ContextVar("wanted_id", default=None)


class Ids(RandomIdGenerator):
    """Random ids; a trace has the wanted one if there is one."""

    def generate_trace_id(self) -> int:
        """Return the id of a trace that begins."""
        return wanted_id.get() or super().generate_trace_id()


class SdkTraces(Traces):
    """Where spans begin that are recorded, unless the sampler or the caller's trace says no.

    The provider takes its ids from `Ids`.
    """

    def __init__(self, provider: TracerProvider, *, has_content: bool) -> None:
        self._tracer = provider.get_tracer("hone")
        self._has_content = has_content

    def span(
        self,
        origin: Origin,
        name: str,
        kind: Kind,
        attributes: Attributes = NO_ATTRIBUTES,
        *,
        trace_id: int | None = None,
    ) -> AbstractContextManager[TraceSpan]:
        given = _context_of(origin.trace)
        around, links = (Context(), [trace.Link(_place(given))]) if origin.is_link else (given, [])
        token = wanted_id.set(trace_id)
        span = self._tracer.start_span(name, around, KINDS[kind], _known(attributes), links)
        wanted_id.reset(token)
        return _shown(span, self._tracer, has_content=self._has_content)


class RecordedSpan(TraceSpan):
    """A span of a sampled trace, which is exported when it ends."""

    __slots__ = ("_span", "_tracer", "has_content")

    is_recorded = True

    def __init__(self, span: trace.Span, tracer: trace.Tracer, *, has_content: bool) -> None:
        super().__init__(_place_of(span))
        self._span = span
        self._tracer = tracer
        self.has_content = has_content

    def child(
        self, name: str, kind: Kind = "internal", *attributes: Attributes
    ) -> AbstractContextManager[TraceSpan]:
        around = trace.set_span_in_context(self._span, Context())
        span = self._tracer.start_span(name, around, KINDS[kind], _known(*attributes))
        return _shown(span, self._tracer, has_content=self.has_content)

    def __exit__(self, *_: object) -> None:
        current.reset(self._ambient)
        self._span.end()

    def set(
        self, attributes: Attributes, *, name: str | None = None, error: str | None = None
    ) -> None:
        if name:
            self._span.update_name(name)
        self._span.set_attributes(_known(attributes, {"error.type": error}))
        if error:
            self._span.set_status(trace.Status(trace.StatusCode.ERROR, error))

    def event(self, name: str, attributes: Attributes = NO_ATTRIBUTES) -> None:
        self._span.add_event(name, _known(attributes))


def _shown(span: trace.Span, tracer: trace.Tracer, *, has_content: bool) -> TraceSpan:
    if span.is_recording():
        return RecordedSpan(span, tracer, has_content=has_content)
    return TraceSpan(_place_of(span))


def _context_of(place: TraceContext | None) -> Context:
    fields = place.fields() if place else {}
    return TraceContextTextMapPropagator().extract(fields, Context())


def _place(around: Context) -> trace.SpanContext:
    return trace.get_current_span(around).get_span_context()


def _place_of(span: trace.Span) -> TraceContext:
    place = span.get_span_context()
    flags = int(place.trace_flags)
    traceparent = f"00-{place.trace_id:032x}-{place.span_id:016x}-{flags:02x}"
    return TraceContext(traceparent, place.trace_state.to_header())


def _known(*attributes: Attributes) -> dict[str, Any]:
    """Return all attributes that have a value; the last one of a name counts."""
    return {key: value for each in attributes for key, value in each.items() if value is not None}
