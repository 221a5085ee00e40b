"""The callers of requests: who they are, what each may do, and what each uses.

`Directory` knows them by a copy of the API keys in use that is never older than a second.
`Metering` counts what tenants with quotas use, and records who did what.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self
from uuid import uuid4

from app.access.keyring import Hashing, id_in, secrets_of
from app.access.signed import ConsoleSession, PendingSignIn, ReadToken, Signing
from app.contract.access import LONGEST_TOKEN_S, OPERATOR, WITHOUT_ADMIN, Quotas, Scope
from app.contract.errors import HoneError, QuotaExceeded, TooManyRequests, Unauthenticated
from app.settings import Settings, listens_on_loopback
from app.store import refusals
from app.store.access import AccessState, AccessStore, KeyRecord

REFRESH_S = 0.4
TRUSTED_S = 0.9
"""Age up to which the copy is trusted: a key that was revoked works for less than a second."""

MOST_KNOWN = 10_000
SESSION_S = 12 * 3600
"""Seconds after which the console asks for a key again."""

CLOCKS_DIFFER_S = 5
"""Seconds by which two API processes may read Redis TIME differently."""

NOTED_S = 10.0
"""Seconds between two notes of which keys were used."""

HOW_TO_CREATE = "create one with `hone keys create` (see docs/access.md)"

_log = logging.getLogger(__name__)


UNLIMITED = Quotas()


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request, and the rights of that caller.

    Without a key `key_id` is None. With a read token it may only read `refinement_id`, until
    `ends_at` (milliseconds since 1970 by Redis TIME).
    """

    tenant: str
    scopes: frozenset[Scope]
    key_id: str | None = None
    refinement_id: str | None = None
    ends_at: float = math.inf
    quotas: Quotas = UNLIMITED
    replaces: tuple[str, ...] = ()
    """Ids of the keys that rotations have made this one of, the newest first."""

    session_id: str | None = None

    @property
    def reviews_as(self) -> tuple[str, ...]:
        """The ids by which a review knows this key; none without a key."""
        return () if self.key_id is None else (self.key_id, *self.replaces)


def may_be_key(text: bytes) -> bool:
    """Return whether a text is meant as a key or token of this service, right or wrong."""
    return text.startswith(b"hone")


class KeyEnded(Unauthenticated):
    """A key is right, and is revoked or has expired."""

    def __init__(self, record: KeyRecord) -> None:
        super().__init__("this API key is unknown, revoked or expired")
        self.record = record


