"""The journal of one claim, and why an append happens once.

Every append carries the claim's token and a number of its own. Redis keeps the last number it saw
and answers a number it knows with the present state. The number grows only with a definite answer,
and one append is on its way at a time: one whose answer was lost is sent again, unchanged, before
anything else is.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from app.contract.status import Status
from app.store.codec import decode_state, encode_append
from app.store.committer import Committer
from app.store.scripts import APPEND, LOOK
from app.store.state import Claimed, Entry, Fenced, Fields, StaleLimits, State

NOTHING = Fields()
UNANSWERED = (RedisConnectionError, RedisTimeoutError)

_Payload = tuple[str | bytes | int, ...]


class Journal:
    """The journal of one claimed refinement. There is one of these per claim, or numbers clash."""

    def __init__(self, claimed: Claimed, committer: Committer) -> None:
        self.id = claimed.id
        self.token = claimed.token
        self._committer = committer
        self._state = claimed.state
        self._done = 0
        self._unanswered: _Payload | None = None
        self._turn = asyncio.Lock()

    async def append(
        self,
        entries: Sequence[Entry],
        fields: Fields = NOTHING,
        *,
        to: Status | None = None,
        limits_seq: int | None = None,
    ) -> State:
        """Append all of `entries` with the summary fields that go with them, or nothing.

        A second `refinement.stopping` is left out. While it is `canceling`, `to` succeeded or
        failed becomes canceled. `to` paused takes one `refinement.paused` among the entries: it
        gives the claim up, and the time for the review begins. When it is `canceling`, `stopping`
        or asked to finish, that entry is left out and it goes on: the state's status tells.

        Raises Fenced, StaleLimits and redis errors. After a redis error or a cancellation the same
        call may be made again, and happens once; if another one is made instead, the first happens
        before it.
        """
        payload = ("" if limits_seq is None else limits_seq, *encode_append(entries, fields, to))
        async with self._turn:
            if self._unanswered is not None and self._unanswered != payload:
                await self._settle_unanswered()
            return await self._send(payload)

    async def look(self) -> State:
        """Return how it stands, else Fenced."""
        known = self._state
        reply = await self._committer.run(
            LOOK, self.id, self.token, known.last_event, known.limits_seq
        )
        return self._learn(reply, known)

    async def _settle_unanswered(self) -> None:
        assert self._unanswered is not None
        with suppress(StaleLimits):  # then it is certain that nothing was written
            await self._send(self._unanswered)

    async def _send(self, payload: _Payload) -> State:
        self._unanswered = payload
        known, number = self._state, self._done + 1
        relied, *what = payload
        try:
            reply = await self._committer.run(
                APPEND,
                self.id,
                self.token,
                number,
                known.last_event,
                relied,
                known.limits_seq,
                *what,
            )
        except UNANSWERED:
            raise
        except RedisError:
            self._unanswered = None  # Redis refused it: nothing was written
            raise
        self._unanswered = None
        state = self._learn(reply, known)
        self._done = number
        return state

    def _learn(self, reply: object, known: State) -> State:
        assert isinstance(reply, bytes)
        code, _, rest = reply.partition(b" ")
        if code == b"FENCED":
            raise Fenced(f"{self.id}: token {self.token} is no longer in force")
        state = decode_state(rest, known)
        # Looks and appends may be answered in another order than their callers run.
        if state.last_event >= self._state.last_event:
            self._state = state
        if code == b"STALE":
            raise StaleLimits(state)
        return state
