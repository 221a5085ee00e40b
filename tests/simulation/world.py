"""A run: workers, an API and its clients over one store, and the faults that a seed chooses."""

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import RedisError

from app.contract.errors import Conflict, Overloaded, RefinementNotFound, Unavailable
from app.contract.events import Queued
from app.contract.limits import LimitsChange
from app.contract.models import ModelChoice
from app.contract.requests import RefinementRequest
from app.contract.reviews import ReviewDecision
from app.contract.status import TERMINAL
from app.store import RENEWALS_PER_LEASE, Store, WorkerStore
from app.store.creation import Clock, Creation, Enqueuer
from app.store.redis import keys
from app.store.redis.committer import Committer
from app.store.redis.connection import api_client, listening_client, renewal_client, worker_client
from app.store.redis.keys import Word
from app.store.redis.scripts import JOB_NUMBER, JOB_OF
from app.store.state import NewRefinement
from app.store.worker import JobSource, renew
from tests.simulation.event_loop import SimulatedLoop, SimulatedProcess
from tests.simulation.network import RealRedis, ScriptEdit, SimulatedNetwork, SimulatedServer, Trace
from tests.workers.judging_cases import EVERY
from tests.workers.refinement_harness import TENANT, TEST_MODEL, ScriptedAnswers
from tests.workers.replay_cases import ReplayCase
from workers.__main__ import (
    count_and_pack,
    drop_strays,
    heed_commands,
    keep_running,
    resume_parked,
)
from workers.models.port import ModelCall, ModelReply, ModelWaits
from workers.play.limits import Bulkhead
from workers.play.refinements import TURN_EVERY_S, Lease, Refinements

URL = "redis://simulated"
QUEUE = "simulated:queue"
LEASE_S = 5.0
LEASE_MS = 5_000
STALL_S = 15.0
USAGE_DAYS = 3
RETENTION_MS = 3_600_000
TIMEOUT_S = 3.0
ENDS_WITHIN_S = 120.0  # after the last fault
LOOKS_EVERY_S = 5.0  # how long a worker waits for a job that it was not told of
RECOVERS_EVERY_S = 2.0
PACK_AFTER_MS = 500
ANSWERED_S = 0.05  # a worker that is not stalled has acted upon an answer after that
LINGERS_S = 1.0  # how long workers go on after everything has ended

# In another process validators compute for long, and the arguments of tools are checked.
NEEDS_OTHER_PROCESSES = {"self_correction", "SQL", "a function"}
KINDS = [
    name
    for name, case in EVERY.items()
    if name not in NEEDS_OTHER_PROCESSES and "tools" not in case.request
]


APPROVED = {"action": "approve"}


class JobList:
    """A queue that is a list of job ids and nothing else."""

    key = QUEUE

    def commands(
        self, _refinement_id: str, job_id: str, *, is_first: bool = False
    ) -> Sequence[Sequence[Word]]:
        """Return the command that enqueues a job."""
        return [("LPUSH" if is_first else "RPUSH", QUEUE, job_id)]


TEMPLATE = json.dumps(JobList().commands(JOB_OF, f"{JOB_OF}-{JOB_NUMBER}"))


@dataclass(frozen=True)
class OneId:
    """Gives a refinement the id that the simulation knows it by."""

    id: str

    def generate(self) -> str:
        """Return the id, without the prefix that all have."""
        return self.id.removeprefix("ref_")


class NumberedCreation(Creation):
    """Creates one refinement, however often it is asked."""

    def __init__(
        self, submission: "SimulatedSubmission", committer: Committer, clock: Clock
    ) -> None:
        super().__init__(
            JobList(), committer, clock, queue_max=9, lease_ms=LEASE_MS, retention_ms=RETENTION_MS
        )
        ids: Any = OneId(submission.id)
        self._ids = ids


@dataclass(frozen=True)
class Parts:
    """The parts of the product that run; a mutant replaces some."""

    committer: Callable[[AsyncRedis], Committer] = Committer
    store: Callable[..., WorkerStore] = WorkerStore
    refinements: Callable[..., Refinements] = Refinements
    source: Callable[..., JobSource] = JobSource
    edit: ScriptEdit = str


