"""Whether a process exports its spans: by the standard variables `OTEL_*`, off unless they ask."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from app.telemetry.spans import NO_TRACES, Traces

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


def flaw_in(environ: Mapping[str, str]) -> str | None:
    """Return why traces that the variables ask for cannot be exported; None if they can."""
    if not wants_traces(environ):
        return None
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    if exporter not in ("otlp", "console"):
        return f"OTEL_TRACES_EXPORTER is {exporter!r}; it must be otlp, console or none"
    named = next((it for it in PROTOCOLS if environ.get(it)), None)
    if exporter == "otlp" and named and environ[named].strip().lower() != PROTOCOL:
        return f"{named} is {environ[named]!r}; it must be {PROTOCOL}, usually on port 4318"
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
    if flaw := flaw_in(environ):
        log.error("traces are not exported", extra={"why": flaw})
        yield NO_TRACES
        return
    # The SDK of traces and the exporter are imported only if they are used.
    from app.telemetry.opentelemetry import exported, exporter_of  # noqa: PLC0415

    with exported(exporter_of(environ), process, environ) as traces:
        log.info("traces are exported")
        yield traces
