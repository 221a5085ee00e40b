"""The Lua scripts: each is one file, with the prelude and the tables of Python in front."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from app.contract.events import EventType
from app.contract.status import MOVES, Status
from app.store import keys

DIRECTORY = Path(__file__).parent / "lua"

END = {
    Status.SUCCEEDED: EventType.COMPLETED,
    Status.FAILED: EventType.FAILED,
    Status.CANCELED: EventType.CANCELED,
}


@dataclass(frozen=True, slots=True)
class LuaScript:
    """One script and the SHA-1 by which Redis knows it."""

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
    yield f"local END = {_lua(END)}"
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

APPEND = SCRIPTS["append"]
CANCEL = SCRIPTS["cancel"]
CHANGE = SCRIPTS["change"]
CLAIM = SCRIPTS["claim"]
CREATE = SCRIPTS["create"]
ERASE = SCRIPTS["erase"]
EVENTS = SCRIPTS["events"]
FINISH = SCRIPTS["finish"]
HAND_BACK = SCRIPTS["hand_back"]
LOAD = SCRIPTS["load"]
LOOK = SCRIPTS["look"]
POSTED = SCRIPTS["posted"]
RENEW = SCRIPTS["renew"]
REVIEW = SCRIPTS["review"]
SNAPSHOT = SCRIPTS["snapshot"]
TAKE_DUE = SCRIPTS["take_due"]
WORKERS = SCRIPTS["workers"]


async def run(client: Redis, script: LuaScript, *args: str | bytes | int) -> Any:
    """Return the answer of a script, giving Redis its text when it does not have it."""
    try:
        return await client.evalsha(script.sha, 0, *args)
    except NoScriptError:
        return await client.eval(script.text, 0, *args)