class Directory:
    """The callers of one API process.

    While Redis is away no caller is known, and the methods raise Unavailable.
    """

    def __init__(self, store: AccessStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._version = ""
        self._is_closed = True
        self._is_open = False
        self._hashing: Hashing | None = None
        self._signing: Signing | None = None
        self._known: dict[str, tuple[KeyRecord, Caller]] = {}
        self._quotas: dict[str, Quotas] = {}
        self._ended: set[str] = set()
        self._anybody = Caller(OPERATOR, frozenset(WITHOUT_ADMIN))
        self._is_local = listens_on_loopback(settings.host)
        self._used: dict[str, int] = {}
        self._clock = asyncio.get_running_loop().time
        self._noted_at = self._read_at = float("-inf")
        self._ahead_ms = 0.0  # of Redis TIME over the clock of the event loop
        self._reading: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Read the state, say in the log who can use the server, and keep the copy fresh."""
        await self._refresh()
        if self._settings.auth == "off":
            _log.warning("HONE_AUTH is off: whoever reaches this server can use it")
        elif not self._is_closed and not self._is_open:
            _log.warning("there are no API keys, so every request is refused: %s", HOW_TO_CREATE)
        elif self._is_open:
            _log.warning(
                "there are no API keys: whoever reaches this port can use the server, so put no"
                " proxy or tunnel before it until there is one: %s",
                HOW_TO_CREATE,
            )
        self._keeping = asyncio.create_task(self._keep_fresh())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop, and note which keys were used."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
            with suppress(HoneError):
                await self._note_uses()

    @property
    def is_open(self) -> bool:
        """Whether any caller on this machine has access because there are no API keys yet."""
        return self._is_open

    async def caller(self, key: bytes | None, *, is_forwarded: bool = False) -> Caller:
        """Return the owner of the key or token in `Authorization`; raise Unauthenticated.

        `is_forwarded`: the request seems to come through a proxy. Without a key that is refused
        even where this machine needs none: the client may be anywhere.
        """
        if self._settings.auth == "off":
            return self._anybody
        await self._be_fresh()
        if key is not None:
            return await (
                self.reader(key) if key.startswith(ReadToken.prefix) else self._owner(key)
            )
        if not self._is_open:
            raise Unauthenticated(
                "send an API key as `Authorization: Bearer hone_...`"
                + ("" if self._is_closed else f"; there is none yet: {HOW_TO_CREATE}")
            )
        if is_forwarded:
            raise Unauthenticated(
                f"a request through a proxy requires an API key: {HOW_TO_CREATE}, or set"
                " HONE_AUTH=off if the proxy authenticates clients"
            )
        return self._anybody

    async def reader(self, text: bytes) -> Caller:
        """Return the owner of a read token; raise Unauthenticated if the token is invalid.

        An API key is refused: keys must not be in URLs.
        """
        if self._settings.auth == "off":
            return self._anybody
        await self._be_fresh()
        assert self._signing is not None
        token = self._signing.read(ReadToken, text)
        if token is not None and self._may_last(token.ends_at, LONGEST_TOKEN_S):
            ends_at, of = token.ends_at, token.refinement_id
            reading = frozenset({Scope.READ})
            quotas = await self.quotas_of(token.tenant)
            caller = Caller(token.tenant, reading, token.key_id, of, ends_at, quotas)
            if await self.still_allows(caller):
                return caller
        raise Unauthenticated("this token is unknown or has expired")

    async def session_of(self, key: bytes) -> tuple[Caller, str]:
        """Return who acts in a new session of a browser for the owner of a key, and its text.

        Raises Unauthenticated unless the key works. The session works as long as the key does.
        """
        await self._be_fresh()
        return self._session_of(await self._owner(key))

    async def session_of_person(self, record: KeyRecord) -> tuple[Caller, str]:
        """Return who acts in a new session for a person who has signed in elsewhere."""
        await self._be_fresh()
        known = await self._look_up(record.id)
        if known is None or not self._works(known):
            raise KeyEnded(record)
        return self._session_of(self._known[record.id][1])

    def _session_of(self, owner: Caller) -> tuple[Caller, str]:
        assert self._signing is not None
        assert owner.key_id is not None
        ends_at = self.now_ms() + SESSION_S * 1000
        session = ConsoleSession(uuid4().hex, owner.key_id, ends_at)
        caller = replace(owner, ends_at=ends_at, session_id=session.id)
        return caller, self._signing.signed(session)

    async def kept(self, pending: PendingSignIn) -> str:
        """Return the text by which a browser keeps a sign-in that has begun."""
        await self._be_fresh()
        assert self._signing is not None
        return self._signing.signed(pending)

    async def pending(self, text: str) -> PendingSignIn | None:
        """Return the sign-in that a browser has kept; None if it has ended, or is none."""
        await self._be_fresh()
        assert self._signing is not None
        found = self._signing.read(PendingSignIn, text.encode())
        return found if found is not None and self.now_ms() < found.ends_at else None

    def name_of(self, key_id: str | None) -> str:
        """Return the name of a key or person that was let in; or nothing."""
        record, _ = self._known.get(key_id or "") or (None, None)
        return record.name if record else ""

    async def end_session(self, text: bytes) -> Caller | None:
        """End a session in every API process within a second; return its owner.

        Returns None if the session had ended already. Raises Unavailable if the session goes on.
        """
        if (caller := await self.in_session(text)) is None or caller.session_id is None:
            return None
        with refusals():
            await self._store.end_session(caller.session_id, int(caller.ends_at), self.now_ms())
        self._ended = self._ended | {caller.session_id}
        return caller

    async def in_session(self, text: bytes) -> Caller | None:
        """Return the owner of a session; None if the session or its key has ended."""
        if self._settings.auth == "off":
            return None
        await self._be_fresh()
        assert self._signing is not None
        session = self._signing.read(ConsoleSession, text)
        if session is None or not self._may_last(session.ends_at, SESSION_S):
            return None
        if session.id in self._ended:
            return None
        record, caller = self._known.get(session.key_id) or (None, None)
        if record is None or not self._works(record):  # a person may have signed in again
            record, caller = await self._look_up(session.key_id), None
        if record is None or not self._works(record):
            return None
        self._used[record.id] = self.now_ms()
        known = caller or self._known[record.id][1]
        return replace(known, ends_at=session.ends_at, session_id=session.id)

    async def still_allows(self, caller: Caller) -> bool:
        """Return whether the caller would still be let in; while Redis is away, as before."""
        if self._settings.auth == "off":
            return True
        if self._is_outdated():
            with suppress(HoneError):
                await self._refresh()
        if caller.ends_at < math.inf and self.now_ms() >= caller.ends_at:
            return False
        if caller.session_id in self._ended:
            return False
        if caller.key_id is None:
            return self._is_open
        record, _ = self._known.get(caller.key_id) or (None, None)
        if record is None:
            try:
                record = await self._look_up(caller.key_id)
            except HoneError:
                return True
        return record is not None and self._works(record)

    async def quotas_of(self, tenant: str) -> Quotas:
        """Return what a tenant may use."""
        while tenant not in self._quotas:
            version = self._version
            with refusals():
                found = await self._store.quotas([tenant])
            if version == self._version:  # else they may have changed after they were read
                self._quotas |= found
        return self._quotas[tenant]

    async def not_reviewing(self, tenant: str, names: Sequence[str]) -> tuple[str, ...]:
        """Return the reviewers that are no working key of the tenant with the scope to review.

        A key that was rotated counts as the one that replaced it, and a person who is not signed in
        as one who is. Where requests need no key, they are names of people, and any will do.
        """
        if self._settings.auth == "off":
            return ()
        await self._be_fresh()
        if self._is_open:
            return ()
        return tuple([name for name in names if not await self._may_review(tenant, name)])

    async def _may_review(self, tenant: str, name: str) -> bool:
        key_id: str | None = name
        while key_id is not None:
            with refusals():
                (record,) = await self._store.get([key_id])
            if record is None or record.tenant != tenant:
                return False
            if self._works(record) or (record.issuer and not record.is_barred):
                return Scope.REVIEW in record.scopes
            key_id = record.replaced_by
        return False

    def _may_last(self, ends_at: int, longest_s: int) -> bool:
        """Return whether a signed text has not ended, and ends within the limit of this service.

        A leaked secret therefore makes no token that outlives the tokens of this service.
        """
        return 0 < ends_at - self.now_ms() <= (longest_s + CLOCKS_DIFFER_S) * 1000

    def now_ms(self) -> int:
        """Return Redis TIME, in milliseconds since 1970."""
        return int(self._clock() * 1000 + self._ahead_ms)

    def read_token(
        self, caller: Caller, refinement_id: str, expires_in_s: int
    ) -> tuple[str, datetime]:
        """Return a token that reads a refinement of the caller's tenant, and when it expires."""
        assert self._signing is not None
        ends_at = self.now_ms() + expires_in_s * 1000
        token = ReadToken(caller.tenant, refinement_id, caller.key_id, ends_at)
        return self._signing.signed(token), datetime.fromtimestamp(ends_at / 1000, UTC)

    async def _owner(self, key: bytes) -> Caller:
        key_id = id_in(key)
        record, caller = self._known.get(key_id or "") or (None, None)
        if key_id and record is None:
            record = await self._look_up(key_id)
        assert self._hashing is not None
        if record is not None and not self._hashing.knows(record):
            raise Unauthenticated(
                "this API key was made under another HONE_SECRET_KEY, or before there was one: make"
                " a new one on the machine of the service with `hone keys create --admin`"
            )
        if not self._hashing.matches(key, record) or record is None:
            raise Unauthenticated("this API key is unknown, revoked or expired")
        if not self._works(record):
            raise KeyEnded(record)
        self._used[record.id] = self.now_ms()
        return caller or self._known[record.id][1]

    async def _look_up(self, key_id: str) -> KeyRecord | None:
        while True:
            version = self._version
            with refusals():
                (record,) = await self._store.get([key_id])
            if record is not None:
                await self.quotas_of(record.tenant)
            if version == self._version:  # else it may have changed after it was read
                break
        if record is not None:
            self._remember(record)
        return record

    def _remember(self, record: KeyRecord) -> None:
        if len(self._known) >= MOST_KNOWN:
            del self._known[next(iter(self._known))]
        quotas = self._quotas[record.tenant]
        caller = Caller(
            record.tenant,
            frozenset(record.scopes),
            record.id,
            quotas=quotas,
            replaces=record.replaces,
        )
        self._known[record.id] = (record, caller)

    def _works(self, record: KeyRecord) -> bool:
        return self.now_ms() < record.ends_at

    async def _be_fresh(self) -> None:
        if self._is_outdated():
            await self._refresh()

    def _is_outdated(self) -> bool:
        return self._clock() - self._read_at > TRUSTED_S

    async def _refresh(self) -> None:
        """Read what has changed; callers share a reading."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        try:
            with refusals():
                clock = asyncio.get_running_loop().time
                sent_at = clock()
                state = await self._store.state()
                self._ahead_ms = state.now_ms - clock() * 1000
                if state.version != self._version or self._hashing is None:
                    secrets = await secrets_of(self._settings, self._store)
                    self._hashing, self._signing = Hashing(secrets), Signing(secrets)
                    ended = await self._store.ended_sessions()
                    self._forget_all(state, await self._store.quotas([OPERATOR]))
                    self._ended = ended
                self._read_at = sent_at
        finally:
            self._reading = None

    def _forget_all(self, state: AccessState, quotas: dict[str, Quotas]) -> None:
        """Go by a new version: what was known of keys and tenants is looked up again."""
        self._version, self._is_closed = state.version, state.is_closed
        self._is_closed |= bool(self._settings.oidc_issuer)
        self._is_open = self._settings.auth == "auto" and self._is_local and not self._is_closed
        self._known, self._quotas = {}, quotas
        self._anybody = Caller(OPERATOR, frozenset(WITHOUT_ADMIN), quotas=quotas[OPERATOR])

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            with suppress(HoneError):
                await self._refresh()
                if asyncio.get_running_loop().time() - self._noted_at > NOTED_S:
                    await self._note_uses()

    async def _note_uses(self) -> None:
        self._noted_at = asyncio.get_running_loop().time()
        used, self._used = self._used, {}
        if used:
            with refusals():
                await self._store.used(used)


MINUTE_S = 60
RENEWED_S = 10.0
COUNTED_S = 1.0
"""Seconds between two writes of how many requests were refused: a flood costs one a key."""

RETRY_AFTER_S = 5

MOST_STREAMS = 1_000
"""Event streams that a tenant without the quota `watchers` may have open at one API process."""


@dataclass(frozen=True, slots=True)
class RequestsLeft:
    """How many requests a tenant may still make, and in how many seconds it may make `most`.

    `left` is negative after one too many.
    """

    most: int
    left: int
    reset_s: int

    def headers(self) -> dict[str, str]:
        """Return the fields of draft-ietf-httpapi-ratelimit-headers-10."""
        left = max(0, self.left)
        return {
            "ratelimit-policy": f'"requests";q={self.most};w={MINUTE_S}',
            "ratelimit": f'"requests";r={left};t={self.reset_s}',
        }

    def require(self) -> None:
        """Raise TooManyRequests if it was one too many."""
        if self.left < 0:
            allowed = (
                f"{self.most} requests a minute are allowed; the quota `requests_per_minute` sets"
                " how many"
            )
            raise TooManyRequests(allowed, retry_after_s=self.reset_s)


class Metering:
    """Counts for all API processes together."""

    def __init__(self, store: AccessStore, most_streams: int = MOST_STREAMS) -> None:
        self._store = store
        self._most_streams = most_streams
        self._open: Counter[str] = Counter()
        self._streams: dict[str, str] = {}
        self._refused: Counter[tuple[str, str, int]] = Counter()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Renew the counts for as long as this meter is open."""
        self._tasks = [asyncio.create_task(work) for work in (self._renew(), self._keep_counting())]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop; open requests count for another half minute."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self._record_refused()

    async def count_request(self, tenant: str, most: int, now_ms: int) -> RequestsLeft:
        """Count a request in this minute of UTC."""
        with refusals():
            number = await self._store.count_request(tenant, now_ms)
        reset_s = MINUTE_S - now_ms // 1000 % MINUTE_S
        return RequestsLeft(most, most - number, reset_s)

    def stream(self, tenant: str, most: int | None) -> AbstractAsyncContextManager[None]:
        """Count an event stream until the context ends; it raises QuotaExceeded for one too many.

        `most` is the quota of all API processes; without one those of this process count.
        """
        return self._open_here(tenant) if most is None else self._counted(tenant, most)

    @asynccontextmanager
    async def _open_here(self, tenant: str) -> AsyncIterator[None]:
        if self._open[tenant] >= self._most_streams:
            raise QuotaExceeded(
                f"{self._most_streams} event streams may be open at a time at one API process:"
                " close one; the quota `watchers` sets how many",
                retry_after_s=RETRY_AFTER_S,
            )
        self._open[tenant] += 1
        try:
            yield
        finally:
            self._open[tenant] -= 1

    @asynccontextmanager
    async def _counted(self, tenant: str, most: int) -> AsyncIterator[None]:
        stream = uuid4().hex
        with refusals():
            if not await self._store.open_watch(tenant, stream, most):
                raise QuotaExceeded(
                    f"{most} event streams may be open at a time: close one; the quota `watchers`"
                    " sets how many",
                    retry_after_s=RETRY_AFTER_S,
                )
        self._streams[stream] = tenant
        try:
            yield
        finally:
            del self._streams[stream]
            with suppress(HoneError), refusals():
                await self._store.close_watch(tenant, stream)

    async def record(self, tenant: str, by: str, action: str, about: str) -> None:
        """Add an action that was done to the audit log; while Redis is away, to this log."""
        try:
            with refusals():
                await self._store.record(tenant, by, action, about)
        except HoneError as error:
            _log.error("not in the audit log: %s %s %s %s: %s", tenant, by, action, about, error)

    def refused(self, tenant: str, by: str, status: int) -> None:
        """Count a refused request for the audit log, which has it within a second or two."""
        self._refused[tenant, by, status] += 1

    async def _keep_counting(self) -> None:
        while True:
            await asyncio.sleep(COUNTED_S)
            await self._record_refused()

    async def _record_refused(self) -> None:
        refused, self._refused = self._refused, Counter()
        for (tenant, by, status), count in refused.items():
            try:
                with refusals():
                    await self._store.count_action(tenant, by, "refused", str(status), count)
            except HoneError as error:
                refusal = (tenant, by, count, status, error)
                _log.error("not in the audit log: %s %s refused %d x %d: %s", *refusal)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEWED_S)
            if self._streams:
                with suppress(HoneError), refusals():
                    await self._store.renew_watches(dict(self._streams))
