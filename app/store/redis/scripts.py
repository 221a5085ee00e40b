"""The Lua scripts.

Each script is one file. It is sent with only the functions from lua/shared and from Python that it
uses: Redis creates all functions anew at every call, which costs more than most scripts do.
"""

import hashlib
import re
from collections.abc import Collection, Iterable
from graphlib import TopologicalSorter
from pathlib import Path

from app.contract.batches import BATCH_COMPLETED
from app.contract.events import EventType
from app.contract.statistics import OTHER
from app.contract.status import MOVES, TERMINAL, Status, verdicts
from app.contract.values import value
from app.contract.webhooks import WEBHOOK_EVENTS
from app.store.redis import keys

DIRECTORY = Path(__file__).parents[1] / "lua"

NEWS_MS = 3_600_000  # how long a command waits for a worker that does not come back
UNSTORED_MS = 600_000  # how long text is kept at most that is not to be stored, after the end
ANY_BODY = "*"  # in place of the hash of a body that was erased
ERASED_MS = 600_000  # longer than a submission can be under way
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
DEADLINE_MS = 30 * 24 * 3_600_000  # how far a deadline may be away
KEPT_MS = 90 * DAY_MS  # how long sums are kept that nothing is added to, or up to a day less
FULL = 0.8  # the share of maxmemory from which new refinements are rejected
MOST_SUMS = 1_000  # fields of one hash of sums; others are not added, those of usage to `other`
MOST_RATINGS = 200  # maximum for one refinement
MOST_PUBLISHED = 16_000  # bytes of entries in one message to watchers
MOST_STEPS = 1_000_000  # more than a refinement can have
MOST_ENDPOINTS = 1_000  # registered by one tenant
RECHECK_MS = 60_000  # after which it is checked that an id still stands in line
JOB_OF, JOB_NUMBER = "00REFINEMENT00", "00NUMBER00"  # stand for those of a job to be enqueued
LOW_PLACE = 10**13  # added to the place of a `batch`: more than any time in ms
MOST_COUNTED = 10_000  # entries of a tenant that count actions
MOST_LISTED = 1_000  # hashes in one list; the one that was not added to for longest goes

END = {
    Status.SUCCEEDED: EventType.COMPLETED,
    Status.FAILED: EventType.FAILED,
    Status.CANCELED: EventType.CANCELED,
}


@value(slots=True)
class LuaScript:
    """One script and the SHA-1 by which Redis identifies it."""

    name: str
    text: str
    sha: str


CONSTANTS: dict[str, str | int | float] = {
    **keys.LUA,
    "BATCH_COMPLETED": BATCH_COMPLETED,
    "OTHER": OTHER,
    **{
        name: given
        for name, given in globals().items()
        if name.isupper() and isinstance(given, str | int | float)
    },
}
"""What scripts name: its value stands in their text, where a local variable costs every call."""


def _is_one_of(name: str, values: Iterable[str]) -> str:
    either = " or ".join(f"it == '{value}'" for value in sorted(values))
    return f"local function {name}(it) return {either} end\n"


def _tables() -> Iterable[str]:
    """Yield what the contract has in tables as functions, which cost less at every call."""
    moves = (f"{start}>{end}" for start, ends in MOVES.items() for end in ends)
    ends = " or ".join(f"status == '{status}' and '{kind}'" for status, kind in END.items())
    on = " or ".join(f"it == '{name} {at}' and '{does}'" for (name, at), does in verdicts().items())
    yield _is_one_of("is_move", moves)
    yield _is_one_of("is_terminal", TERMINAL)
    yield _is_one_of("is_end", END.values())
    yield _is_one_of("is_told", WEBHOOK_EVENTS)
    yield f"local function end_of(status) return {ends} end\n"
    yield f"local function verdict_on(it) return {on} end\n"


COMMENT = re.compile(r"(?<![^\s])--(?![{}]).*")
BLOCK = re.compile(r"--[{}]")
"""Around what runs seldom: what only such a block uses is defined in it, when it runs."""

NEXT_DEFINITION = re.compile(r"^(?=local )", re.MULTILINE)
DEFINED = re.compile(r"local (?:function )?(\w+)")
WORD = re.compile(r"\w+")
TEXT_OR_NAME = re.compile(r"'[^'\n]*'|\b[A-Z][A-Z_]+\b")


def _read(path: Path) -> str:
    """Return the text of a file without comments, and with the values of constants."""
    text = COMMENT.sub("", path.read_text())
    return TEXT_OR_NAME.sub(lambda found: _LITERALS.get(found[0], found[0]), text)


