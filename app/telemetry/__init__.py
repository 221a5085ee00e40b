"""Logs, metrics and traces for the operators of a process."""

from app.telemetry.logs import Formats, about_request, configure_logs, request_id, safe_request_id
from app.telemetry.traces import (
    NO_TRACES,
    Origin,
    TraceContext,
    Traces,
    TraceSpan,
    current_span,
    open_traces,
)

__all__ = [
    "NO_TRACES",
    "Formats",
    "Origin",
    "TraceContext",
    "TraceSpan",
    "Traces",
    "about_request",
    "configure_logs",
    "current_span",
    "open_traces",
    "request_id",
    "safe_request_id",
]
