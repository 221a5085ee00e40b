"""The worker process: `python -m workers`, also as `hone worker`."""

import asyncio
import faulthandler
import gc
import json
import logging
import os
import signal
import sys
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO, Any

import uvloop
from prometheus_client import CollectorRegistry
from pydantic import ValidationError
from redis.exceptions import ConnectionError as RedisUnreachable
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimedOut

from app.contract.drafts import BYTE_ORDER_MARK
from app.contract.invalid_values import sentence_of
from app.contract.plugins import PluginFailed, load_added
from app.contract.providers import BY_NAME
from app.contract.requests import RefinementRequest
from app.local.supervisor import MARGIN_S, Child, ForkedProgram, Interrupts, Supervisor
from app.queue import JOB, RefinementQueue
from app.settings import COLLECT_AFTER, InvalidSettings, Settings, read_environment
from app.store import (
    ArchiveAway,
    ArchiveTransfer,
    UnusableRedis,
    WorkerStore,
    open_renewal,
    open_worker_store,
)
from app.store.cells import cell_loads, cell_to_serve, gives_way
from app.store.redis.connection import place_of
from app.store.state import new_prompt_nonce
from app.telemetry import Traces, configure_logs, metrics, open_traces
from workers.engine.pipeline import function_of, load_strategies, sample_prompts, task_of
from workers.engine.prompts import Judge
from workers.model_registry import open_models
from workers.models.port import ModelCall, ModelCaller, ModelError, ModelWaits, ReplyCutOff
from workers.models.remote import adapter_of
from workers.play.endpoints import EndpointLimiter, PermitSource, open_endpoint_limiter
from workers.play.executor import TextPublisher
from workers.play.fork_server import ForkServer
from workers.play.limits import Bulkhead, open_day_quotas
from workers.play.quarantine import CANNOT_RUN, Parent, Quarantine, prefer_in_oom
from workers.play.refinements import Lease, Refinements, is_gone, machine_name, new_name
from workers.rq import CoroutineWorker, end
from workers.validators import load_check
from workers.validators.running import ServerResources, open_server_resources
from workers.validators.sandbox import RunsAsRoot

log = logging.getLogger(__name__)

OpenResources = Callable[[Settings], AbstractAsyncContextManager[ServerResources]]
OpenModels = Callable[[Settings], AbstractAsyncContextManager[ModelCaller]]
BackgroundTask = Callable[[], Awaitable[None]]
Start = Callable[..., Coroutine[Any, Any, None]]

CANNOT_START = (PluginFailed, UnusableRedis, ArchiveAway, RedisError, RunsAsRoot, InvalidSettings)
PLAYERS: Mapping[str, Callable[[str], object]] = {
    "strategies": function_of,
    "validators": load_check,
    "providers": lambda name: adapter_of(BY_NAME[name].wire),
}
QUARANTINED = 2
"""Child processes of a worker that play suspects; few refinements ever are."""
CONNECT_TIMEOUT_S = 30.0
RETRY_EVERY_S = 0.5
LOOK_EVERY_S = 0.02
MOVE_S = 10.0
"""Seconds between two looks whether another cell has no worker."""


def main(
    open_server_resources: OpenResources = open_server_resources,
    open_models: OpenModels = open_models,
    new_name: Callable[[], str] = new_name,
) -> int:
    """Run until a signal arrives; return 0, or 1 if no worker can start. The log says why."""
    configure_logs("worker")
    start = partial(_start, open_server_resources, open_models)
    try:
        settings = read_environment()
        configure_logs("worker", settings.log_format, settings.log_level)
        load_added(PLAYERS)
        load_strategies()
    except CANNOT_START as error:
        log.error("cannot start: %s", error)  # noqa: TRY400 - no traceback
        return 1
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    if settings.workers > 1:
        return run_workers(settings, start, new_name)
    serve = partial(metrics.serve_metrics, *settings.metrics_at())
    return run_worker(settings, start, new_name, serve)


def run_worker(
    settings: Settings,
    start: Start,
    new_name: Callable[[], str],
    serve: Callable[[], None],
    nth: int = 0,
) -> int:
    """Run one worker in this process until a signal arrives; `serve` shows its metrics."""
    name = new_name()
    placed = _placed(settings, nth)
    moves = () if placed is settings else (partial(_move_where_needed, settings, name),)
    with closing(ForkServer(partial(_run_child, placed, start))) as fork_server:
        serve()
        run = partial(work, fork_server=fork_server, beside=moves)
        return _run_loop(partial(start, placed, name, run))


