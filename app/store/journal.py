"""The journal of a claimed refinement, to which its worker appends."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from app.contract.snapshot import Result
from app.contract.status import Status
from app.store.redis import keys
from app.store.redis.codec import NO_PROMPTS, decode_result, decode_state, encode_append
from app.store.redis.committer import Committer
from app.store.redis.connection import until_answered
from app.store.redis.scripts import APPEND, LOOK
from app.store.state import (
    Addition,
    Claimed,
    Entry,
    Fenced,
    Fields,
    Parking,
    StaleLimits,
    State,
    UnreadableRecord,
)

KEPT_S = 60.0  # longer than a failover; the appends of a minute are few
MOST_KEPT_BYTES = 32 * 1024 * 1024  # bytes of claims that have ended

NOTHING = Fields()
UNANSWERED = (RedisConnectionError, RedisTimeoutError)

_Payload = tuple[str | bytes, ...]


class Journal:
    """The journal of one claimed refinement. Create one per claim, or numbers clash.

    An append takes effect once. Every append has the nonce of the claim and a number. Redis
    stores the last number and answers a repeated one with the current state. The number grows only
    with a definite answer, and one append is in progress at a time: one whose answer was lost is
    sent again, unchanged, before any other.

    A failover can lose the last appends, since Redis replicates asynchronously. Those of the last
    `KEPT_S` seconds are kept and written again, so that no reply in them is paid for twice. An
    append that ends the claim puts the journal among those that have `ended`.
    """

    def __init__(
        self, claimed: Claimed, committer: Committer, ended: "EndedJournals | None" = None
    ) -> None:
        self.id = claimed.id
        self.token = claimed.token
        self._nonce = claimed.nonce
        self._committer = committer
        self._state = claimed.state
        self._done = 0
        self._unanswered: _Payload | None = None
        self._kept: dict[int, tuple[float, _Payload]] = {}
        self._turn = asyncio.Lock()
        self._ended = ended

    async def append(
        self,
        entries: Sequence[Entry],
        fields: Fields = NOTHING,
        *,
        to: Status | None = None,
        limits_seq: int | None = None,
        parking: Parking | None = None,
        waited_s: float = 0.0,
        prompts: Mapping[str, bytes] = NO_PROMPTS,
        additions: Sequence[Addition] = (),
    ) -> State:
        """Append all of `entries` with the summary fields and the prompts' parts, or nothing.

        A second `refinement.stopping` is left out. While it is `canceling`, `to` succeeded or
        failed becomes canceled. `to` paused requires one `refinement.paused` among the entries: it
        gives up the claim and starts the timeout of the review. If the refinement is `canceling`,
        `stopping` or was asked to finish, that entry is left out and it continues: check the status
        of the returned state.

        With `parking` it gives up the claim, and the attempt does not count; if the refinement is
        `canceling` or `stopping`, or a pause was requested, it keeps the claim: see `is_parked` of
        the returned state. `waited_s` is the time in total that it has waited for models.
        `additions` are added to sums by the first append that lets it succeed or fail, once for a
        refinement.

        Raises Fenced, StaleLimits and redis errors. After a redis error or a cancellation the same
        call may be repeated, and takes effect once; if another call is made instead, the first one
        takes effect before it.
        """
        what = encode_append(entries, fields, to, parking, waited_s, prompts, additions)
        payload = ("" if limits_seq is None else f"{limits_seq}", *what)
        async with self._turn:
            if self._unanswered is not None and self._unanswered != payload:
                await self._settle_unanswered()
            state = await self._send(payload)
        if self._ended is not None and (to is not None or parking is not None):
            self._ended.add(self)
        return state

    async def restore(self) -> None:
        """Write again what Redis has lost, although the claim has ended.

        Raises Fenced if that cannot be done, and redis errors.
        """
        async with self._turn:
            _, payload = self._kept[self._done]
            known = self._state
            reply = await self._sent(self._done, payload)
            if reply.startswith(b"SHORT"):
                await self._restore(reply)
            else:
                self._learn(reply, known)

    @property
    def bytes_kept(self) -> int:
        """About how much memory the appends take that are kept."""
        payloads = [payload for _, payload in self._kept.values()]
        return sum(map(len, chain.from_iterable(payloads)))

    async def look(self) -> State:
        """Return the current state, else raise Fenced."""
        known = self._state
        reply = await self._committer.submit(
            LOOK, self.id, self._nonce, known.last_event, known.limits_seq
        )
        assert isinstance(reply, bytes)
        return self._learn(reply, known)

    async def result(self) -> Result | None:
        """Return the result as it stands: that of the best draft so far, None before one."""

        async def read() -> bytes | None:
            stored: bytes | None = await self._committer.execute(
                "HGET", keys.SUMMARY + self.id, "result"
            )
            return stored

        return decode_result(await until_answered(read, self.id))

    async def _settle_unanswered(self) -> None:
        assert self._unanswered is not None
        with suppress(StaleLimits):  # then it is certain that nothing was written
            await self._send(self._unanswered)

    async def _send(self, payload: _Payload) -> State:
        self._unanswered = payload
        number = self._done + 1
        try:
            known = self._state
            reply = await self._sent(number, payload)
            if reply.startswith(b"SHORT"):
                await self._restore(reply)
                known = self._state
                reply = await self._sent(number, payload)
        except UNANSWERED:
            raise
        except RedisError:
            self._unanswered = None  # Redis rejected it: nothing was written
            raise
        self._unanswered = None
        state = self._learn(reply, known)
        self._done = number
        self._keep(number, payload)
        return state

    def _sent(self, number: int, payload: _Payload) -> asyncio.Future[bytes]:
        """Send one append, which refers to the state known now; return a future of its answer."""
        known, (relied, *what) = self._state, payload
        words = (self._nonce, number, known.last_event, relied, known.limits_seq, *what)
        return self._committer.submit(APPEND, self.id, *words)

    async def _restore(self, reply: bytes) -> None:
        """Write again what Redis has lost, or raise Fenced if that is not kept any more."""
        _, done, last_event = reply.split()
        lost = range(int(done) + 1, self._done + 1)
        if any(number not in self._kept for number in lost):
            raise Fenced(f"{self.id}: Redis has lost the end of the journal")
        self._state = replace(self._state, last_event=int(last_event))
        for number in lost:
            known = self._state
            answer = await self._sent(number, self._kept[number][1])
            if not answer.startswith((b"OK", b"PARKED")):
                raise Fenced(f"{self.id}: what Redis has lost cannot be written again")
            self._learn(answer, known)

    def _keep(self, number: int, payload: _Payload) -> None:
        now = asyncio.get_running_loop().time()
        self._kept[number] = now, payload
        while self._kept and now - self._kept[(oldest := next(iter(self._kept)))][0] > KEPT_S:
            del self._kept[oldest]

    def _learn(self, reply: bytes, known: State) -> State:
        code, _, rest = reply.partition(b" ")
        if code == b"FENCED":
            raise Fenced(f"{self.id}: token {self.token} is no longer in force")
        try:
            state = decode_state(rest, known)
        except UnreadableRecord as error:
            raise Fenced(f"{self.id}: a later release has taken over: {error}") from None
        if code == b"PARKED":
            return replace(state, is_parked=True)
        # Callers of looks and appends may run in another order than that of the answers.
        if state.last_event >= self._state.last_event:
            self._state = state
        if code == b"STALE":
            raise StaleLimits(state)
        return state


class EndedJournals:
    """The journals of claims that have ended, in case a failover loses their end.

    They are kept for `KEPT_S` seconds, and in up to `MOST_KEPT_BYTES`: the oldest go first.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, int, Journal]] = {}
        self._bytes = 0

    def add(self, journal: Journal) -> None:
        """Keep a journal, in place of that of an earlier claim of the same refinement."""
        now = asyncio.get_running_loop().time()
        self._remove(journal.id)
        self._kept[journal.id] = now, journal.bytes_kept, journal
        self._bytes += self._kept[journal.id][1]
        while self._kept:
            oldest = next(iter(self._kept))
            if self._bytes <= MOST_KEPT_BYTES and now - self._kept[oldest][0] <= KEPT_S:
                break
            self._remove(oldest)

    def of(self, ids: Iterable[str]) -> list[Journal]:
        """Return the journals that are kept of these refinements."""
        return [
            self._kept[refinement_id][2] for refinement_id in ids if refinement_id in self._kept
        ]

    def _remove(self, refinement_id: str) -> None:
        if refinement_id in self._kept:
            self._bytes -= self._kept.pop(refinement_id)[1]