@dataclass
class SimulatedSubmission:
    """What a client wants of one refinement, and what it was answered."""

    id: str
    kind: str
    case: ReplayCase
    command: str = ""
    accepted: bool = False  # the command was answered
    refused: bool = False  # it came too late
    is_created: bool = False
    answers: ScriptedAnswers = field(init=False)
    prompts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.answers = self.case.models()


@dataclass(frozen=True)
class CallStart:
    """A model call as it began: what the journal held, and whose claim was in force."""

    worker: str
    refinement_id: str
    token: int
    key: str
    last_event: int
    is_current: bool


class SimulatedWorker:
    """A worker process and what it runs; a restarted one is another worker."""

    def __init__(self, name: str, concurrency: int) -> None:
        self.name = name
        self.concurrency = concurrency
        self.process = SimulatedProcess(name)
        self.thread = SimulatedProcess(f"{name}'s lease")  # ends with the process
        self.turned_at = self.continued_at = 0.0
        self.store: Any = None
        self.context: Context | None = None
        self.refinements: Any = None
        self.tasks: set[asyncio.Task[None]] = set()
        self.bell = asyncio.Event()
        self.is_leaving = False
        self.is_idle = False

    def free_slots(self) -> int:
        """Return how many more refinements it can take."""
        return 0 if self.is_leaving else max(0, self.concurrency - len(self.tasks))


@dataclass
class Announcing:
    """The event loop of a worker as its thread sees it."""

    loop: SimulatedLoop
    worker: SimulatedWorker

    def call_soon_threadsafe(self, callback: Callable[..., None], *args: Any) -> None:
        """Call something on the loop of the worker."""
        self.loop.call_soon(callback, *args, context=self.worker.context)


def _not_opened() -> Any:
    raise NotImplementedError


def _not_ended() -> None:
    raise AssertionError("only the thread of a lease ends a process")


@dataclass
class WatchedModels:
    """Models that answer after a while; every call is recorded."""

    world: "SimulatedWorld"
    worker: SimulatedWorker

    async def complete(self, name: str, call: ModelCall) -> ModelReply:
        """Return the scripted answer."""
        refinement_id, _, key = call.key.partition("/")
        submission = self.world.submissions[refinement_id]
        if (wait_s := self.world.models_are_away_s()) > 0:
            raise ModelWaits(name, "unreachable", wait_s, "the server is away", is_open=True)
        self.world.call_starts(self.worker, submission, key.partition(";")[0], call)
        try:
            await asyncio.sleep(self.world.duration())
            return await submission.answers.complete(name, call)
        finally:
            self.world.call_ends(submission)

    async def permits(self, _name: str, most: int) -> int:
        """Return as many as are asked for, unless the models are away."""
        return 0 if self.world.models_are_away_s() > 0 else most


UNDISTURBING = {"duplicates", "lost_jobs"}
"""Faults that neither end nor delay what a worker does."""