def _run_loop(start: Start, cannot: str = "cannot start", status: int = 1) -> int:
    """Run it to its end and return 0; if it cannot start, log why and return `status`."""
    try:
        uvloop.run(start())
    except CANNOT_START as error:
        log.error("%s: %s", cannot, error)  # noqa: TRY400 - no traceback
        return status
    return 0


def _placed(settings: Settings, nth: int) -> Settings:
    """Return the settings with the cell that the `nth` worker of this machine serves."""
    if settings.cells == 1 or settings.cell is not None:
        return settings
    together = os.getppid() if settings.workers > 1 else os.getpid()
    cell = asyncio.run(cell_to_serve(settings, machine_name(), together, nth))
    log.info("serves cell %d", cell)
    return settings.model_copy(update={"cell": cell})


async def _move_where_needed(settings: Settings, name: str) -> None:
    """End this worker when another cell has none: the next one in its place chooses that."""
    while True:
        await asyncio.sleep(MOVE_S)
        found = await cell_loads(settings)
        if gives_way(found, name):
            log.warning("another cell has no worker: leaves, so that the next one goes there")
            os.kill(os.getpid(), signal.SIGTERM)
            return


def run_workers(settings: Settings, start: Start, new_name: Callable[[], str]) -> int:
    """Run `settings.workers` workers, each forked from this process, until a signal arrives.

    A first child finds out whether a worker can start; if not, its exit status is returned.
    """
    channels = [metrics.MetricsChannel() for _ in range(settings.workers)]
    workers = [
        ForkedProgram(
            f"worker {number}",
            partial(run_worker, own, start, new_name, channel.answer, number - 1),
        )
        for number, own, channel in zip(count(1), parted(settings), channels, strict=False)
    ]
    serving = ForkedProgram("metrics", partial(_serve_metrics, settings, channels))
    with suppress(KeyboardInterrupt), Interrupts() as interrupts:
        if status := _status_of_start(settings, start, new_name):
            return status
        with (
            # Metrics are served until the last worker has ended.
            Supervisor([serving] if settings.metrics_address else [], _log) as beside,
            Supervisor(
                workers,
                _log,
                grace_s=settings.grace_s + MARGIN_S,
                in_a_hurry=lambda: interrupts.in_a_hurry,
                meanwhile=beside.tick,
            ) as supervisor,
        ):
            supervisor.run()
    return 0


def parted(settings: Settings) -> list[Settings]:
    """Return the settings of each worker: a part of the concurrency, the first ones one more."""
    each, more = divmod(settings.concurrency, settings.workers)
    return [
        settings.model_copy(update={"concurrency": max(1, each + (number < more))})
        for number in range(settings.workers)
    ]


def _status_of_start(settings: Settings, start: Start, new_name: Callable[[], str]) -> int:
    """Connect in a child as a worker does; return its exit status."""

    async def work_nothing(*_: object, **__: object) -> None: ...

    def attempt() -> int:
        return _run_loop(partial(start, _placed(settings, 0), new_name(), work_nothing))

    child = Child(ForkedProgram("first worker", attempt), _log)
    child.revive()
    try:
        while child.is_running:
            time.sleep(LOOK_EVERY_S)
    finally:
        child.kill()
    return abs(child.status or 0)


def _serve_metrics(settings: Settings, channels: Sequence[metrics.MetricsChannel]) -> int:
    """Serve the metrics of all workers as those of one until killed."""
    registry = CollectorRegistry()
    registry.register(metrics.AddedMetrics(channels))
    metrics.serve_metrics(*settings.metrics_at(), registry)
    while True:
        signal.pause()


def _log(name: str, line: str) -> None:
    log.warning("%s %s", name, line)


def _run_child(
    settings: Settings, start: Start, name: str, incoming: IO[bytes], outgoing: int
) -> int:
    """Play suspects in a child process; return its exit status."""
    prefer_in_oom()
    parent = Parent(incoming, outgoing, settings.stall_s)
    playing = partial(start, settings, name, partial(play_suspects, parent=parent))
    return _run_loop(playing, f"{name}: cannot run", CANNOT_RUN)


