"""How a trace is passed on, and what is exported."""

import logging
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

from app.telemetry import NO_TRACES, Origin, TraceContext, current_span, open_traces
from app.telemetry.opentelemetry import exported
from app.telemetry.traces import export_flaw, wants_traces
from tests.telemetry.collector import RecordedSpans, collector

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = TraceContext(f"00-{TRACE}-{SPAN}-01", "vendor=1")


@pytest.mark.parametrize(
    ("traceparent", "kept"),
    [
        (f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01"),
        (f" 00-{TRACE}-{SPAN}-00 ", f"00-{TRACE}-{SPAN}-00"),
        (f"00-{TRACE}-{SPAN}-ff", f"00-{TRACE}-{SPAN}-03"),
        (f"cc-{TRACE}-{SPAN}-01-more", f"00-{TRACE}-{SPAN}-01"),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-{SPAN}-01", None),
        (f"00-{TRACE}-{SPAN}-01\n", f"00-{TRACE}-{SPAN}-01"),
        ("", None),
    ],
)
def test_a_traceparent_is_read_as_the_standard_says(traceparent: str, kept: str | None) -> None:
    read = TraceContext.read(traceparent)
    assert (read and read.traceparent) == kept


@pytest.mark.parametrize("state", [
    "a=1,b=2",
    "a=1 ,\tb=2,, 0tenant/x@sys_tem-1*= !~",
    f"{'k' * 256}={'v' * 255}",
    ",".join(f"k{n}=v" for n in range(32)),
])  # fmt: skip
def test_a_valid_state_is_passed_on_as_it_is(state: str) -> None:
    assert TraceContext.read(GIVEN.traceparent, state) == replace(GIVEN, tracestate=state)


@pytest.mark.parametrize("state", [
    "nonsense",
    "a=1,nonsense",
    "A=1",
    "=1",
    "a=",
    "a=1=2",
    "a b=1",
    "a=1\x7f",
    "a=\n",
    "a=\xe4",
    " , ",
    f"a={'v' * 257}",
    f"{'k' * 257}=v",
    ",".join(f"k{n}=v" for n in range(33)),
    ",".join(f"k{n}={'v' * 100}" for n in range(5)),
])  # fmt: skip
def test_of_a_state_that_is_none_only_the_parent_is_kept(state: str) -> None:
    assert TraceContext.read(GIVEN.traceparent, state) == replace(GIVEN, tracestate="")


@pytest.mark.parametrize("origin", [
    Origin(),
    Origin("req_7"),
    Origin("req_7", GIVEN),
    Origin(None, GIVEN),
    Origin(None, TraceContext(GIVEN.traceparent, "a=1, b=2"), is_link=True),
])  # fmt: skip
def test_what_is_stored_of_a_request_is_read_again(origin: Origin) -> None:
    assert Origin.decode(origin.encode()) == origin


def test_of_an_origin_that_cannot_be_read_nothing_is_known() -> None:
    assert Origin.decode("req_7 later-release x") == Origin("req_7")


@pytest.mark.parametrize(
    ("environ", "wanted", "flaw"),
    [
        ({}, False, None),
        ({"OTEL_SERVICE_NAME": "hone"}, False, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True, None),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True, None),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True, None),
        ({"OTEL_TRACES_EXPORTER": "console"}, True, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_TRACES_EXPORTER": "none"}, False, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_SDK_DISABLED": "TRUE"}, False, None),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, True, "OTEL_TRACES_EXPORTER is 'zipkin'"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            True,
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'; it must be http/protobuf",
        ),
    ],
)
def test_traces_are_off_unless_the_standard_variables_ask_for_them(
    environ: Mapping[str, str], wanted: bool, flaw: str | None
) -> None:
    assert wants_traces(environ) == wanted
    assert (export_flaw(environ) or "").startswith(flaw or "")
    assert (export_flaw(environ) is None) == (flaw is None)


def test_without_the_extra_it_is_said_how_to_install_it() -> None:
    code = (
        "import sys; sys.modules['opentelemetry.sdk'] = None\n"
        "from app.telemetry.traces import export_flaw\n"
        "print(export_flaw({'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://collector:4318'}))"
    )
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http" in printed


def test_variables_that_cannot_work_are_logged_and_nothing_is_exported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        caplog.at_level(logging.ERROR),
        open_traces("worker", {"OTEL_TRACES_EXPORTER": "jaeger"}) as traces,
    ):
        assert traces is NO_TRACES
    assert "'jaeger'" in vars(caplog.records[0])["why"]


