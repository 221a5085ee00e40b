"""Spans that are exported: OpenTelemetry's sampler, resource, queue and exporter, our own record.

The SDK takes 40 microseconds to record a span with 15 attributes and 57 to encode it, which is a
tenth of what Hone takes for a model call; what is here takes a sixth of that. No global provider is
set: libraries that look for one trace nothing.
"""

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from importlib.metadata import version
from random import getrandbits
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as ResourceMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import SpanFlags
from opentelemetry.proto.trace.v1.trace_pb2 import Status as StatusMessage
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.trace.status import Status, StatusCode

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
LONGEST_CACHED = 100
SCOPE = "hone"
KNOWS_REMOTE = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
IS_REMOTE = SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK


def exporter_of(environ: Mapping[str, str]) -> SpanExporter:
    """Return the exporter that the variables name; it reads the rest of them itself."""
    if environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "console":
        return ConsoleSpanExporter()
    return SpanSender()


@contextmanager
def exported(
    exporter: SpanExporter, process: str, environ: Mapping[str, str], *, wait_s: float = 3.0
) -> Iterator["RecordedTraces"]:
    """Return traces whose spans a thread hands to an exporter, the last ones at the end.

    The end waits no longer than `wait_s` for a collector that does not answer.
    """
    about: dict[str, str | int] = {"service.version": version("hone"), "process.pid": os.getpid()}
    is_named = "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if not environ.get("OTEL_SERVICE_NAME") and not is_named:
        about["service.name"] = f"hone-{process}"
    provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
    processor = BatchSpanProcessor(exporter)
    has_content = environ.get(CONTENT, "").strip().lower() in WITH_CONTENT
    try:
        yield RecordedTraces(
            provider.sampler, provider.resource, processor, has_content=has_content
        )
    finally:
        ending = threading.Thread(target=processor.shutdown, daemon=True)
        ending.start()
        ending.join(wait_s)


class RecordedTraces(Traces):
    """Where spans begin that are recorded, unless the sampler or the caller's trace says no."""

    def __init__(
        self, sampler: Sampler, resource: Resource, processor: SpanProcessor, *, has_content: bool
    ) -> None:
        self._sampler = sampler
        self.resource = resource
        self.processor = processor
        self.has_content = has_content

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
        around, links = _context_of(origin.trace), tuple[trace.Link, ...]()
        above = trace.get_current_span(around).get_span_context() if origin.trace else None
        if above is not None and origin.is_link:
            around, links, above = Context(), (trace.Link(above),), None
        number = (above.trace_id if above else trace_id) or getrandbits(128)
        known = {key: value for key, value in attributes.items() if value is not None}
        sampled = self._sampler.should_sample(around, number, name, KINDS[kind], known, links)
        known |= dict(sampled.attributes or {})
        place = trace.SpanContext(
            number,
            getrandbits(64),
            is_remote=False,
            trace_flags=trace.TraceFlags(int(sampled.decision is Decision.RECORD_AND_SAMPLE)),
            trace_state=sampled.trace_state,
        )
        state = place.trace_state.to_header()
        with RecordedSpan(self, name, kind, place, above, state, known, links) as span:
            yield span


class RecordedSpan(TraceSpan):
    """A span that is exported when it ends, if its trace is sampled.

    Spans below it share the decision of the sampler, which all samplers of the standard do.
    """

    def __init__(
        self,
        traces: RecordedTraces,
        name: str,
        kind: Kind,
        place: trace.SpanContext,
        above: trace.SpanContext | None,
        state: str,
        attributes: dict[str, Any],
        links: Sequence[trace.Link] = (),
    ) -> None:
        parent = f"00-{place.trace_id:032x}-{place.span_id:016x}-{int(place.trace_flags):02x}"
        super().__init__(TraceContext(parent, state))
        self.is_recorded = place.trace_flags.sampled
        self.has_content = traces.has_content and self.is_recorded
        self._traces = traces
        self._name, self._kind = name, kind
        self._place, self._above, self._state = place, above, state
        self._attributes, self._links = attributes, links
        self._events: list[Event] = []
        self._status = Status(StatusCode.UNSET)
        self._began = time.time_ns()

    def child(
        self, name: str, kind: Kind = "internal", attributes: Attributes = NO_ATTRIBUTES
    ) -> AbstractContextManager[TraceSpan]:
        """Begin a span inside this one."""
        if not self.is_recorded:
            return nullcontext(self)
        known = {key: value for key, value in attributes.items() if value is not None}
        own = self._place
        place = trace.SpanContext(
            own.trace_id, getrandbits(64), False, own.trace_flags, own.trace_state
        )
        return RecordedSpan(self._traces, name, kind, place, own, self._state, known)

    def __enter__(self) -> TraceSpan:
        """Let it be the current span until the context ends, and it with it."""
        self._told = current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        current.reset(self._told)
        if self.is_recorded:
            self._end()

    def set(self, attributes: Attributes, *, error: str | None = None) -> None:
        """Add attributes, and the code of an error."""
        self._attributes |= {key: it for key, it in attributes.items() if it is not None}
        if error is not None:
            self._attributes["error.type"] = error
            self._status = Status(StatusCode.ERROR, error)

    def rename(self, name: str) -> None:
        """Give the span another name."""
        self._name = name

    def event(self, name: str, attributes: Attributes = NO_ATTRIBUTES) -> None:
        """Add something that happened at this moment."""
        known = {key: value for key, value in attributes.items() if value is not None}
        self._events.append(Event(name, known, time.time_ns()))

    def _end(self) -> None:
        self._traces.processor.on_end(
            ReadableSpan(
                self._name,
                self._place,
                self._above,
                self._traces.resource,
                self._attributes,
                self._events,
                self._links,
                KINDS[self._kind],
                status=self._status,
                start_time=self._began,
                end_time=time.time_ns(),
            )
        )