_LITERALS = {
    name: f"'{value!s}'" if isinstance(value, str) else f"{value:.15g}"
    for name, value in CONSTANTS.items()
}


def _definitions() -> Iterable[tuple[str, frozenset[str], str]]:
    """Yield what scripts may use, each after what it uses itself: name, words and text."""
    texts = [*_tables()]
    for path in sorted((DIRECTORY / "shared").glob("*.lua")):
        texts += NEXT_DEFINITION.split(_read(path))[1:]
    named = {found[1]: text for text in texts if (found := DEFINED.match(text))}
    words = {name: frozenset(WORD.findall(text)) for name, text in named.items()}
    uses = {name: sorted(words[name] & named.keys() - {name}) for name in named}
    for name in TopologicalSorter(uses).static_order():
        yield name, words[name], named[name]


_DEFINITIONS = tuple(_definitions())


def _with_definitions(text: str, has: Collection[str] = ()) -> tuple[str, set[str]]:
    """Return a text after what it uses of the definitions and has not, and the names of those."""
    used, names = {*WORD.findall(text)}, set[str]()
    for name, words, definition in reversed(_DEFINITIONS):
        if name in used and name not in has:
            used |= words
            names.add(name)
            text = definition + text
    return text, names


def _load(name: str) -> LuaScript:
    parts = BLOCK.split(_read(DIRECTORY / f"{name}.lua"))
    before, names = _with_definitions("\0".join(parts[::2]))
    for block in parts[1::2]:
        before = before.replace("\0", _with_definitions(block, names)[0], 1)
    return LuaScript(name, before, hashlib.sha1(before.encode(), usedforsecurity=False).hexdigest())


SCRIPTS = {path.stem: _load(path.stem) for path in sorted(DIRECTORY.glob("*.lua"))}

CALLED = re.compile(r"redis\.p?call\('([A-Z]+)'")
COMMANDS = frozenset(name for script in SCRIPTS.values() for name in CALLED.findall(script.text))
"""The commands of Redis that scripts run."""

APPEND = SCRIPTS["append"]
ARCHIVE = SCRIPTS["archive"]
BATCH = SCRIPTS["batch"]
BATCH_COMMIT = SCRIPTS["batch_commit"]
BATCH_STAGE = SCRIPTS["batch_stage"]
BLAME = SCRIPTS["blame"]
BRING_BACK = SCRIPTS["bring_back"]
CLAIM = SCRIPTS["claim"]
COMMAND = SCRIPTS["command"]
COUNT_ACTION = SCRIPTS["count_action"]
CREATE = SCRIPTS["create"]
DROP = SCRIPTS["drop"]
ENDPOINT_CHANGE = SCRIPTS["endpoint_change"]
ENDPOINT_OUTCOME = SCRIPTS["endpoint_outcome"]
ENQUEUE = SCRIPTS["enqueue"]
ERASE = SCRIPTS["erase"]
HAND_BACK = SCRIPTS["hand_back"]
LEAVE = SCRIPTS["leave"]
LOOK = SCRIPTS["look"]
PERMITS = SCRIPTS["permits"]
OPEN_WATCH = SCRIPTS["open_watch"]
PACK = SCRIPTS["pack"]
PARK_QUEUED = SCRIPTS["park_queued"]
PUT_BACK = SCRIPTS["put_back"]
PUT_KEYS = SCRIPTS["put_keys"]
REDELIVER = SCRIPTS["redeliver"]
RENEW = SCRIPTS["renew"]
REPACK = SCRIPTS["repack"]
REPLACE_FIELD = SCRIPTS["replace_field"]
RESTORE_STUB = SCRIPTS["restore_stub"]
REWRITTEN = SCRIPTS["rewritten"]
SEARCH = SCRIPTS["search"]
SETTLE_WEBHOOK = SCRIPTS["settle_webhook"]
SHARE = SCRIPTS["share"]
SPEND = SCRIPTS["spend"]
TAKE_ARCHIVE = SCRIPTS["take_archive"]
TAKE_BATCHES = SCRIPTS["take_batches"]
TAKE_DUE = SCRIPTS["take_due"]
TAKE_ENDED = SCRIPTS["take_ended"]
TAKE_JOBS = SCRIPTS["take_jobs"]
TAKE_PARKED = SCRIPTS["take_parked"]
TAKE_WEBHOOKS = SCRIPTS["take_webhooks"]