async def work(
    settings: Settings,
    store: WorkerStore,
    models: ModelCaller,
    resources: ServerResources,
    limiter: EndpointLimiter,
    name: str,
    *,
    traces: Traces,
    fork_server: ForkServer,
    beside: Sequence[BackgroundTask] = (),
) -> None:
    """Play refinements from the queue until a signal stops the worker, and run `beside`."""
    quarantine = _quarantine(settings, store, fork_server, name)
    texts = TextPublisher(store.publish_text)
    bulkhead = Bulkhead(settings.concurrency, settings.most_held, settings.model_timeout_s)
    refinements = Refinements(
        store,
        models,
        name,
        resources,
        quarantine,
        texts=texts,
        keeps_prompts=settings.keep_prompts,
        max_output_tokens=settings.max_output_tokens,
        endpoint_limiter=limiter,
        bulkhead=bulkhead,
        most_parked_queued=settings.queue_max,
        traces=traces,
    )
    lease = _lease(settings, name, refinements)
    worker = CoroutineWorker(
        settings.queue,
        settings.redis_url,
        {JOB: refinements.refine},
        concurrency=settings.concurrency,
        grace_s=settings.grace_s,
        leave=refinements.leave,
        is_lagging=lambda: lease.is_lagging,
        without_slot=bulkhead.without_slot,
        most_held=settings.most_held,
        name=name,
        lease_s=settings.lease_s,
        weights=settings.tenant_weights,
    )
    more = (
        partial(recover, store, worker.is_idle, is_gone),
        partial(feed_batches, store),
        partial(count_and_pack, store),
        *(() if store.transfer is None else (partial(archive_ended, store.transfer),)),
        partial(resume_parked, store, limiter, bulkhead, lambda: worker.free_slots),
        partial(announce, refinements, settings.lease_s),
        partial(heed_watchers, store, texts),
        metrics.measure_lag,
    )
    async with fork_server, quarantine, _beside(store, lease, refinements, *more, *beside):
        log.info("%s runs up to %d refinements at once", name, settings.concurrency)
        await worker.serve()
    with suppress(RedisError):
        await store.count_and_pack(count_after_ms=0)


def _quarantine(
    settings: Settings, store: WorkerStore, fork_server: ForkServer, name: str
) -> Quarantine:
    return Quarantine(
        store,
        fork_server.start,
        name,
        children=QUARANTINED,
        lease_s=settings.lease_s,
        stall_s=settings.stall_s,
    )


async def play_suspects(
    settings: Settings,
    store: WorkerStore,
    models: ModelCaller,
    resources: ServerResources,
    limiter: EndpointLimiter,
    name: str,
    *,
    traces: Traces,
    parent: Parent,
) -> None:
    """Play the refinements that the parent process names until it closes the pipe."""
    texts = TextPublisher(store.publish_text)
    refinements = Refinements(
        store,
        models,
        name,
        resources,
        clears=True,
        texts=texts,
        keeps_prompts=settings.keep_prompts,
        max_output_tokens=settings.max_output_tokens,
        endpoint_limiter=limiter,
        traces=traces,
    )
    lease, heeding = _lease(settings, name, refinements), partial(heed_watchers, store, texts)
    async with _beside(store, lease, refinements, heeding):
        await parent.serve(refinements.refine, refinements.leave)


def _lease(settings: Settings, name: str, refinements: Refinements) -> Lease:
    renewal = partial(open_renewal, settings, name)
    return Lease(renewal, settings.lease_s, settings.stall_s, refinements.look, _end_process)


def _end_process() -> None:
    """End a process whose event loop stands still; show where it does."""
    log.critical("the event loop does not turn: ending the process")
    faulthandler.dump_traceback()
    os._exit(os.EX_SOFTWARE)


@asynccontextmanager
async def _beside(
    store: WorkerStore,
    lease: Lease,
    refinements: Refinements,
    *more: BackgroundTask,
) -> AsyncIterator[None]:
    """Keep the lease, drop strays, heed commands, and run `more`; sign off in the end."""
    async with lease.kept(), asyncio.TaskGroup() as around:
        always: tuple[BackgroundTask, ...] = (
            partial(drop_strays, store, refinements.refining),
            partial(heed_commands, store, refinements),
        )
        tasks = [around.create_task(keep_running(each)) for each in (*always, *more)]
        yield
        await end(tasks)
    with suppress(RedisError):
        await store.leave()


RECOVER_EVERY_S = 0.5
BATCHES_EVERY_S = 1.0
FED_EVERY_S = 0.1
STRAYS_EVERY_S = 5.0
ANNOUNCED_PER_LEASE = 4
ENDED_EVERY_S = 1.0
ARCHIVE_EVERY_S = 1.0
ARCHIVE_AGAIN_S = 15.0
RESTART_AFTER_S = 0.5


