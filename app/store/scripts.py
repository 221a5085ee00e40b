"""The Lua scripts, run alone or in batches.

Each script is one file, preceded by the prelude and tables generated from Python.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from app.contract.events import EventType
from app.contract.status import MOVES, TERMINAL, Status
from app.store import keys

DIRECTORY = Path(__file__).parent / "lua"

NEWS_MS = 3_600_000  # how long a command waits for a worker that does not come back
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
    yield f"local NEWS_MS, UNLIMITED = {NEWS_MS}, '{UNLIMITED}'"
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
CANCEL = SCRIPTS["cancel"]
CHANGE = SCRIPTS["change"]
CLAIM = SCRIPTS["claim"]
CREATE = SCRIPTS["create"]
DROP = SCRIPTS["drop"]
ERASE = SCRIPTS["erase"]
EVENTS = SCRIPTS["events"]
FINISH = SCRIPTS["finish"]
HAND_BACK = SCRIPTS["hand_back"]
LEAVE = SCRIPTS["leave"]
LOAD = SCRIPTS["load"]
LOOK = SCRIPTS["look"]
POSTED = SCRIPTS["posted"]
PUT_BACK = SCRIPTS["put_back"]
RENEW = SCRIPTS["renew"]
REVIEW = SCRIPTS["review"]
SNAPSHOT = SCRIPTS["snapshot"]
TAKE_DUE = SCRIPTS["take_due"]
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


@dataclass(frozen=True, slots=True)
class _Request:
    script: LuaScript
    args: tuple[str | bytes | int, ...]
    answer: asyncio.Future[object]


class Committer:
    """Runs scripts for the whole process; every caller gets its own answer or its own error.

    Group commit: the requests of many coroutines in one iteration of the event loop share one
    pipeline. While a pipeline is in progress the next one collects requests, so each write costs
    less when the worker is busier. Requests reach Redis in the order of submission.
    """

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._waiting: deque[_Request] = deque()
        self._sender: asyncio.Task[None] | None = None

    async def run(self, script: LuaScript, *args: str | bytes | int) -> object:
        """Return the script's answer, or raise the error of Redis or of the connection.

        After a connection error or a cancellation the script may or may not have run.
        """
        loop = asyncio.get_running_loop()
        request = _Request(script, args, loop.create_future())
        self._waiting.append(request)
        if self._sender is None:
            # A task starts in the next iteration of the loop, so that it sends all requests of this
            # one.
            self._sender = loop.create_task(self._send_all())
        return await request.answer

    async def aclose(self) -> None:
        """Return when all requests have been answered."""
        while self._sender is not None:
            await asyncio.wait([self._sender])

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                size = min(len(self._waiting), BATCH)
                await self._send([self._waiting.popleft() for _ in range(size)])
        finally:
            self._sender = None

    async def _send(self, batch: list[_Request]) -> None:
        try:
            answers = await self._answers(batch)
            lost = [n for n, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
            if lost:
                again = [batch[n] for n in lost]
                await self._load({request.script for request in again})
                for n, answer in zip(lost, await self._answers(again), strict=True):
                    answers[n] = answer
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
        async with self._client.pipeline(transaction=False) as pipeline:
            for request in batch:
                pipeline.execute_command("EVALSHA", request.script.sha, 0, *request.args)
            answers: list[object] = await pipeline.execute(raise_on_error=False)
            return answers

    async def _load(self, scripts: set[LuaScript]) -> None:
        for script in scripts:
            await self._client.script_load(script.text)