class SimulatedWorld:
    """One simulated run. `kinds` are the refinements to submit, `faults` what happens to them."""

    def __init__(
        self, seed: int, redis: RealRedis, parts: Parts, kinds: list[str], faults: set[str]
    ) -> None:
        self.chance = Random(f"world {seed}")
        self.loop = SimulatedLoop(Random(f"order {seed}"))  # type: ignore[abstract]
        self.trace = Trace(self.loop)
        self.server = SimulatedServer(redis, self.loop, self.trace, parts.edit)
        self.network = SimulatedNetwork(
            self.loop, self.server, Random(f"network {seed}"), self.trace
        )
        self.faults = faults
        self.submissions = {
            _id(n): SimulatedSubmission(_id(n), kind, EVERY[kind]) for n, kind in enumerate(kinds)
        }
        self.workers: list[SimulatedWorker] = []
        self.calls: list[CallStart] = []
        self.broken: list[str] = []
        self.kills = 0
        self.away_until = 0.0
        self.disturbances = 0
        self._redis = redis
        self._parts = parts
        self._clients: list[AsyncRedis] = []
        self._committers: list[Committer] = []
        self._started = 0
        self._is_healing = False
        self.loop.connect = self.network.connect
        self.server.on_job = self._ring

    # Processes.

    def start_worker(self) -> None:
        """Start a worker as a new process."""
        self._started += 1
        worker = SimulatedWorker(f"worker-{self._started}", self.chance.choice((1, 2, 9)))
        self.workers.append(worker)
        worker.context = self.loop.start(worker.process, self._watched(self._work(worker)))

    async def _watched(self, running: Awaitable[None]) -> None:
        try:
            await running
        except Exception as error:  # noqa: BLE001 - the run reports it
            self._break(f"a process ended with {error!r}")

    async def _work(self, worker: SimulatedWorker) -> None:
        client = self._open(worker_client(URL))
        listener = self._open(listening_client(URL))
        committer = self._parts.committer(client)
        self._committers.append(committer)
        store = self._parts.store(
            client,
            committer,
            listener,
            Enqueuer(JobList(), committer, LEASE_MS),
            name=worker.name,
            lease_ms=LEASE_MS,
            usage_days=USAGE_DAYS,
            pack_after_ms=PACK_AFTER_MS,
        )
        worker.store = store
        models = WatchedModels(self, worker)
        worker.refinements = self._parts.refinements(store, models, worker.name)
        lease = Lease(_not_opened, LEASE_S, STALL_S, worker.refinements.look, _not_ended)
        self.loop.start(worker.thread, self._watched(self._keep(worker, lease)))
        resume = partial(
            resume_parked, store, models, Bulkhead(9, 9), worker.free_slots, RECOVERS_EVERY_S
        )
        await asyncio.gather(
            *([keep_running(resume)] if "away" in self.faults else ()),
            self._turn(worker),
            keep_running(partial(recover, store, lambda: worker.is_idle)),
            keep_running(partial(count_and_pack, store)),
            keep_running(partial(drop_strays, store, worker.refinements.refining)),
            keep_running(partial(heed_commands, store, worker.refinements)),
            self._take_jobs(worker, self._open(renewal_client(URL, TIMEOUT_S))),
        )

    async def _turn(self, worker: SimulatedWorker) -> None:
        while True:
            worker.turned_at = self.loop.time()
            await asyncio.sleep(TURN_EVERY_S)

    async def _keep(self, worker: SimulatedWorker, lease: Lease) -> None:
        """Renew the lease as the thread of a worker does, which goes on while its loop is busy."""
        client = self._open(renewal_client(URL, LEASE_S / 2))
        announcing: Any = Announcing(self.loop, worker)
        while worker.process.is_alive:
            if self.loop.time() - worker.turned_at <= STALL_S:
                await lease._renewed(partial(renew, client, worker.name, LEASE_MS), announcing)
            await asyncio.sleep(LEASE_S / RENEWALS_PER_LEASE)

    async def _take_jobs(self, worker: SimulatedWorker, client: AsyncRedis) -> None:
        queues = (QUEUE, f"{QUEUE}:intermediate")
        source = self._parts.source(worker.name, queues, "simulated:job:", LEASE_MS)
        while not worker.is_leaving:
            worker.bell.clear()
            if not (free := worker.free_slots()):
                await worker.bell.wait()
                continue
            try:
                taken = await source.dequeue(client, TEMPLATE, free, 9, ())
            except (RedisError, OSError):
                worker.is_idle = False
                await asyncio.sleep(0.3)
                continue
            worker.is_idle = len(taken.jobs) < free
            for job_id, _ in taken.jobs:
                self._start(worker, job_id.decode())
            if not taken.jobs:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOKS_EVERY_S):
                        await worker.bell.wait()

    def _start(self, worker: SimulatedWorker, job_id: str) -> None:
        def end(task: asyncio.Task[None]) -> None:
            worker.tasks.discard(task)
            worker.bell.set()

        task = asyncio.get_running_loop().create_task(self._perform(worker, job_id))
        worker.tasks.add(task)
        task.add_done_callback(end)

    async def _perform(self, worker: SimulatedWorker, job_id: str) -> None:
        try:
            await worker.refinements.refine(job_id, job_id.rpartition("-")[0])
        except (RedisError, OSError) as error:
            self.trace.add(worker.name, "job", job_id, "failed:", error)
        except Exception as error:  # noqa: BLE001 - the run reports it
            self._break(f"{worker.name}: job {job_id} raised {error!r}")

    def _break(self, what: str) -> None:
        if not self.loop.is_closed():  # else a coroutine is being thrown away
            self.broken.append(what)

    async def _leave(self, worker: SimulatedWorker) -> None:
        worker.is_leaving = True
        worker.refinements.leave()
        if worker.tasks:
            await asyncio.wait(worker.tasks, timeout=1.0)
        for task in worker.tasks:
            task.cancel()
        if worker.tasks:
            await asyncio.wait(worker.tasks, timeout=1.0)
        with suppress(Exception):
            await worker.store.leave()
        worker.process.dies_after = 1

    def _ring(self) -> None:
        for worker in self.workers:
            if worker.process.is_alive and worker.context is not None:
                self.loop.call_soon(worker.bell.set, context=worker.context)

    def _open(self, client: AsyncRedis) -> AsyncRedis:
        # Else redis-py reads its own version from the installed files for every connection.
        client.connection_pool.connection_kwargs["driver_info"] = None
        self._clients.append(client)
        return client

    # The API and its clients.

    async def _serve(self) -> None:
        committer = Committer(self._open(api_client(URL)), TIMEOUT_S)
        self._committers.append(committer)
        await asyncio.gather(*(self._use(committer, it) for it in self.submissions.values()))

    async def _use(self, committer: Committer, submission: SimulatedSubmission) -> None:
        creation = NumberedCreation(submission, committer, self.loop.time)
        enqueuer = Enqueuer(JobList(), committer, LEASE_MS)
        store = Store(committer, creation, enqueuer, LEASE_MS)
        await asyncio.sleep(self.chance.uniform(0.0, 2.0))
        await _persistently(partial(store.create, new_refinement(submission), None))
        submission.is_created = True
        await asyncio.gather(self._review(store, submission), self._command(store, submission))

    async def _review(self, store: Store, submission: SimulatedSubmission) -> None:
        words = submission.case.words
        while words:
            await asyncio.sleep(0.5)
            with suppress(Conflict, Overloaded, Unavailable):
                try:
                    snapshot = await store.snapshot(TENANT, submission.id)
                    if snapshot.status in TERMINAL and "amnesia" not in self.faults:
                        return
                    if snapshot.review is not None:
                        key, number = snapshot.review.key, len(snapshot.review.approvals)
                        given = words.get(key, APPROVED)
                        word = given if isinstance(given, Mapping) else given[number]
                        said = ReviewDecision.model_validate({"path": key, **word})
                        await store.review(TENANT, submission.id, said, f"review-{key}-{number}")
                except RefinementNotFound:
                    return

    async def _command(self, store: Store, submission: SimulatedSubmission) -> None:
        if not submission.command:
            return
        await asyncio.sleep(self.chance.uniform(0.0, 5.0))
        limits = LimitsChange(max_iterations=self.chance.randint(1, 3), threshold=0.65)
        gives: dict[str, Callable[[], Awaitable[object]]] = {
            "cancel": partial(store.cancel, TENANT, submission.id),
            "finish": partial(store.finish, TENANT, submission.id, "finish"),
            "change": partial(store.change, TENANT, submission.id, limits, "change"),
            "erase": partial(store.erase, TENANT, submission.id),
        }
        try:
            await _persistently(gives[submission.command])
            submission.accepted = True
        except (Conflict, RefinementNotFound):
            submission.refused = True
        self.trace.add("client", submission.command, submission.id, submission.accepted)

    # Watching.

    def duration(self) -> float:
        """Return how long a model takes, in seconds."""
        return self.chance.uniform(4, 8) if self.chance.random() < 0.05 else self.chance.random()

    def models_are_away_s(self) -> float:
        """Return for how many seconds the models will take no calls."""
        return self.away_until - self.loop.time()

    def call_starts(
        self, worker: SimulatedWorker, submission: SimulatedSubmission, key: str, call: ModelCall
    ) -> None:
        """Record a model call."""
        _, stored = self._redis.ask(
            b"HMGET", (keys.SUMMARY + submission.id).encode(), b"token", b"last_event", b"status"
        )
        token, last_event, _status = stored
        held = worker.refinements.held.get(submission.id)
        mine = held.driver._journal.token if held else -1
        self.trace.add(worker.name, "calls", submission.id, key, "token", mine)
        self.calls.append(
            CallStart(
                worker.name,
                submission.id,
                mine,
                key,
                int(last_event or 0),
                token is not None and int(token) == mine,
            )
        )
        fenced = self.server.fenced.get((worker.name, submission.id.encode(), b"%d" % mine))
        if "amnesia" in self.faults:  # the same token is given twice
            fenced = None
        if fenced is not None and worker.continued_at < fenced < self.loop.time() - ANSWERED_S:
            self._break(f"{worker.name} called {key} of {submission.id} after it was fenced")
        asked = f"{call.prompt.system}\n{call.prompt.user}"
        if submission.prompts.setdefault(key, asked) != asked and not submission.command:
            self.broken.append(f"{submission.id}: {key} was asked in other words the second time")

    def call_ends(self, submission: SimulatedSubmission) -> None:
        """Notice a call that outlived a cancel while its worker kept its lease."""
        if submission.command != "cancel" or self.loop.is_closed() or self.faults - UNDISTURBING:
            return
        if self.field(submission.id, "status") == "canceled":
            self._break(f"{submission.id} was canceled while a call was under way")

    # The run.

    def run(self) -> None:
        """Run until every refinement has ended and is counted."""
        with quiet():
            self._redis.ask(b"FLUSHALL")
            try:
                self.loop.run(self._main())
            finally:
                self.server.refuse_writes(b"maxmemory", b"0")
                self.server.refuse_writes(b"min-replicas-to-write", b"0")
                self._close()

    async def _main(self) -> None:
        for _ in range(self.chance.randint(1, 3) if self.faults else 1):
            self.start_worker()
        self.loop.start(SimulatedProcess("api"), self._watched(self._serve()))
        ends = self.chance.uniform(2.0, 7.0)
        faults = [FAULTS[name](self, ends) for name in sorted(self.faults)]
        if faults:
            await asyncio.gather(*faults)
        self._heal()
        deadline = self.loop.time() + ENDS_WITHIN_S
        while not self._have_ended():
            if self.loop.time() > deadline:
                left = [
                    f"{it.id} ({it.command or 'no command'}, {self.field(it.id, 'status')})"
                    for it in self.submissions.values()
                    if not self._has_ended(it)
                ] or keys.TO_COUNT
                self.broken.append(f"{left} did not end {ENDS_WITHIN_S:g} s after the last fault")
                return
            await asyncio.sleep(0.5)
        await asyncio.sleep(LINGERS_S if self.faults else 0.0)

    def _heal(self) -> None:
        self.network.is_down = False
        self.server.refuse_writes(b"maxmemory", b"0")
        self.server.refuse_writes(b"min-replicas-to-write", b"0")
        while not any(it.process.is_alive and not it.is_leaving for it in self.workers):
            self.start_worker()

    def _have_ended(self) -> bool:
        _, uncounted = self._redis.ask(b"ZCARD", keys.TO_COUNT.encode())
        return not uncounted and all(self._has_ended(it) for it in self.submissions.values())

    def _has_ended(self, submission: SimulatedSubmission) -> bool:
        status = self.field(submission.id, "status")
        if submission.command and not (submission.accepted or submission.refused):
            return False
        if status is None:
            return submission.is_created
        return status in TERMINAL

    def field(self, refinement_id: str, name: str) -> str | None:
        """Read one field of a summary as it is in Redis."""
        _, value = self._redis.ask(b"HGET", (keys.SUMMARY + refinement_id).encode(), name.encode())
        return None if value is None else value.decode()

    def _close(self) -> None:
        for client in self._clients:
            pool: Any = client.connection_pool
            for connection in (*pool._available_connections, *pool._in_use_connections):
                connection._close()
        for committer in self._committers:
            opened: Any = committer._connection
            opened._close()  # it may be about to connect
            if committer._link is not None:
                committer._link.abort()


