"""The values that callers exchange with the store, and the errors by which it rejects a write.

Fenced            the claim is no longer in force: stop immediately, write nothing more
Suspected         it may have killed the worker that held it: nothing was claimed
UnreadableRecord  a later release wrote it, or one with a package that is missing here, or, as
                  UnreadableSecrets, another HONE_SECRET_KEY has encrypted it: another worker must
                  play it
StaleLimits       an append relied on limits that a PATCH has replaced; nothing was written
ArchiveAway       the archive cannot be read or written now
"""

import secrets
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Self

from app.contract import Contract
from app.contract.drafts import sha256_of
from app.contract.events import Event, EventType, Queued
from app.contract.judgement import Usage
from app.contract.limits import Limits
from app.contract.models import ModelChoice
from app.contract.requests import RefinementRequest
from app.contract.reviews import PendingPause
from app.contract.snapshot import Best, ContinuedFrom, Failure, IterationScore, Result, Snapshot
from app.contract.statistics import Learnt, ModelUse
from app.contract.status import Status, StopReason
from app.contract.values import value
from app.contract.versions import ENGINE_VERSION
from app.contract.waiting import Waiting


@value(slots=True)
class State:
    """The state that every claim, append and look returns to a worker."""

    status: Status
    last_event: int
    limits: Limits  # now in force
    limits_seq: int  # grows with every PATCH
    stopping: StopReason | None  # set once `refinement.stopping` is journaled
    finish_requested: bool  # a finish came before anything was judged
    pause: PendingPause | None = None  # a pause was requested, and has not begun
    is_parked: bool = False  # the claim was given up, until there is a permit for a model


@value(slots=True)
class Entry:
    """One entry to append; the terminal types and `refinement.canceling` have no data.

    `next` are the steps under way after a step; they take the place of those in its data.
    """

    type: EventType
    data: Contract | None = None
    next: tuple[str, ...] = ()


@value()
class Fields:
    """The summary fields an append may set; None leaves a field as it is.

    `best_passed` and `result` are stored once a draft is judged, and shown once it has ended.
    """

    phase: tuple[str, ...] | None = None
    iteration: int | None = None
    best: Best | None = None
    best_passed: bool | None = None
    scores: tuple[IterationScore, ...] | None = None
    usage: Usage | None = None
    waiting: tuple[Waiting, ...] | None = None
    result: Result | None = None
    stop_reason: StopReason | None = None
    lacks: str | None = None
    """What keeps the best draft from passing, for the reason of the outcome."""
    error: Failure | None = None
    achieved: Mapping[str, tuple[float, float | None]] | None = None
    """By the seat of a model that was drawn: the gain, and the cost in dollars if it is known."""
    used: Mapping[str, ModelUse] | None = None
    """By model, what the refinement has consumed so far."""


ID_PREFIX = "ref_"
BATCH_PREFIX = "batch_"
DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base32, in which ULIDs are written
CODED_BITS, RANDOM_BITS = 10, 80


def coded(ulid: int, cell: int) -> int:
    """Return a ULID whose last two characters are the number of a cell, in the same order.

    What its generator counts up within a millisecond stays above them.
    """
    time, random = divmod(ulid, 1 << RANDOM_BITS)
    left = (random << CODED_BITS) % (1 << RANDOM_BITS)
    return (time << RANDOM_BITS) | left | cell


def cell_coded_in(record_id: str) -> int:
    """Return the number in the last two characters of an id."""
    return DIGITS.find(record_id[-2]) * len(DIGITS) + DIGITS.find(record_id[-1])


LARGEST = 1e100


@value(slots=True)
class Addition:
    """Numbers that an ending or a rating adds to the sums in the hash `key`, place by place.

    Every ending carries one list of them. What is there under these names is multiplied by `decay`
    first. Sums of a lower `version` are replaced, those of a higher one stay as they are. `about`
    (JSON) says what the sums are of; it is kept only with a version, 0 is none. The sorted set
    `listed_in` has the keys that were added to lately, with the time: it bounds their number
    (`MOST_LISTED`). Sums without an addition for 90 days are deleted. `usage`, `insights` and
    `models` in place of a key stand for the sums of the tenant's day on which the refinement ends.

    Raises ValueError for a number that is not finite, or so large that sums of them might not be.
    """

    key: str
    sums: Mapping[str, tuple[float, ...]]
    decay: float = 1.0
    version: int = 0
    about: str = ""
    listed_in: str = ""

    def __post_init__(self) -> None:
        # The sum of the sizes: NaN and infinity survive it, which min and max do not promise.
        for numbers in self.sums.values():
            if not sum(map(abs, numbers)) < LARGEST:
                raise ValueError("a number to add must be finite, and less than 1e100")


@value(slots=True)
class Parking:
    """What a refinement waits for without a worker: a permit for one of `awaited`."""

    awaited: tuple[str, ...]


class Fenced(Exception):
    """The fencing token is no longer in force, or the refinement has ended or was erased."""


