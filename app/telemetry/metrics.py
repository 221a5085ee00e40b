"""Metrics for Prometheus: what happened in this process, and what stands in Redis.

Labels are bounded: routes by template, models up to `MOST_MODELS` and `other` beyond. A service is
measured by what its processes say together: sums over instances, never one of them.
"""

import asyncio
import json
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, Protocol

from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    start_http_server,
)
from prometheus_client.registry import Collector
from ulid import ULID

MOST_MODELS = 100
LAG_EVERY_S = 1.0
SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
LONG_SECONDS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 86_400)

log = logging.getLogger(__name__)

REQUESTS = Counter("hone_http_requests", "Answered requests.", ["method", "route", "status"])
REQUEST_SECONDS = Histogram(
    "hone_http_request_seconds", "Time to the head of a response.", ["route"], buckets=SECONDS
)
STREAMS = Gauge("hone_event_streams", "Open event streams and waits for an end.")
ENDED = Counter(
    "hone_refinements_ended",
    "Refinements that a worker has ended.",
    ["outcome", "reason", "strategy"],
)
CLAIMS = Counter(
    "hone_claims", "Claims of refinements: first, resumed, or after_failure.", ["kind"]
)
FENCED = Counter("hone_claims_lost", "Claims that another worker has taken over.")
QUEUE_WAIT = Histogram(
    "hone_queue_wait_seconds",
    "From submission or start_after to the first claim, of interactive refinements.",
    buckets=LONG_SECONDS,
)
FIRST_DRAFT = Histogram(
    "hone_first_draft_seconds", "From submission to the first judged draft.", buckets=LONG_SECONDS
)
RESULT = Histogram(
    "hone_result_seconds", "From submission to the end of one that succeeded.", buckets=LONG_SECONDS
)
WAITS = Counter("hone_refinements_parked", "Waits for a model without a worker.")
CALLS = Counter(
    "hone_model_calls",
    "Model calls; result: ok, not_served or failed.",
    ["provider", "model", "role", "result"],
)
CALL_SECONDS = Histogram(
    "hone_model_call_seconds", "Duration of answered calls.", ["provider"], buckets=SECONDS
)
TOKENS = Counter(
    "hone_model_tokens",
    "Tokens: input (cached ones included), cached, output (thinking included), thinking.",
    ["provider", "model", "role", "kind"],
)
DOLLARS = Counter(
    "hone_model_cost_usd", "Known costs in US dollars.", ["provider", "model", "role"]
)
NOT_SERVED = Counter(
    "hone_model_refusals", "Calls that a provider did not serve now.", ["provider", "reason"]
)
BREAKERS = Gauge("hone_model_breaker_open", "1 while a model takes no calls.", ["model"])
RATES = Gauge(
    "hone_model_rate",
    "Allowed calls a second; 0: no limit.",
    ["model"],
)
APPENDS = Counter("hone_appends", "Appends to journals.")
RECOVERED = Counter("hone_recovered", "Refinements enqueued again because they were due or lost.")
ORPHANED = Counter("hone_orphaned", "Refinements taken over from workers that died or stood still.")
WEBHOOKS = Counter("hone_webhooks", "Attempts to deliver a webhook.", ["result"])
LAG = Gauge("hone_loop_lag_seconds", "How late the event loop is, at the last look.")
STANDING = Gauge(
    "hone_standing",
    "In Redis: refinements waiting for a worker, parked for a model, held by workers; webhooks"
    " overdue; workers.",
    ["what"],
)
MEMORY = Gauge(
    "hone_redis_memory_share",
    "Share of Redis's maxmemory that is used; 0: no limit; NaN: unknown while Redis is away.",
)
REDIS_UP = Gauge("hone_redis_up", "1 if the Redis of a cell answers and takes writes.", ["cell"])

_models: set[str] = set()


def bounded(model: str) -> tuple[str, str]:
    """Return provider and model as labels; models beyond `MOST_MODELS` are `other`."""
    provider, _, name = model.partition(":")
    if model not in _models:
        if len(_models) >= MOST_MODELS:
            return provider[:40], "other"
        _models.add(model)
    return provider[:40], name


