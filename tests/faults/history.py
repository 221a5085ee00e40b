"""What a run of the fault programme leaves behind, as data: the checker reads nothing else.

Times are seconds since 1970. Those of entries are by Redis TIME, all others by this machine's
clock, which is the same unless the row moves one of them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from redis import Redis

from app.store.packing import record_of
from app.store.redis import keys
from benchmarks.model_server import RecordedCall

TENANT = "default"
CLAIMS = {"refinement.started", "refinement.resumed"}
ENDS = {"refinement.completed", "refinement.failed", "refinement.canceled"}
STEPS = {"step.completed", "step.failed"}
RETRIED = "refinement.retried"
POISON = "poison"
"""The shape of a submission that kills whatever plays it."""


@dataclass(frozen=True)
class StoredEntry:
    """One entry of a journal."""

    number: int
    type: str
    at: float
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredRefinement:
    """A summary as it is stored, empty if there is none, and the whole journal."""

    id: str
    summary: Mapping[str, str]
    entries: tuple[StoredEntry, ...]

    @property
    def status(self) -> str:
        """The stored status, or `lost`."""
        return self.summary.get("status", "lost")

    def journaled_at(self, call: RecordedCall) -> float | None:
        """Return when the step that a call belongs to was journaled."""
        for entry in self.entries:
            if entry.type in STEPS and call.key == f"{self.id}/{entry.data['key']}":
                return entry.at
        return None


@dataclass
class Submission:
    """What one client asked for with one `Idempotency-Key`, and every id that it was answered."""

    number: int
    shape: str
    ids: list[str] = field(default_factory=list)
    is_canceled: bool = False


@dataclass
class Watched:
    """The numbers of the events that one watcher received, over all its connections."""

    id: str
    numbers: list[int] = field(default_factory=list)
    cuts: int = 0
    has_seen_end: bool = False


@dataclass
class Answers:
    """The API's answers that were not a success."""

    unavailable_s: list[float] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    broken_off: int = 0


@dataclass(frozen=True)
class Loss:
    """A worker that lost what it had in hand, between `at` and `until`, and its connections.

    `ports` are its ends of the connections to the model server; None stands for every worker's.
    """

    kind: str
    at: float
    until: float
    ports: frozenset[int] | None

    def excuses(self, call: RecordedCall, journaled_at: float | None) -> bool:
        """Return whether the call was in the lost worker's hands: begun, and not yet journaled."""
        is_its_own = self.ports is None or call.port in self.ports
        in_hand = journaled_at is None or journaled_at > self.at
        return is_its_own and call.began_at <= self.until and in_hand


@dataclass(frozen=True)
class History:
    """Everything that happened in one run."""

    refinements: Mapping[str, StoredRefinement]
    listed: Sequence[str]
    submissions: Sequence[Submission]
    calls: Sequence[RecordedCall]
    """Those that the provider did not refuse: they cost money."""
    refused: Sequence[RecordedCall] = ()
    watched: Sequence[Watched] = ()
    losses: Sequence[Loss] = ()
    unmanned: Sequence[tuple[float, float]] = ()
    """From when to when no worker took work."""
    answers: Answers = field(default_factory=Answers)


def stored(client: Redis, ids: Sequence[str]) -> dict[str, StoredRefinement]:
    """Read refinements from Redis itself."""
    return {it: _stored(client, it) for it in ids}


def listed(client: Redis) -> list[str]:
    """Return every id in the list of all refinements."""
    found: Any = client.zrange(keys.refinement_list(TENANT), 0, -1)
    return [it.decode() for it in found]


def _stored(client: Redis, refinement_id: str) -> StoredRefinement:
    summary: Any = client.hgetall(keys.SUMMARY + refinement_id)
    entries: Any = client.xrange(keys.JOURNAL + refinement_id)
    return StoredRefinement(
        refinement_id,
        {name.decode(): value.decode() for name, value in summary.items()},
        tuple(_entry(number, fields) for number, fields in record_of(entries).entries),
    )


def _entry(entry_id: bytes, fields: Mapping[bytes, bytes]) -> StoredEntry:
    return StoredEntry(
        int(entry_id.partition(b"-")[0]),
        fields[b"type"].decode(),
        int(fields[b"at"]) / 1000,
        json.loads(fields.get(b"data", b"{}")),
    )