def _context_of(place: TraceContext | None) -> Context:
    if place is None:
        return Context()
    return TraceContextTextMapPropagator().extract(place.fields(), Context())


class SpanSender(OTLPSpanExporter):
    """Sends spans over HTTP; it remembers how attributes are encoded, most of which come again."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans. It tries again until the time-out of the variables is over."""
        client = getattr(self, "_client", None)
        if client is None:  # a later release of the exporter
            return super().export(spans)
        is_sent = client.export(encoded(spans)).success
        return SpanExportResult.SUCCESS if is_sent else SpanExportResult.FAILURE


def encoded(spans: Sequence[ReadableSpan]) -> bytes:
    """Return spans of one process as OTLP demands.

    Serialized messages that follow each other are one message with all their fields (Protocol
    Buffers, Encoding), so that attributes are encoded once and joined from then on.
    """
    request = ExportTraceServiceRequest()
    of_process = request.resource_spans.add()
    attributes = (spans[0].resource.attributes if spans else {}).items()
    of_process.resource.CopyFrom(
        ResourceMessage(attributes=[_key_value(key, value) for key, value in attributes])
    )
    of_hone = of_process.scope_spans.add()
    of_hone.scope.name = SCOPE
    for span in spans:
        of_hone.spans.add().MergeFromString(_encoded(span))
    sent: bytes = request.SerializeToString()
    return sent


def _encoded(span: ReadableSpan) -> bytes:
    place, above = span.context, span.parent
    assert place is not None
    message = SpanMessage(
        span_id=place.span_id.to_bytes(8),
        start_time_unix_nano=span.start_time or 0,
        end_time_unix_nano=span.end_time or 0,
    )
    for event in span.events:
        known = [_key_value(key, value) for key, value in (event.attributes or {}).items()]
        message.events.add(name=event.name, time_unix_nano=event.timestamp, attributes=known)
    for link in span.links:
        it = link.context
        message.links.add(trace_id=it.trace_id.to_bytes(16), span_id=it.span_id.to_bytes(8))
    if span.status.status_code is StatusCode.ERROR:
        message.status.CopyFrom(
            StatusMessage(
                code=StatusMessage.STATUS_CODE_ERROR, message=span.status.description or ""
            )
        )
    flags = int(place.trace_flags) | KNOWS_REMOTE
    if above is not None and above.is_remote:
        flags |= IS_REMOTE
    shared = _shared(
        place.trace_id,
        above.span_id if above is not None else None,
        span.name,
        span.kind.value + 1,
        flags,
        place.trace_state.to_header() if place.trace_state else "",
    )
    parts = [shared, message.SerializeToString()]
    for key, value in (span.attributes or {}).items():
        is_long = isinstance(value, str) and len(value) > LONGEST_CACHED
        is_rare = is_long or isinstance(value, list)
        parts.append(_alone(key, value) if is_rare else _remembered(key, value))
    return b"".join(parts)


@lru_cache(1_024)
def _shared(
    trace_id: int, above: int | None, name: str, kind: int, flags: int, state: str
) -> bytes:
    """Return what the spans of a claim share that are about the same model."""
    sent: bytes = SpanMessage(
        trace_id=trace_id.to_bytes(16),
        parent_span_id=b"" if above is None else above.to_bytes(8),
        name=name,
        kind=SpanMessage.SpanKind.ValueType(kind),
        flags=flags,
        trace_state=state,
    ).SerializeToString()
    return sent


def _alone(key: str, value: Any) -> bytes:
    sent: bytes = SpanMessage(attributes=[_key_value(key, value)]).SerializeToString()
    return sent


_remembered = lru_cache(4_096, typed=True)(_alone)


def _key_value(key: str, value: Any) -> KeyValue:
    return KeyValue(key=key, value=_any_value(value))


def _any_value(value: Any) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case str():
            return AnyValue(string_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case _:
            return AnyValue(array_value=ArrayValue(values=[*map(_any_value, value)]))