async def drop_strays(
    store: WorkerStore, refining: Collection[str], every_s: float = STRAYS_EVERY_S
) -> None:
    """Give up what this worker holds and does not play, until cancelled.

    The lease of a living worker never ends. A claim whose end could not be written would be held
    for ever, so it is given up once it is found twice. One whose end a failover has lost ends again
    as it did.
    """
    before: set[str] = set()
    while True:
        await asyncio.sleep(every_s)
        try:
            found = await store.held() - set(refining)
            await store.restore(found)
            if strays := found & before - set(refining):
                log.warning("giving up %d refinements that are held and not played", len(strays))
                await store.drop(strays)
            before = found - strays
        except RedisError as error:
            log.warning("Redis is unavailable: %s", error)


async def announce(refinements: Refinements, lease_s: float) -> None:
    """Announce four times per lease which versions of the engine it plays, until cancelled."""
    while True:
        try:
            await refinements.announce()
        except RedisError as error:
            log.warning("Redis is unavailable: %s", error)
        await asyncio.sleep(lease_s / ANNOUNCED_PER_LEASE)


async def recover(
    store: WorkerStore, is_idle: Callable[[], bool], is_gone: Callable[[str], bool]
) -> None:
    """Enqueue due refinements again and delete expired ones, until cancelled.

    Only an idle worker looks for queue entries that were lost. The lease of a worker that `is_gone`
    ends at once.
    """
    while True:
        try:
            before = store.orphaned
            recovered = await store.recover(is_idle(), is_gone)
            if recovered:
                metrics.RECOVERED.inc(recovered)
                log.info("recovered what was due or lost", extra={"refinements": recovered})
            if orphaned := store.orphaned - before:
                metrics.ORPHANED.inc(orphaned)
                counts = {"refinements": orphaned}
                log.warning("took over what a worker held that is gone", extra=counts)
        except RedisError as error:
            log.warning("Redis is unavailable: %s", error)
        await asyncio.sleep(RECOVER_EVERY_S)


async def count_and_pack(store: WorkerStore, every_s: float = ENDED_EVERY_S) -> None:
    """Count what has ended in the sums, and pack its records, until cancelled."""
    while True:
        try:
            while await store.count_and_pack():
                pass
        except RedisError as error:
            log.warning("Redis is unavailable: %s", error)
        await asyncio.sleep(every_s)


async def archive_ended(transfer: ArchiveTransfer, every_s: float = ARCHIVE_EVERY_S) -> None:
    """Move what has ended to the archive until cancelled; what fails is tried again."""
    while True:
        wait_s = every_s
        try:
            while await transfer.move_due():
                pass
        except ArchiveAway as error:
            log.warning("the archive cannot be used: %s", error)
            wait_s = ARCHIVE_AGAIN_S
        except RedisError as error:
            log.warning("Redis is unavailable: %s", error)
        await asyncio.sleep(wait_s)


async def feed_batches(store: WorkerStore) -> None:
    """Begin requests of batches as there is room for them, until cancelled."""
    while True:
        try:
            due_s = await store.feed_batches()
        except RedisError as error:
            log.warning("Redis is unavailable: %s", error)
            due_s = None
        wait_s = BATCHES_EVERY_S if due_s is None else min(due_s, BATCHES_EVERY_S)
        await asyncio.sleep(max(wait_s, FED_EVERY_S))


async def resume_parked(
    store: WorkerStore,
    models: PermitSource,
    bulkhead: Bulkhead,
    free_slots: Callable[[], int],
    every_s: float = RECOVER_EVERY_S,
) -> None:
    """Enqueue parked refinements as their models have permits for them, until cancelled.

    It takes no more than this worker has free slots for, and of one model no more than it has room
    for.
    """
    while True:
        try:
            free = free_slots()
            found = await store.parked(free) if free > 0 else {}
            bulkhead.parked(found)
            for model, parked in found.items():
                most = min(parked, free, bulkhead.room(model))
                permits = await models.permits(model, most) if most else 0
                resumed = await store.resume_parked(model, permits) if permits else 0
                bulkhead.resumed(model, resumed)
                free -= resumed
        except RedisError as error:
            log.warning("Redis is unavailable: %s", error)
        await asyncio.sleep(every_s)


async def heed_commands(store: WorkerStore, refinements: Refinements) -> None:
    """Apply commands to held refinements as they arrive, until cancelled."""
    async for refinement_id in store.commands():
        try:
            await refinements.look(refinement_id)
        except RedisError as error:
            log.warning("%s: cannot read a command from Redis: %s", refinement_id, error)


async def heed_watchers(store: WorkerStore, texts: TextPublisher) -> None:
    """Learn whose texts are watched, until cancelled."""
    async for ids in store.watched():
        texts.watched(ids)


