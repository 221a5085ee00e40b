"""What is measured, and that board and alerts ask for nothing else."""

import json
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from ulid import ULID

from app.contract.judgement import Usage
from app.telemetry.metrics import (
    AddedMetrics,
    MetricsChannel,
    ProcessesSilent,
    count_call,
    since,
)

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
SUFFIXES = ("_total", "_bucket", "_count", "_sum")


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_a_call_is_counted_with_what_it_consumed() -> None:
    labels = {"provider": "near", "model": "small", "role": "critic"}
    before = value("hone_model_tokens_total", **labels, kind="input")
    used = Usage(calls=1, input_tokens=70, output_tokens=7, cached_tokens=50, cost_usd=0.5)
    count_call("near:small", "critic", "ok", used, 0.3)
    assert value("hone_model_tokens_total", **labels, kind="input") - before == 70
    assert value("hone_model_tokens_total", **labels, kind="cached") >= 50
    assert value("hone_model_cost_usd_total", **labels) >= 0.5
    assert value("hone_model_calls_total", **labels, result="ok") >= 1


def test_a_wait_begins_when_a_refinement_is_submitted_or_was_to_begin() -> None:
    submitted = datetime(2026, 1, 31, 8, tzinfo=UTC)
    refinement_id, later = f"ref_{ULID.from_datetime(submitted)}", timedelta(hours=1)
    at = submitted + later + timedelta(seconds=5)
    assert since(refinement_id, at) == 3605
    assert since(refinement_id, at, submitted + later) == 5
    assert since(refinement_id, at, submitted - later) == 3605
    assert since(refinement_id, at, at + later) == 0


BEYOND = """
from app.telemetry.metrics import MOST_MODELS, bounded
labels = {bounded(f"many:model-{number}") for number in range(2 * MOST_MODELS)}
print(len(labels) <= MOST_MODELS + 1, ("many", "other") in labels)
"""


def test_models_beyond_a_number_have_one_label() -> None:
    """In a process of its own: no other test there would find the label of its model."""
    done = subprocess.run([sys.executable, "-c", BEYOND], capture_output=True, check=True)
    assert done.stdout == b"True True\n"


def measured_by(channel: MetricsChannel, number: int) -> None:
    """Answer for a process that has counted `number`."""
    registry = CollectorRegistry()
    Counter("calls", "Calls.", ["model"], registry=registry).labels("a").inc(number)
    Histogram("seconds", "Times.", buckets=(1, 5), registry=registry).observe(number)
    Gauge("hone_event_streams", "Added.", registry=registry).set(number)
    Gauge("lag", "The highest.", registry=registry).set(number)
    channel.answer(registry)


def test_metrics_of_several_processes_are_added_as_their_kinds_demand() -> None:
    channels = MetricsChannel(), MetricsChannel()
    for number, channel in enumerate(channels, 3):
        measured_by(channel, number)
    registry = CollectorRegistry()
    registry.register(AddedMetrics(channels))
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    assert found == {
        ("calls_total", "a"): 7,
        ("seconds_bucket", "1.0"): 0,
        ("seconds_bucket", "5.0"): 2,
        ("seconds_bucket", "+Inf"): 2,
        ("seconds_count",): 2,
        ("seconds_sum",): 7,
        ("hone_event_streams",): 7,
        ("lag",): 4,
    }


def test_a_process_that_does_not_answer_for_long_is_an_error() -> None:
    channel = MetricsChannel()
    measured_by(channel, 1)
    silent = AddedMetrics([channel], silent_s=-1)
    with pytest.raises(ProcessesSilent, match="does not answer"):
        list(silent.collect())


def asked_for() -> set[str]:
    """Return every metric that the board and the alerts name."""
    board = json.loads((DEPLOY / "grafana" / "hone.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += re.findall(r"expr: (.*)", ALERTS.read_text(encoding="utf-8"))
    return {name for expr in asked for name in re.findall(r"hone_\w+", expr)}


def test_board_and_alerts_ask_for_metrics_that_exist() -> None:
    measured = {family.name for family in REGISTRY.collect()}
    known = measured | {f"{name}{suffix}" for name in measured for suffix in SUFFIXES}
    assert len(asked_for()) > 20
    assert asked_for() <= known


def test_every_alert_has_a_runbook_entry_and_a_case_that_makes_it_fire() -> None:
    alerts = re.findall(r"- alert: (\w+)", ALERTS.read_text(encoding="utf-8"))
    runbook = (DEPLOY.parent / "docs" / "runbook.md").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^## (\w+)$", runbook) == alerts
    cases = (DEPLOY / "prometheus" / "alerts_test.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"  alertname: (\w+)", cases)) == set(alerts)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_reads_the_rules_and_each_fires_at_what_it_is_for() -> None:
    command = ["promtool", "test", "rules", "alerts_test.yml"]
    done = subprocess.run(command, cwd=ALERTS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