class Consumed(Protocol):
    """The usage of a call."""

    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def cached_tokens(self) -> int: ...
    @property
    def thinking_tokens(self) -> int: ...
    @property
    def cost_usd(self) -> float | None: ...


def count_call(
    model: str, role: str, result: str, used: Consumed, seconds: float | None = None
) -> None:
    """Count a call of a model and what it consumed; `seconds` of one that was answered."""
    counts = _counts_of(model, role, result)
    counts.calls.inc()
    if seconds is not None:
        counts.seconds.observe(seconds)
    for kind, count in (
        ("input", used.input_tokens),
        ("output", used.output_tokens),
        ("cached", used.cached_tokens),
        ("thinking", used.thinking_tokens),
    ):
        if count:
            counts.tokens(kind).inc(count)
    if used.cost_usd:
        DOLLARS.labels(*counts.labels).inc(used.cost_usd)


class _CallCounts:
    """What counts the calls of a model in a role with one result; to look it up takes longer."""

    def __init__(self, labels: tuple[str, str, str], result: str) -> None:
        self.labels = labels
        self.calls = CALLS.labels(*labels, result)
        self.seconds = CALL_SECONDS.labels(labels[0])
        self._tokens: dict[str, Counter] = {}

    def tokens(self, kind: str) -> Counter:
        """Return what counts the tokens of a kind; there is none before the first one."""
        if kind not in self._tokens:
            self._tokens[kind] = TOKENS.labels(*self.labels, kind)
        return self._tokens[kind]


@lru_cache(maxsize=4_096)
def _counts_of(model: str, role: str, result: str) -> _CallCounts:
    return _CallCounts((*bounded(model), role), result)


@lru_cache(maxsize=4_096)
def request_counter(method: str, route: str, status: str) -> Counter:
    """Return what counts the requests of a route; to look it up takes longer."""
    return REQUESTS.labels(method, route, status)


@lru_cache(maxsize=1_024)
def request_seconds(route: str) -> Histogram:
    """Return what measures the requests of a route."""
    return REQUEST_SECONDS.labels(route)


def since(refinement_id: str, at: datetime, not_before: datetime | None = None) -> float:
    """Return the seconds since a refinement was submitted, or was to begin if that is later.

    Its id is a ULID, and has the time of its submission.
    """
    submitted = ulid_of(refinement_id).timestamp
    begins = max(submitted, not_before.timestamp()) if not_before else submitted
    return max(0.0, at.timestamp() - begins)


@lru_cache(maxsize=4_096)
def ulid_of(refinement_id: str) -> ULID:
    """Return the time and the random number in the id of a refinement."""
    return ULID.from_str(refinement_id[-26:])


def serve_metrics(host: str, port: int, registry: CollectorRegistry = REGISTRY) -> None:
    """Serve this process's metrics in a thread; port 0: nothing. A port that is taken is logged."""
    if not port:
        return
    try:
        start_http_server(port, addr=host, registry=registry)
        log.info("metrics are served", extra={"host": host, "port": port})
    except OSError as error:
        log.error("metrics are not served", extra={"port": port, "why": error.strerror})  # noqa: TRY400


class MetricsChannel:
    """Lets a process ask another for its metrics; both are forked from the one that creates it.

    It outlives the process that answers: the next one in its place goes on with it.
    """

    def __init__(self) -> None:
        self._asking, self._answering = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._asking.setblocking(False)

    def answer(self, registry: CollectorRegistry = REGISTRY) -> None:
        """Answer questions in a thread until this process ends."""
        threading.Thread(target=self._answer, args=(registry,), daemon=True).start()

    def _answer(self, registry: CollectorRegistry) -> None:
        while True:
            _, pipes, _, _ = socket.recv_fds(self._answering, 1, 1)
            # What asked may have stopped waiting.
            with suppress(OSError), os.fdopen(pipes[0], "w") as pipe:
                json.dump({"pid": os.getpid(), "families": _written(registry.collect())}, pipe)
                pipe.write(END)

    def ask(self) -> int:
        """Ask, and return the descriptor from which to read the answer."""
        answer, pipe = os.pipe()
        with suppress(BlockingIOError):  # many questions wait for an answer already
            socket.send_fds(self._asking, [b"?"], [pipe])
        os.close(pipe)
        return answer


