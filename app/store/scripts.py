"""The Lua scripts.

Each script is one file, preceded by what it uses of the prelude and of the constants generated from
Python: Redis creates all of them anew at every call, which costs more than most scripts do.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from app.contract.batches import BATCH_COMPLETED
from app.contract.events import EventType
from app.contract.limits import Stop
from app.contract.status import MOVES, TERMINAL, Status
from app.contract.usage import OTHER, UNKNOWN_MODEL
from app.contract.webhooks import WEBHOOK_EVENTS
from app.store import keys

DIRECTORY = Path(__file__).parent / "lua"

NEWS_MS = 3_600_000  # how long a command waits for a worker that does not come back
UNSTORED_MS = 600_000  # how long text is kept at most that is not to be stored, after the end
ANY_BODY = "*"  # in place of the hash of a body that was erased
ERASED_MS = 600_000  # longer than a submission can be under way
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
DEADLINE_MS = 30 * 24 * 3_600_000  # how far a deadline may be away
KEPT_MS = 90 * DAY_MS  # how long sums are kept that nothing is added to
FULL = 0.8  # the share of maxmemory from which new refinements are rejected
MOST_SUMS = 1_000  # fields of one hash of sums; others are not added
FEWEST_KNOWN = 10  # refinements of a kind from which on its own sums are taken
MOST_RATINGS = 200  # of one refinement
MOST_PUBLISHED = 16_000  # bytes of entries in one message to watchers
MOST_ENDPOINTS = 1_000  # registered by one tenant
RECHECK_MS = 60_000  # after which it is checked that an id still stands in line
JOB_OF, JOB_NUMBER = "00REFINEMENT00", "00NUMBER00"  # stand for those of a job to be enqueued
LOW_PLACE = 10**13  # added to the place of a `batch`: more than any time in ms
MOST_USED = 1_000  # fields of the usage of a day; then keys and models go to `other`
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
    yield f"local UNSTORED_MS, ANY_BODY = {UNSTORED_MS}, '{ANY_BODY}'"
    yield f"local HOUR_MS, DAY_MS = {HOUR_MS}, {DAY_MS}"
    yield f"local BATCH_COMPLETED = {_lua(BATCH_COMPLETED)}"
    yield f"local KEPT_MS, MOST_SUMS, MOST_LISTED = {KEPT_MS}, {MOST_SUMS}, {MOST_LISTED}"
    yield f"local MOST_USED, UNKNOWN_MODEL, OTHER = {MOST_USED}, '{UNKNOWN_MODEL}', '{OTHER}'"
    yield f"local FEWEST_KNOWN, MOST_RATINGS = {FEWEST_KNOWN}, {MOST_RATINGS}"
    yield f"local MOST_PUBLISHED = {MOST_PUBLISHED}"
    yield f"local MAX_WAIT_S, DEADLINE_MS = {MAX_WAIT_S:g}, {DEADLINE_MS}"
    yield f"local FULL = {FULL}"
    yield f"local RECHECK_MS, LOW_PLACE = {RECHECK_MS}, {LOW_PLACE}"
    yield f"local JOB_OF, JOB_NUMBER = '{JOB_OF}', '{JOB_NUMBER}'"
    yield f"local MOST_ENDPOINTS = {MOST_ENDPOINTS}"
    yield f"local TOLD = {_lua(dict.fromkeys(WEBHOOK_EVENTS, True))}"
    yield f"local ENDS = {_lua(dict.fromkeys(END.values(), True))}"


COMMENT = re.compile(r"(?<![^\s])--.*")
NEXT_DEFINITION = re.compile(r"^(?=local )", re.MULTILINE)
DEFINED = re.compile(r"local (?:function )?(\w+(?:, \w+)*)")
WORD = re.compile(r"\w+")


def _definitions() -> Iterable[str]:
    """Yield what scripts may use, each after what it uses itself."""
    yield from (f"{line}\n" for line in _tables())
    prelude = COMMENT.sub("", (DIRECTORY / "prelude.lua").read_text())
    yield from NEXT_DEFINITION.split(prelude)[1:]


_DEFINITIONS = tuple(
    (frozenset(found[1].split(", ")), frozenset(WORD.findall(it)), it)
    for it in _definitions()
    if (found := DEFINED.match(it))
)


def _load(name: str) -> LuaScript:
    text = (DIRECTORY / f"{name}.lua").read_text()
    used = {*WORD.findall(COMMENT.sub("", text))}
    for names, words, definition in reversed(_DEFINITIONS):
        if names & used:
            used |= words
            text = definition + text
    return LuaScript(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


SCRIPTS = {
    path.stem: _load(path.stem)
    for path in sorted(DIRECTORY.glob("*.lua"))
    if path.stem != "prelude"
}

ANNOUNCE = SCRIPTS["announce"]
APPEND = SCRIPTS["append"]
BATCH_CANCEL = SCRIPTS["batch_cancel"]
BATCH_COMMIT = SCRIPTS["batch_commit"]
BATCH_ERASE = SCRIPTS["batch_erase"]
BATCH_LOOK = SCRIPTS["batch_look"]
BATCH_STAGE = SCRIPTS["batch_stage"]
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
ERASE_TEXT = SCRIPTS["erase_text"]
EVENTS = SCRIPTS["events"]
FINISH = SCRIPTS["finish"]
HAND_BACK = SCRIPTS["hand_back"]
LEAVE = SCRIPTS["leave"]
LOAD = SCRIPTS["load"]
LOOK = SCRIPTS["look"]
PERMITS = SCRIPTS["permits"]
OPEN_WATCH = SCRIPTS["open_watch"]
PAUSE = SCRIPTS["pause"]
PARKED = SCRIPTS["parked"]
PUT_BACK = SCRIPTS["put_back"]
PUT_KEYS = SCRIPTS["put_keys"]
RATE = SCRIPTS["rate"]
REDELIVER = SCRIPTS["redeliver"]
RENEW = SCRIPTS["renew"]
RETRY = SCRIPTS["retry"]
REWRITTEN = SCRIPTS["rewritten"]
REVIEW = SCRIPTS["review"]
SET_ASIDE = SCRIPTS["set_aside"]
SETTLE_WEBHOOK = SCRIPTS["settle_webhook"]
SNAPSHOT = SCRIPTS["snapshot"]
SPEND = SCRIPTS["spend"]
TAKE_BATCHES = SCRIPTS["take_batches"]
TAKE_DUE = SCRIPTS["take_due"]
TAKE_JOBS = SCRIPTS["take_jobs"]
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
