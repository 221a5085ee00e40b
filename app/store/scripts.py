"""The Lua scripts, run alone or in batches.

Each script is one file, preceded by the prelude and tables generated from Python.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import NoScriptError, ResponseError

from app.contract.events import EventType
from app.contract.limits import Stop
from app.contract.status import MOVES, TERMINAL, Status
from app.contract.webhooks import WEBHOOK_EVENTS
from app.store import keys
from app.store.connection import answered_within

DIRECTORY = Path(__file__).parent / "lua"

NEWS_MS = 3_600_000  # how long a command waits for a worker that does not come back
ERASED_MS = 600_000  # longer than a submission can be under way
DAY_MS = 86_400_000
DEADLINE_MS = 30 * 24 * 3_600_000  # how far a deadline may be away
KEPT_MS = 90 * DAY_MS  # how long sums are kept that nothing is added to
MOST_SUMS = 1_000  # fields of one hash of sums; others are not added
FEWEST_KNOWN = 10  # refinements of a kind from which on its own sums are taken
MOST_RATINGS = 200  # of one refinement
MOST_PUBLISHED = 16_000  # bytes of entries in one message to watchers
MOST_ENDPOINTS = 1_000  # registered by one tenant
MOST_LISTED = 1_000  # hashes in one list; the one that was not added to for longest goes
MAX_WAIT_S = Stop().max_wait_seconds  # of limits that were stored before there was such a limit
UNLIMITED = 2**53
"""The `lease` of a refinement whose worker has its own lease: release 0.1.0 leaves it alone."""

END = {
    Status.SUCCEEDED: EventType.COMPLETED,
    Status.FAILED: EventType.FAILED,
    Status.CANCELED: EventType.CANCELED,
}


@dataclass(frozen=True, slots=True)
class LuaScript:
    """One script and the SHA-1 by which Redis identifies it."""

    name: str
    text: str
    sha: str


def _lua(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"['{key}'] = {_lua(of)}" for key, of in value.items()) + "}"
    return "true" if value is True else f"'{value}'"


def _tables() -> Iterable[str]:
    moves = {start: dict.fromkeys(sorted(ends), True) for start, ends in MOVES.items()}
    yield from (f"local {name} = {_lua(key)}" for name, key in keys.LUA.items())
    yield f"local MOVES = {_lua(moves)}"
    yield f"local TERMINAL = {_lua(dict.fromkeys(sorted(TERMINAL), True))}"
    yield f"local END = {_lua(END)}"
    yield f"local NEWS_MS, ERASED_MS, UNLIMITED = {NEWS_MS}, {ERASED_MS}, '{UNLIMITED}'"
    yield f"local DAY_MS = {DAY_MS}"
    yield f"local KEPT_MS, MOST_SUMS, MOST_LISTED = {KEPT_MS}, {MOST_SUMS}, {MOST_LISTED}"
    yield f"local FEWEST_KNOWN, MOST_RATINGS = {FEWEST_KNOWN}, {MOST_RATINGS}"
    yield f"local MOST_PUBLISHED = {MOST_PUBLISHED}"
    yield f"local MAX_WAIT_S, DEADLINE_MS = {MAX_WAIT_S:g}, {DEADLINE_MS}"
    yield f"local MOST_ENDPOINTS = {MOST_ENDPOINTS}"
    yield f"local TOLD = {_lua(dict.fromkeys(WEBHOOK_EVENTS, True))}"
    yield f"local ENDS = {_lua(dict.fromkeys(END.values(), True))}"


_HEAD = "\n".join([*_tables(), (DIRECTORY / "prelude.lua").read_text()])


def _load(name: str) -> LuaScript:
    text = _HEAD + (DIRECTORY / f"{name}.lua").read_text()
    return LuaScript(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


SCRIPTS = {
    path.stem: _load(path.stem)
    for path in sorted(DIRECTORY.glob("*.lua"))
    if path.stem != "prelude"
}

ANNOUNCE = SCRIPTS["announce"]
APPEND = SCRIPTS["append"]
BLAME = SCRIPTS["blame"]
CANCEL = SCRIPTS["cancel"]
CHANGE = SCRIPTS["change"]
CLAIM = SCRIPTS["claim"]
CREATE = SCRIPTS["create"]
DELIVERIES = SCRIPTS["deliveries"]
DROP = SCRIPTS["drop"]
ENDPOINT_CHANGE = SCRIPTS["endpoint_change"]
ENDPOINT_GATE = SCRIPTS["endpoint_gate"]
ENDPOINT_OUTCOME = SCRIPTS["endpoint_outcome"]
ENQUEUE = SCRIPTS["enqueue"]
ERASE = SCRIPTS["erase"]
EVENTS = SCRIPTS["events"]
FINISH = SCRIPTS["finish"]
HAND_BACK = SCRIPTS["hand_back"]
LEAVE = SCRIPTS["leave"]
LOAD = SCRIPTS["load"]
LOOK = SCRIPTS["look"]
PERMITS = SCRIPTS["permits"]
OPEN_WATCH = SCRIPTS["open_watch"]
PARKED = SCRIPTS["parked"]
PUT_BACK = SCRIPTS["put_back"]
PUT_KEYS = SCRIPTS["put_keys"]
RATE = SCRIPTS["rate"]
REDELIVER = SCRIPTS["redeliver"]
RENEW = SCRIPTS["renew"]
RETRY = SCRIPTS["retry"]
REVIEW = SCRIPTS["review"]
SETTLE_WEBHOOK = SCRIPTS["settle_webhook"]
SNAPSHOT = SCRIPTS["snapshot"]
SPEND = SCRIPTS["spend"]
TAKE_DUE = SCRIPTS["take_due"]
TAKE_PARKED = SCRIPTS["take_parked"]
TAKE_WEBHOOKS = SCRIPTS["take_webhooks"]
UNPLAYABLE = SCRIPTS["unplayable"]
WORKERS = SCRIPTS["workers"]


async def run(client: Redis, script: LuaScript, *args: str | bytes | int) -> Any:
    """Return the answer of a script; send its text if Redis does not have it."""
    try:
        return await client.evalsha(script.sha, 0, *args)
    except NoScriptError:
        return await client.eval(script.text, 0, *args)


# Maximum requests in one pipeline. Those of a large batch all wait for the last of them: with 500
# refinements in progress and batches of 512, every step waited 70 ms longer than with 64.
BATCH = 64
WAIT_MS = 500
PROBE_MS = 1_000


@dataclass(frozen=True, slots=True)
class _Request:
    command: tuple[str | bytes | int | float, ...]
    script: LuaScript | None  # to send whole if Redis does not have it
    answer: asyncio.Future[Any]

    def with_text(self) -> Self:
        """Return the request with the text of its script, which Redis then keeps."""
        assert self.script is not None
        return replace(self, command=("EVAL", self.script.text, *self.command[2:]))


class Committer:
    """Runs commands for the whole process; every caller gets its own answer or its own error.

    Group commit: the requests of many coroutines in one iteration of the event loop share one
    pipeline. While a pipeline is in progress the next one collects requests, so each write costs
    less when the worker is busier. Requests reach Redis in the order of submission.

    Redis has `timeout_s` seconds to answer a pipeline (None: as long as the client allows), however
    long requests had to wait for their turn. If it does not, those that wait fail as well, with
    TimeoutError: they would only find out one after the other.

    With `replicas`, a request is answered once so many replicas have what it wrote, or fails with a
    NOREPLICAS error: it has been written, but a failover may lose it.
    """

    def __init__(self, client: Redis, timeout_s: float | None = None, *, replicas: int = 0) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._replicas = replicas
        self._waiting: deque[_Request] = deque()
        self._sender: asyncio.Task[None] | None = None

    async def run(self, script: LuaScript, *args: str | bytes | int) -> object:
        """Return the script's answer, or raise the error of Redis or of the connection.

        After a connection error or a cancellation the script may or may not have run.
        """
        return await self.submit(script, *args)

    def submit(self, script: LuaScript, *args: str | bytes | int | float) -> asyncio.Future[Any]:
        """Return a future of the same answer: the place in the order is taken at once."""
        return self._request(("EVALSHA", script.sha, 0, *args), script)

    def execute(self, *command: str | bytes | int | float) -> asyncio.Future[Any]:
        """Return a future of the answer to one command, as redis-py decodes it."""
        return self._request(command, None)

    async def aclose(self) -> None:
        """Return when all requests have been answered."""
        while self._sender is not None:
            await asyncio.wait([self._sender])

    def _request(
        self, command: tuple[str | bytes | int | float, ...], script: LuaScript | None
    ) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        request = _Request(command, script, loop.create_future())
        self._waiting.append(request)
        if self._sender is None:
            # A task starts in the next iteration of the loop, so that it sends all requests of this
            # one.
            self._sender = loop.create_task(self._send_all())
        return request.answer

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                size = min(len(self._waiting), BATCH)
                await self._send([self._waiting.popleft() for _ in range(size)])
        finally:
            self._sender = None

    async def _send(self, batch: list[_Request]) -> None:
        answers: list[object]
        try:
            async with answered_within(self._timeout_s):
                answers = await self._answers(batch)
        except TimeoutError as error:
            batch += self._waiting
            self._waiting.clear()
            answers = [error] * len(batch)
        except Exception as error:  # noqa: BLE001 - the callers receive it
            answers = [error] * len(batch)
        for request, answer in zip(batch, answers, strict=True):
            if request.answer.done():  # its caller was cancelled
                continue
            if isinstance(answer, Exception):
                request.answer.set_exception(answer)
            else:
                request.answer.set_result(answer)

    async def _answers(self, batch: list[_Request]) -> list[object]:
        answers = await self._sent(batch)
        lost = [n for n, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if lost:
            again = [batch[n] for n in lost]
            first = {request.script: n for n, request in reversed([*enumerate(again)])}
            for n in first.values():  # the later ones of each script find it then
                again[n] = again[n].with_text()
            for n, answer in zip(lost, await self._sent(again), strict=True):
                answers[n] = answer
        return answers

    async def _sent(self, batch: list[_Request]) -> list[object]:
        async with self._client.pipeline(transaction=False) as pipeline:
            for request in batch:
                pipeline.execute_command(*request.command)
            if self._replicas:
                self._await_replicas(pipeline)
            answers: list[object] = await pipeline.execute(raise_on_error=False)
        return self._replicated(answers) if self._replicas else answers

    def _await_replicas(self, pipeline: Pipeline) -> None:
        # WAIT waits for the last write of its connection: give it one, behind all earlier writes of
        # others, because a repeated request writes nothing.
        pipeline.set(keys.PROBE, 1, px=PROBE_MS)
        pipeline.wait(self._replicas, WAIT_MS)

    def _replicated(self, answers: list[object]) -> list[object]:
        *answers, _, reached = answers
        if isinstance(reached, int) and reached >= self._replicas:
            return answers
        error = ResponseError(f"NOREPLICAS {reached} of {self._replicas} replicas have the write")
        return [answer if isinstance(answer, Exception) else error for answer in answers]
