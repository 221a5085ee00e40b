"""Traces: W3C Trace Context, spans that others may record, and whether the process exports them.

The standard variables `OTEL_*` ask for an export. Nothing else needs OpenTelemetry.
Without an exporter a trace that a client began is still passed on to whatever Hone calls, and its
id is on the lines of the log.
"""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal, Self

TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
STATE_MEMBER = re.compile(
    r"[a-z0-9][a-z0-9_*/@-]{0,255}"
    r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
MOST_STATE, MOST_MEMBERS = 512, 32
KNOWN_FLAGS = 0x03
"""Sampled, and a trace id that is random."""

Kind = Literal["server", "client", "consumer", "internal"]
Attribute = str | bool | int | float | Sequence[str] | None
Attributes = Mapping[str, Attribute]
"""Of a span or an event; None: not known, and left out."""

NO_ATTRIBUTES: Attributes = {}


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The place in a trace at which something is called (W3C Trace Context)."""

    traceparent: str
    tracestate: str = ""

    @classmethod
    def read(cls, traceparent: str, tracestate: str = "") -> Self | None:
        """Return the context in header fields; None, as the standard demands, if it is invalid.

        A state that is not a list as in the standard, or longer than 512 characters, is left out.
        """
        found = TRACEPARENT.fullmatch(traceparent.strip())
        if found is None or not int(found[2], 16) or not int(found[3], 16):
            return None
        if found[1] == "00" and found[5]:
            return None
        flags = int(found[4], 16) & KNOWN_FLAGS
        state = tracestate if _is_state(tracestate) else ""
        return cls(f"00-{found[2]}-{found[3]}-{flags:02x}", state)

    @property
    def is_sampled(self) -> bool:
        """Whether the sender of the trace records it."""
        return bool(int(self.traceparent[-2:], 16) & 1)

    @property
    def trace_id(self) -> str:
        """The 32 hexadecimal digits that all spans of the trace share."""
        return self.traceparent[3:35]

    def fields(self) -> dict[str, str]:
        """Return the header fields of a request that belongs to the trace."""
        state = {"tracestate": self.tracestate} if self.tracestate else {}
        return {"traceparent": self.traceparent, **state}


def _is_state(text: str) -> bool:
    """Return whether it is a list of up to 32 `key=value`; members without anything are allowed."""
    members = [member for part in text.split(",") if (member := part.strip(" \t"))]
    is_list = bool(members) and all(map(STATE_MEMBER.fullmatch, members))
    return is_list and len(members) <= MOST_MEMBERS and len(text) <= MOST_STATE


@dataclass(frozen=True, slots=True)
class Origin:
    """The request by which a refinement was submitted: its id, and its place in a trace.

    `is_link`: the trace is that of a batch, and the refinement has one of its own.
    """

    request_id: str | None = None
    trace: TraceContext | None = None
    is_link: bool = False

    def encode(self, *, as_link: bool = False) -> str:
        """Return the trace context that is stored with a refinement; empty without one."""
        if self.trace is None:
            return self.request_id or ""
        sign = "+" if as_link or self.is_link else ""
        parts = (self.request_id or "-", sign + self.trace.traceparent, self.trace.tracestate)
        return " ".join(parts).rstrip()

    @classmethod
    def decode(cls, stored: str) -> Self:
        """Return what `encode` has stored; of what cannot be read nothing is known."""
        request_id, _, rest = stored.partition(" ")
        traceparent, _, tracestate = rest.partition(" ")
        trace = TraceContext.read(traceparent.removeprefix("+"), tracestate)
        known_as = None if request_id in ("", "-") else request_id
        return cls(known_as, trace, traceparent.startswith("+"))


class TraceSpan:
    """A part of a trace that is not recorded: it only knows where in a trace it is."""

    __slots__ = ("_ambient", "_context")

    is_recorded = False
    has_content = False
    """Whether the texts of prompts and replies are wanted."""

    _ambient: "Token[TraceSpan]"

    def __init__(self, context: TraceContext | None = None) -> None:
        self._context = context

    @property
    def context(self) -> TraceContext | None:
        """Its place in a trace, which goes with whatever it calls."""
        return self._context

    def __enter__(self) -> "TraceSpan":
        """Let it be the current span until the context ends, and it with it."""
        self._ambient = current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        current.reset(self._ambient)

    def child(
        self, name: str, kind: Kind = "internal", *attributes: Attributes
    ) -> "AbstractContextManager[TraceSpan]":
        """Begin a span inside this one; it is the current one until the context ends."""
        del name, kind, attributes
        return nullcontext(self)

    def set(
        self, attributes: Attributes, *, name: str | None = None, error: str | None = None
    ) -> None:
        """Add attributes, or replace them and its name.

        `error` is a code that says that the span failed.
        """

    def event(self, name: str, attributes: Attributes = NO_ATTRIBUTES) -> None:
        """Add something that happened at this moment."""


NO_SPAN = TraceSpan()
current: ContextVar[TraceSpan] = ContextVar("span", default=NO_SPAN)
current_span: Callable[[], TraceSpan] = current.get
"""Returns the span of what goes on now; one that records nothing outside of all."""


class Traces:
    """Where the spans of a process begin; nothing is recorded by this class."""

    def span(
        self,
        origin: Origin,
        name: str,
        kind: Kind,
        attributes: Attributes = NO_ATTRIBUTES,
        *,
        trace_id: int | None = None,
    ) -> AbstractContextManager[TraceSpan]:
        """Go on with the trace of a request; it is the current one until the context ends.

        `trace_id` is that of a trace which begins here, 128 bits; by default it is random.
        """
        del name, kind, attributes, trace_id
        return TraceSpan(origin.trace)


NO_TRACES = Traces()


ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"

log = logging.getLogger(__name__)


def wants_traces(environ: Mapping[str, str | None]) -> bool:
    """Return whether the variables ask for traces: an endpoint, or an exporter other than none."""
    if (environ.get("OTEL_SDK_DISABLED") or "").strip().lower() == "true":
        return False
    exporter = (environ.get("OTEL_TRACES_EXPORTER") or "").strip().lower()
    return exporter != "none" and bool(exporter or any(map(environ.get, ENDPOINTS)))


def export_flaw(environ: Mapping[str, str]) -> str | None:
    """Return why traces that the variables ask for cannot be exported; None if they can."""
    if not wants_traces(environ):
        return None
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    if exporter not in ("otlp", "console"):
        return f"OTEL_TRACES_EXPORTER is {exporter!r}; it must be otlp, console or none"
    named = next((variable for variable in PROTOCOLS if environ.get(variable)), None)
    if exporter == "otlp" and named and environ[named].strip().lower() != PROTOCOL:
        return f"{named} is {environ[named]!r}; it must be {PROTOCOL}, usually on port 4318"
    if find_spec("opentelemetry.sdk") is None:
        packages = "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
        return f"the extra `otel` is missing: pip install {packages}"
    return None


@contextmanager
def open_traces(process: str, environ: Mapping[str, str] = os.environ) -> Iterator[Traces]:
    """Return where the spans of this process begin.

    `process` is the end of the service's name, unless a variable names the service. Settings that
    cannot work are logged, and nothing is exported then.
    """
    if not wants_traces(environ):
        yield NO_TRACES
        return
    if flaw := export_flaw(environ):
        log.error("traces are not exported", extra={"why": flaw})
        yield NO_TRACES
        return
    # The SDK of traces and the exporter are imported only if they are used.
    from app.telemetry.opentelemetry import exported, exporter_of  # noqa: PLC0415

    with exported(exporter_of(environ), process, environ) as traces:
        log.info("traces are exported")
        yield traces