class UnreadableRecord(Exception):
    """A later release, or one with more packages, wrote what this process cannot read.

    The message says what; `kind` is what is not known here, such as a strategy, if that is it.
    """

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind


class UnreadableSecrets(UnreadableRecord):
    """Another HONE_SECRET_KEY has encrypted the secrets of a request."""


class ArchiveAway(Exception):
    """The archive cannot be read or written now; the message says why."""


class DamagedObject(ArchiveAway):
    """An object of the archive is missing, or is not what was written; the message names it."""


class Suspected(Exception):
    """Nothing was journaled since its last claim, so that it may have killed the worker."""


class StaleLimits(Exception):
    """The append named a `limits_seq` that is no longer in force; nothing was written."""

    def __init__(self, state: State) -> None:
        super().__init__(f"limits {state.limits_seq} are in force")
        self.state = state


@value(slots=True)
class Claimed:
    """A claim made `at` a time of Redis.

    `elapsed_s` counts from `started_at`, without pauses and waits for models; `waited_s` is the
    time of those waits, and `left_s` that until the deadline, if there is one. `permit` is the
    model for which the claim has a permit: one call of it needs no other.
    Two claims have one `token` if Redis has lost the first, but never one `nonce`.
    """

    id: str
    tenant: str
    token: int
    nonce: str
    resumed: bool
    attempt: int  # from 1: claims, this one included, since which no step was journaled
    state: State
    elapsed_s: float
    at: datetime
    waited_s: float
    left_s: float | None
    permit: str | None
    learnt: Learnt | None = None  # knowledge of its kind at the first claim


@value(slots=True)
class Submitted:
    """The request that a worker processes, and the model of each seat as chosen at submission."""

    request: RefinementRequest
    models: Mapping[str, ModelChoice]
    prompt_nonce: str  # in the tags around texts in prompts, and shown nowhere else
    engine_version: int = ENGINE_VERSION  # that it was made for


@value(slots=True)
class Loaded:
    """What a worker reads of a refinement; `last_event` is the number of its last entry."""

    submitted: Submitted
    events: tuple[Event, ...]
    last_event: int
    origin: str = ""  # as it was stored with the refinement


NONCE_LENGTH, FIRST_LETTER = 8, ord("a")

CACHED_FROM = 1_500
"""Bytes of texts below which no provider has the beginning of a prompt in its cache: it has fewer
than 512 tokens, the system message included."""


def new_prompt_nonce() -> str:
    """Return eight random letters: 38 bits, in about four tokens of a language model."""
    return bytes([FIRST_LETTER + byte % 26 for byte in secrets.token_bytes(NONCE_LENGTH)]).decode()


def beginning_of(request: RefinementRequest) -> str:
    """Return a hash of the long texts with which its prompts begin; empty if they are short.

    Refinements with the same documents, or the same task, profit from a provider's cache if they
    have the same nonce too. It stays for a day: empty for texts that are not to be stored, too.
    """
    documents = "".join(f"{document.name}\n{document.text}\n" for document in request.context)
    for texts in (documents, documents + (request.task or "")):
        if request.store and len(texts.encode()) >= CACHED_FROM:
            return sha256_of(texts)
    return ""


@value(slots=True)
class NewRefinement:
    """A refinement to store."""

    tenant: str
    request: RefinementRequest
    body_sha256: str  # hash of the body as sent: an idempotency key belongs to it
    models: Mapping[str, ModelChoice]
    limits: Limits
    queued: Queued
    continued_from: ContinuedFrom | None = None  # the draft that it starts from
    api_key: str | None = None  # the id of the key that it was submitted with
    engine_version: int = ENGINE_VERSION
    prompt_nonce: str = field(
        default_factory=new_prompt_nonce
    )  # used unless prompts that begin alike have one
    origin: str = ""  # request id and place in a trace; the store does not read it


@value(slots=True)
class Accepted:
    """An accepted submission or command; `replayed` if an earlier one with its key was."""

    snapshot: Snapshot
    replayed: bool

    @property
    def id(self) -> str:
        """The id of the refinement."""
        return self.snapshot.id


@value(slots=True)
class StoredEvent:
    """One journal entry as a client sees it; `json` is the whole event, ready to send.

    `is_last` is true for the terminal event with which the work has ended, and for ratings after
    it; one that a retry follows is terminal, and not the last.
    """

    number: int
    type: bytes  # as in the journal, perhaps of a later release
    json: bytes
    is_last: bool = False


@value(slots=True)
class Job:
    """A refinement that needs a worker, and the id of its RQ job; `is_first` in the queue."""

    refinement_id: str
    job_id: str
    is_first: bool = False

    @classmethod
    def numbered(cls, refinement_id: str, number: int) -> Self:
        """Return a job by its number; a negative one stands for the front of the queue."""
        return cls(refinement_id, f"{refinement_id}-{abs(number)}", number < 0)