END = "\n"
ANSWER_S = 2.0
SILENT_S = 60.0
ADDED_GAUGES = frozenset(
    {
        "hone_event_streams",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
    }
)
"""Gauges of which each process has a part; of the others, the highest counts."""

Values = Mapping[tuple[str, str, tuple[tuple[str, str], ...]], float]
"""Values by family, name and labels."""


class ProcessesSilent(Exception):
    """A process has not said for a minute what it measures."""


class AddedMetrics(Collector):
    """The metrics of several processes as those of one: counts and times are added.

    What a process has counted stays in the sums after its end, so that they never fall. Raises
    `ProcessesSilent` while a process has not answered for `silent_s` seconds: a probe then fails,
    as it does for a single process that hangs.
    """

    def __init__(
        self,
        channels: Sequence[MetricsChannel],
        *,
        answer_s: float = ANSWER_S,
        silent_s: float = SILENT_S,
    ) -> None:
        self._channels = channels
        self._answer_s = answer_s
        self._silent_s = silent_s
        self._answered_at = [time.monotonic()] * len(channels)
        self._pids = [0] * len(channels)
        self._present: list[Values] = [{}] * len(channels)
        self._past: Values = {}
        self._families: dict[str, tuple[str, str]] = {}
        self._asking = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """Ask every process, and yield the sums."""
        with self._asking:
            answers = [channel.ask() for channel in self._channels]
            until = time.monotonic() + self._answer_s
            for place, answer in enumerate(answers):
                with os.fdopen(answer, "rb") as pipe:
                    if text := _read(pipe.fileno(), until):
                        self._note(place, **json.loads(text))
            now = time.monotonic()
            if any(now - at > self._silent_s for at in self._answered_at):
                raise ProcessesSilent(f"a process does not answer for {self._silent_s:g} s")
            added = self._added([self._past, *self._present])
        metrics = {name: Metric(name, *family) for name, family in self._families.items()}
        for (family, name, labels), value in added.items():
            metrics[family].add_sample(name, dict(labels), value)
        yield from metrics.values()

    def _note(self, place: int, pid: int, families: list[Any]) -> None:
        self._answered_at[place] = time.monotonic()
        if pid != self._pids[place]:
            ended = self._present[place].items()
            counted = {key: value for key, value in ended if self._families[key[0]][1] != "gauge"}
            self._past, self._pids[place] = self._added([self._past, counted]), pid
        self._families |= {name: (about, kind) for name, about, kind, _ in families}
        self._present[place] = {
            (family, name, tuple(labels.items())): value
            for family, _, _, samples in families
            for name, labels, value in samples
        }

    def _added(self, parts: Iterable[Values]) -> Values:
        added: dict[tuple[str, str, tuple[tuple[str, str], ...]], float] = {}
        for part in parts:
            for key, value in part.items():
                family, name, _ = key
                if key not in added:
                    added[key] = value
                elif name.endswith("_created"):
                    added[key] = min(added[key], value)
                elif self._families[family][1] == "gauge" and family not in ADDED_GAUGES:
                    added[key] = max(added[key], value)
                else:
                    added[key] += value
        return added


def _written(metrics: Iterable[Metric]) -> list[Any]:
    return [
        (each.name, each.documentation, each.type, [sample[:3] for sample in each.samples])
        for each in metrics
    ]


def _read(descriptor: int, until: float) -> str:
    """Return an answer; nothing if it is not complete in time."""
    parts = []
    while select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(descriptor, 65_536)
        if not part:
            break
        parts.append(part)
    text = b"".join(parts).decode()
    return text if text.endswith(END) else ""


async def measure_lag(clock: Callable[[], float] | None = None) -> None:
    """Measure once a second how late the event loop is, until cancelled."""
    clock = clock or asyncio.get_running_loop().time
    while True:
        due = clock() + LAG_EVERY_S
        await asyncio.sleep(LAG_EVERY_S)
        LAG.set(max(0.0, clock() - due))