async def keep_running(run: Callable[[], Awaitable[None]]) -> None:
    """Run a background task for ever: start it again when it fails, whatever the error is."""
    while True:
        try:
            await run()
        except Exception:
            log.exception("a background task failed and is started again")
        await asyncio.sleep(RESTART_AFTER_S)


async def _start(
    open_server_resources: OpenResources,
    open_models: OpenModels,
    settings: Settings,
    name: str,
    run: Callable[..., Awaitable[None]],
) -> None:
    """Connect and run; retry for `CONNECT_TIMEOUT_S` seconds while Redis is unreachable.

    `run` takes the settings of the cell that is served.
    """
    cell = settings.in_cell(settings.cell or 0)
    give_up = asyncio.get_running_loop().time() + CONNECT_TIMEOUT_S
    with open_traces("worker") as traces:
        while True:
            try:
                async with (
                    open_server_resources(cell) as resources,
                    open_worker_store(cell, RefinementQueue(settings.queue), name) as store,
                    open_models(settings) as unmetered,
                    open_day_quotas(settings, unmetered, name) as models,
                    open_endpoint_limiter(settings, models) as limiter,
                ):
                    await run(cell, store, models, resources, limiter, name, traces=traces)
                    return
            except (RedisUnreachable, RedisTimedOut) as error:
                if asyncio.get_running_loop().time() > give_up:
                    raise
                log.warning("waiting for %s: %s", place_of(cell.redis_url), error)
            await asyncio.sleep(RETRY_EVERY_S)


USAGE = "usage: python -m workers [prompts FILE | call MODEL ...]"


def run_command(args: Sequence[str]) -> int:
    """Run a worker, or show the prompts of a request; return the exit status."""
    match args:
        case []:
            return main()
        case ["prompts", path]:
            return show_prompts(Path(path), sys.stdout)
        case ["call", *names]:
            uvloop.run(call_models(names, sys.stdout))
            return 0
        case _:
            sys.stderr.write(f"{USAGE}\n")
            return 2


def show_prompts(path: Path, out: IO[str]) -> int:
    """Write the prompts of the request in a file, without running it; return the exit status.

    These are the first one of its strategy, and those by which a draft is judged and revised.
    """
    try:
        said = path.read_bytes().removeprefix(BYTE_ORDER_MARK.encode())
        request = RefinementRequest.model_validate_json(said)
    except OSError as error:
        sys.stderr.write(f"{path}: {error.strerror}\n")
        return 1
    except ValidationError as error:
        for flaw in error.errors(include_url=False, include_input=False):
            place = "".join(f"/{part}" for part in flaw["loc"]) or "the request"
            is_json = flaw["type"] != "json_invalid"
            wrong = sentence_of(flaw, RefinementRequest) if is_json else flaw["msg"]
            sys.stderr.write(f"{path}: {place}: {wrong}\n")
        return 1
    for prompt in sample_prompts(request, new_prompt_nonce()):
        kind = "the model's" if prompt.temperature is None else f"{prompt.temperature:g}"
        out.write(f"=== {prompt.name}, version {prompt.version}, temperature: {kind}\n")
        out.write(f"--- system\n{prompt.system}\n--- user\n{prompt.user}\n")
        if prompt.schema is not None:
            out.write(f"--- JSON Schema of the reply\n{json.dumps(prompt.schema, indent=1)}\n")
        out.write("\n")
    return 0


SAMPLE = RefinementRequest(draft="Snow fell all night.", task="Say in a sentence how it snowed.")
SAMPLE_TOKENS = 1_000


async def call_models(names: Sequence[str], out: IO[str]) -> None:
    """Let each model judge one sentence, and write a line of JSON per model.

    `refusal` says why it gave no reply; it is null if it gave one. Nothing is queued or stored.
    """
    task = task_of(SAMPLE, new_prompt_nonce())
    asked = Judge(task, SAMPLE.draft or "")
    async with open_models(Settings()) as models:
        for name in names:
            call = ModelCall(name, asked.prompt(), asked, "call", max_output_tokens=SAMPLE_TOKENS)
            began, refusal = time.monotonic(), None
            try:
                await models.complete(name, call)
            except ReplyCutOff:
                pass
            except (ModelError, ModelWaits) as error:
                refusal = error.detail
            seconds = time.monotonic() - began
            line = {"model": name, "seconds": round(seconds, 3), "refusal": refusal}
            out.write(f"{json.dumps(line)}\n")


if __name__ == "__main__":
    sys.exit(run_command(sys.argv[1:]))