def test_neither_the_sdk_of_traces_nor_an_exporter_is_imported_while_traces_are_off() -> None:
    program = (
        "import sys, app.main, workers.__main__\n"
        "from app.telemetry import open_traces\n"
        "of_traces = ('opentelemetry.sdk.trace', 'opentelemetry.exporter', 'google')\n"
        "with open_traces('worker', {}):\n"
        "    print([it for it in sys.modules if it.startswith(of_traces)])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def test_without_an_exporter_a_trace_is_passed_on_as_it_came() -> None:
    with NO_TRACES.span(Origin("req_7", GIVEN), "a", "server") as span, span.child("b") as inner:
        assert current_span().context == inner.context == GIVEN
        assert GIVEN.fields() == {"traceparent": GIVEN.traceparent, "tracestate": "vendor=1"}
    assert current_span().context is None


def test_a_span_continues_the_trace_that_a_client_began() -> None:
    recorded = RecordedSpans()
    with recorded.traces.span(Origin("req_7", GIVEN), "above", "server") as above:
        assert above.context is not None
        assert above.context.trace_id == TRACE
        assert above.context.tracestate == "vendor=1"
        assert above.context.traceparent != GIVEN.traceparent
        with above.child("below"):
            assert current_span().context != above.context
        assert current_span() is above
    below, above_it = recorded.ended
    assert below.parent == above_it.context
    assert above_it.parent is not None
    assert f"{above_it.parent.span_id:016x}" == SPAN


def test_a_trace_that_its_client_does_not_sample_is_passed_on_and_not_recorded() -> None:
    recorded = RecordedSpans()
    unsampled = TraceContext(f"00-{TRACE}-{SPAN}-00")
    with recorded.traces.span(Origin("req_7", unsampled), "above", "server") as above:
        assert not above.is_recorded
        assert above.context is not None
        assert above.context.traceparent.startswith(f"00-{TRACE}")
        assert above.context.traceparent.endswith("-00")
    assert recorded.ended == ()


@pytest.mark.parametrize(("share", "spans"), [(0.0, 0), (1.0, 2)])
def test_the_sampler_decides_about_all_spans_of_a_trace_that_begins_here(
    share: float, spans: int
) -> None:
    recorded = RecordedSpans(TraceIdRatioBased(share))
    with recorded.traces.span(Origin(), "above", "consumer", trace_id=5) as above:
        assert above.context is not None
        assert above.context.is_sampled == above.is_recorded == bool(spans)
        with above.child("below"):
            pass
    assert len(recorded.ended) == spans


def test_a_refinement_of_a_batch_has_a_trace_of_its_own_that_refers_to_the_batch() -> None:
    recorded = RecordedSpans()
    with recorded.traces.span(Origin("req_7", GIVEN, is_link=True), "one", "consumer", trace_id=5):
        pass
    (one,) = recorded.ended
    assert one.context is not None
    assert (one.context.trace_id, one.parent) == (5, None)
    assert [f"{link.context.trace_id:032x}" for link in one.links] == [TRACE]


def test_a_collector_receives_what_was_recorded_in_the_standard_format() -> None:
    environ = {"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test"}
    with collector() as (url, received):
        with (
            exported(OTLPSpanExporter(url), "worker", environ) as traces,
            traces.span(
                Origin("req_7", GIVEN), "a", "consumer", {"n": 1, "names": ["a"], "no": None}
            ) as span,
        ):
            span.event("waits", {"hone.wait_s": 2.5})
            span.set({"hone.status": "failed"}, error="model_refused")
        (request,) = received
    (of_process,) = request.resource_spans
    about = {
        attribute.key: attribute.value.string_value for attribute in of_process.resource.attributes
    }
    assert about["service.name"] == "hone-worker"
    (span_sent,) = of_process.scope_spans[0].spans
    assert (span_sent.trace_id.hex(), span_sent.parent_span_id.hex()) == (TRACE, SPAN)
    assert (span_sent.name, span_sent.kind) == ("a", span_sent.SPAN_KIND_CONSUMER)
    assert {attribute.key for attribute in span_sent.attributes} == {
        "n",
        "names",
        "hone.status",
        "error.type",
    }
    assert [event.name for event in span_sent.events] == ["waits"]
    assert span_sent.status.code == span_sent.status.STATUS_CODE_ERROR


def test_a_collector_that_is_away_does_not_keep_a_process_from_ending() -> None:
    exporter = OTLPSpanExporter("http://127.0.0.1:9/v1/traces", timeout=1)
    with (
        exported(exporter, "worker", {}, wait_s=0.1) as traces,
        traces.span(Origin(), "a", "consumer"),
    ):
        pass