def _id(number: int) -> str:
    return f"ref_{number:026d}"


def new_refinement(
    submission: SimulatedSubmission, choice: ModelChoice = TEST_MODEL
) -> NewRefinement:
    """Return the refinement of a case."""
    asked = submission.case.request
    strategy = {"kind": submission.kind, **asked.get("strategy", {})}
    priority = "batch" if submission.id[-1] in "13" else "interactive"
    request = RefinementRequest.model_validate(
        {
            "task": "Explain refunds.",
            "stop": {"tolerance": 0},
            "priority": priority,
            **asked,
            "strategy": strategy,
        }
    )
    limits = request.limits()
    return NewRefinement(
        tenant=TENANT,
        request=request,
        body_sha256="0" * 64,
        models=dict.fromkeys(("generator", "critic", *request.critics.seats()), choice),
        limits=limits,
        queued=Queued(
            strategy=request.strategy.kind,
            models={"generator": choice.model, "critic": choice.model},
            limits=limits,
            request_sha256="0" * 64,
        ),
        prompt_nonce="482913",
    )


async def _persistently(do: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await do()
        except (Overloaded, Unavailable):
            await asyncio.sleep(1.0)
        else:
            return


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the logs, and seed what the product draws at random."""
    state, level = random.getstate(), logging.root.manager.disable
    random.seed(0)
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(level)
        random.setstate(state)


async def recover(store: WorkerStore, is_idle: Callable[[], bool]) -> None:
    """Recover as a worker does, less often: most looks find nothing, and each costs a command."""
    while True:
        with suppress(RedisError):
            await store.recover(include_queued=is_idle())
        await asyncio.sleep(RECOVERS_EVERY_S)


# Faults: each happens a few times before `until`.


async def _now_and_then(world: SimulatedWorld, until: float, happen: Callable[[], None]) -> None:
    for _ in range(world.chance.randint(1, 3)):
        left = until - world.loop.time()
        await asyncio.sleep(world.chance.uniform(0.0, max(0.0, left)))
        happen()


async def kill(world: SimulatedWorld, until: float) -> None:
    """Kill workers between two callbacks; each is started again a moment later."""

    def happen() -> None:
        if alive := [it for it in world.workers if it.process.is_alive]:
            _kill(world, world.chance.choice(alive))

    await _now_and_then(world, until, happen)


def _kill(world: SimulatedWorld, worker: SimulatedWorker) -> None:
    worker.process.dies_after = world.chance.randint(1, 60)
    world.kills += 1
    world.disturbances += 1
    world.trace.add(worker.name, f"(dies after {worker.process.dies_after} callbacks)")
    world.loop.call_later(world.chance.uniform(0.1, 3.0), world.start_worker)


async def kill_all(world: SimulatedWorld, until: float) -> None:
    """Kill all workers at once."""

    def happen() -> None:
        for worker in world.workers:
            if worker.process.is_alive:
                _kill(world, worker)

    await _now_and_then(world, until, happen)


async def stall(world: SimulatedWorld, until: float) -> None:
    """Stop a worker for longer than its lease, and let it continue."""

    def happen() -> None:
        alive = [it for it in world.workers if it.process.is_alive and not it.process.is_stalled]
        if alive:
            worker, seconds = world.chance.choice(alive), world.chance.uniform(0.5, 9.0)
            world.disturbances += 1
            world.trace.add(worker.name, f"(stalls for {seconds:.1f} s)")
            worker.continued_at = world.loop.time() + seconds
            world.loop.stall(worker.process, seconds)
            world.loop.stall(worker.thread, seconds)

    await _now_and_then(world, until, happen)


async def busy(world: SimulatedWorld, until: float) -> None:
    """Keep the event loop of a worker busy, for less than it may be."""

    def happen() -> None:
        alive = [it for it in world.workers if it.process.is_alive and not it.process.is_stalled]
        if alive:
            worker, seconds = world.chance.choice(alive), world.chance.uniform(0.5, 9.0)
            world.trace.add(worker.name, f"(is busy for {seconds:.1f} s)")
            worker.continued_at = world.loop.time() + seconds
            world.loop.stall(worker.process, seconds)

    await _now_and_then(world, until, happen)


async def leave(world: SimulatedWorld, until: float) -> None:
    """Let a worker shut down, and start another."""

    def happen() -> None:
        there = [it for it in world.workers if it.process.is_alive and not it.is_leaving]
        there = [it for it in there if it.refinements is not None]
        if there:
            worker = world.chance.choice(there)
            world.trace.add(worker.name, "(leaves)")
            world.loop.create_task(world._leave(worker), context=worker.context)
            world.start_worker()

    await _now_and_then(world, until, happen)


async def network(world: SimulatedWorld, until: float) -> None:
    """Disturb packets in several ways."""
    shares = {
        kind: world.chance.choice((0.0, 0.02, 0.1)) for kind in ("lost_request", "lost_answer")
    }
    world.network.faults = replace(world.network.faults, until=until, **shares)
    world.network.faults.part = world.chance.choice((0.0, 0.02, 0.1))


async def silence(world: SimulatedWorld, until: float) -> None:
    """Let answers never come, and packets come late."""
    share = world.chance.choice((0.005, 0.02, 0.05))
    world.disturbances += 1
    world.network.faults = replace(
        world.network.faults, until=until, silent=share, late_request=share, late_answer=share
    )


async def down(world: SimulatedWorld, until: float) -> None:
    """Stop Redis for a while: it refuses connections, and comes back without its scripts."""
    await asyncio.sleep(world.chance.uniform(0.0, until))
    world.network.is_down = True
    world.network.reset_all()
    world.server.forget_scripts()
    world.trace.add("redis", "(stops)")
    await asyncio.sleep(world.chance.uniform(0.1, 9.0))
    world.network.is_down = False
    world.trace.add("redis", "(starts)")


async def resets(world: SimulatedWorld, until: float) -> None:
    """Reset all connections at once."""

    def happen() -> None:
        world.trace.add("redis", "(all connections are reset)")
        world.network.reset_all()

    await _now_and_then(world, until, happen)


async def refuse(world: SimulatedWorld, until: float) -> None:
    """Let Redis refuse writes: its memory is full, or it has no replica."""
    settings = ((b"maxmemory", b"1"), (b"min-replicas-to-write", b"1"))
    setting, value = world.chance.choice(settings)
    await asyncio.sleep(world.chance.uniform(0.0, until))
    world.trace.add("redis", "(refuses writes)", setting)
    world.server.refuse_writes(setting, value)
    await asyncio.sleep(world.chance.uniform(0.1, 8.0))
    world.server.refuse_writes(setting, b"0")
    world.trace.add("redis", "(takes writes)")


async def away(world: SimulatedWorld, until: float) -> None:
    """Let the models take no calls for a while, a few times."""

    def happen() -> None:
        world.away_until = world.loop.time() + world.chance.uniform(0.5, 15.0)
        world.trace.add("models", "(take no calls)")

    await _now_and_then(world, until, happen)


async def clock(world: SimulatedWorld, until: float) -> None:
    """Let the clock of Redis jump."""

    def happen() -> None:
        world.server.skew_ms += world.chance.randint(-8_000, 8_000)
        world.disturbances += 1
        world.trace.add("redis", "(clock jumps)", world.server.skew_ms)

    await _now_and_then(world, until, happen)


async def duplicates(world: SimulatedWorld, until: float) -> None:
    """Deliver jobs again, late, and lose some."""

    def happen() -> None:
        submission = world.chance.choice([*world.submissions.values()])
        jobs = world.field(submission.id, "jobs")
        if jobs is not None:
            job_id = f"{submission.id}-{world.chance.randint(1, int(jobs))}"
            world.trace.add("redis", "(delivers again)", job_id)
            world.server.redis.ask(b"RPUSH", QUEUE.encode(), job_id.encode())
            world.server.on_job()

    await _now_and_then(world, until, happen)


async def lost_jobs(world: SimulatedWorld, until: float) -> None:
    """Lose everything that is in the queue, or also what waits to be admitted to it."""

    def happen() -> None:
        line = world.chance.choice(((), (keys.LINE + TENANT, keys.TURNS, keys.LOW_PRIORITY)))
        world.trace.add("redis", "(loses the queue)", *line)
        world.server.redis.ask(b"DEL", QUEUE.encode(), *(it.encode() for it in line))

    await _now_and_then(world, until, happen)


async def amnesia(world: SimulatedWorld, until: float) -> None:
    """Let Redis crash and lose what it has not written to its AOF."""
    await asyncio.sleep(world.chance.uniform(1.0, until))
    seconds = world.chance.uniform(0.0, 1.0)
    world.trace.add("redis", f"(restarts without its last {seconds:.2f} s)")
    world.server.forget_since(seconds)
    world.server.forget_scripts()
    world.network.reset_all()


Fault = Callable[[SimulatedWorld, float], Awaitable[None]]
FAULTS: dict[str, Fault] = {
    "amnesia": amnesia,
    "away": away,
    "busy": busy,
    "clock": clock,
    "down": down,
    "duplicates": duplicates,
    "kill": kill,
    "kill_all": kill_all,
    "leave": leave,
    "lost_jobs": lost_jobs,
    "network": network,
    "refuse": refuse,
    "resets": resets,
    "silence": silence,
    "stall": stall,
}
