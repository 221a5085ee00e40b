"""The requests of a process to Redis, all on one connection, and the order in which they go."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import hiredis
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, DefaultParser
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from app.store.redis import keys
from app.store.redis.connection import (
    BACKOFF,
    TICKS,
    NotSent,
    closed_transport,
    is_replaced,
    layout_in,
    lost_by,
)
from app.store.redis.keys import PLAIN, Word
from app.store.redis.scripts import LuaScript

BATCH = 64  # most requests that wait for replicas together
WAIT_MS = 500
PROBE_MS = 1_000

SCANNED = 1_000  # keys in one round trip

NOTHING = object()
CLOSED = "Connection closed by server."


# Its stub allows one word.
_packed: Callable[[Sequence[Word]], bytes] = hiredis.pack_command  # type: ignore[assignment]


@dataclass(eq=False, slots=True)
class _Request:
    packed: bytes
    answer: asyncio.Future[Any]
    script: LuaScript | None = None  # to send whole if Redis does not have it
    arguments: tuple[Word, ...] = ()
    decode: Callable[[Any], Any] | None = None
    text_of: str = ""  # the SHA-1 of the script whose text is in it
    losses: int = 0  # of the connections on which it was sent

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():  # its caller was cancelled
            self.answer.set_exception(error)


class _Link(asyncio.Protocol):
    """A connection that redis-py has opened; Redis answers its requests in order.

    `answered` gets each of them with its reply; `lost` hears once why the connection ended.
    """

    def __init__(
        self,
        connection: AbstractConnection,
        answered: Callable[[_Request, Any], None],
        lost: Callable[["_Link", Exception], None],
        writable: Callable[[], None],
    ) -> None:
        self._sent: deque[_Request] = deque()
        self.refusal: Exception | None = None
        self.is_full = False
        self._refused: list[_Request] = []
        self._answered, self._lost, self._writable = answered, lost, writable
        self._reader = hiredis.Reader(
            protocolError=InvalidResponse,
            replyError=DefaultParser.parse_error,
            notEnoughData=NOTHING,
        )
        # redis-py has connected, authenticated and selected the database, and has no part in what
        # follows. The writer is kept because it warns when it goes before its transport is closed.
        reader, writer = connection._reader, connection._writer
        assert reader is not None
        assert writer is not None
        connection._reader = connection._writer = None
        self._has_ended = reader.at_eof()  # nobody would say so again
        self._writer = writer
        self._transport: asyncio.WriteTransport = writer.transport
        self._transport.set_protocol(self)

    def send(self, requests: list[_Request]) -> None:
        """Write requests at once; raises RedisConnectionError if the connection is closed."""
        self._sent.extend(requests)
        if self._has_ended or self._transport.is_closing():
            raise RedisConnectionError(CLOSED)
        with closed_transport():
            self._transport.write(b"".join([request.packed for request in requests]))

    def refuse(self, request: _Request, error: Exception) -> None:
        """Keep a request for the next connection; this one ends once the others are answered."""
        self._refused.append(request)
        self.refusal = error

    def unanswered(self) -> list[_Request]:
        """Return the requests without an answer in the order in which they were sent."""
        return [*self._refused, *self._sent]

    def abort(self) -> None:
        """Disconnect at once; nobody hears of it."""
        self._lost = lambda *_: None
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        sent, gets = self._sent, self._reader.gets
        self._reader.feed(data)
        try:
            while (reply := gets()) is not NOTHING:
                self._answered(sent.popleft(), reply)
        except (InvalidResponse, IndexError) as error:
            self._lost(self, RedisConnectionError(f"Redis sent what nobody asked for: {error!r}"))
            return
        if self.refusal is not None and not sent:
            self._lost(self, self.refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(self, RedisConnectionError(f"{CLOSED} {exc or ''}".strip()))

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self._writable()


async def replies_in_order(*answers: asyncio.Future[Any]) -> list[Any]:
    """Return the answers to commands that were sent one after the other; raise the first error.

    `gather` would not know that they come in this order, and takes 20 times as many steps.
    """
    try:
        return [await answer for answer in answers]
    except BaseException:
        for answer in answers:
            answer.cancel()  # an answer with an error too: asyncio does not log it then
        raise


class Commands(Protocol):
    """What runs commands."""

    def submit(self, script: LuaScript, *args: Word) -> asyncio.Future[Any]:
        """Return a future of the answer of a script."""

    def execute(self, *command: Word) -> asyncio.Future[Any]:
        """Return a future of the answer to one command."""


async def redis_time_ms(commands: Commands) -> int:
    """Return Redis TIME, in milliseconds since 1970."""
    seconds, microseconds = await commands.execute("TIME")
    return int(seconds) * 1000 + int(microseconds) // 1000


async def scanned(commands: Commands, *command: Word, match: str) -> AsyncIterator[list[Any]]:
    """Yield what SCAN, or ZSCAN and a key, finds, in pages; some may come twice."""
    cursor: int | None = None
    while cursor != 0:
        words = (*command, cursor or 0, "MATCH", match, "COUNT", SCANNED)
        place, found = await commands.execute(*words)
        yield found
        cursor = int(place)


async def key_names(commands: Commands, pattern: keys.Key) -> AsyncIterator[bytes]:
    """Yield the name of each key that a pattern matches; some may come twice."""
    async for page in scanned(commands, "SCAN", match=pattern):
        for name in page:
            yield name


class Committer:
    """Runs commands for the whole process; every caller gets its own answer or its own error.

    It has one connection of its own, opened as those of `client` are. The requests of one turn of
    the event loop are written together; nothing waits for the answers to others. Requests reach
    Redis in the order of submission, except for those that are sent again. Never send a command
    that blocks.

    A request whose connection was lost or refuses writes is sent again as often as `client` retries
    commands, if that is negative without end, so it may take effect twice. Redis is silent if it
    answers nothing for the socket timeout of `client`; then the connection counts as lost. With
    `timeout_s`, silence for that long ends all requests with TimeoutError, however long they have
    waited. Only time in which the loop turns counts: when a busy loop comes late, the answer may be
    in the socket, and it is read before the next tick.
    """

    def __init__(self, client: Redis, timeout_s: float | None = None) -> None:
        pool: Any = client.connection_pool
        self._connection: AbstractConnection = pool.make_connection()
        self._decoders = dict(client.response_callbacks)  # by names in capitals
        self.layout = layout = layout_in(client)
        self._pack = _packed if layout is PLAIN else lambda words: _packed(layout.command(words))
        retries = self._connection.retry.get_retries()
        self._retries = math.inf if retries < 0 else retries
        self._is_patient = timeout_s is None
        self._timeout_s = self._connection.socket_timeout if timeout_s is None else timeout_s
        self._waiting: deque[_Request] = deque()
        self._is_scheduled = False
        self._is_closed = False
        self._link: _Link | None = None
        self._opening: asyncio.Task[None] | None = None
        self._failures = 0  # connections lost since the last answer
        self._silent_ticks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._texts_sent: set[str] = set()  # scripts whose text is on its way
        self._losses = 0

    def submit(self, script: LuaScript, *args: Word) -> asyncio.Future[Any]:
        """Return a future of the script's answer, or of the error of Redis or of the connection.

        The place in the order is taken at once. After a connection error or a cancellation the
        script may or may not have run.
        """
        answer = asyncio.get_running_loop().create_future()
        packed = self._pack(("EVALSHA", script.sha, 0, *args))
        return self._request(_Request(packed, answer, script, args))

    def execute(self, *command: Word) -> asyncio.Future[Any]:
        """Return a future of the answer to one command, as redis-py decodes it."""
        return self._request(self._command(*command))

    async def aclose(self) -> None:
        """Disconnect once all requests have been answered; later ones end with an error."""
        while requests := self._unanswered():
            await asyncio.wait({request.answer for request in requests})
        self._is_closed = True
        self._waiting.clear()  # cancelled requests would open the next connection
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._link is not None:
            self._link.abort()
            self._link = None
            await asyncio.sleep(0)  # the loop closes the socket

    def _command(self, *words: Word) -> _Request:
        answer = asyncio.get_running_loop().create_future()
        return _Request(self._pack(words), answer, decode=self._decoders.get(str(words[0])))

    def _accept(self, request: _Request) -> asyncio.Future[Any]:
        if self._is_closed:  # another connection would outlive the loop
            request.fail(NotSent("the connections to Redis were closed"))
            return request.answer
        self._waiting.append(request)
        self._schedule()
        return request.answer

    _request = _accept

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            loop = asyncio.get_running_loop()
            loop.call_soon(self._send)
            if self._timer is None and self._timeout_s is not None:
                self._silent_ticks = 0
                self._timer = loop.call_later(self._timeout_s / TICKS, self._tick)

    def _send(self) -> None:
        self._is_scheduled = False
        link = self._link
        if not self._waiting:
            return
        if link is None:
            if self._opening is None:
                self._opening = asyncio.get_running_loop().create_task(self._open())
        elif is_replaced(self._connection):
            self._lost(link, RedisConnectionError("this primary was replaced"))
        elif not link.is_full and link.refusal is None:
            # The text of a script goes even if its caller was cancelled: others rely on it.
            requests = [
                request for request in self._waiting if request.text_of or not request.answer.done()
            ]
            self._waiting.clear()
            try:
                link.send(requests)
            except RedisConnectionError as error:
                self._lost(link, error)

    async def _open(self) -> None:
        try:
            if self._failures:
                await asyncio.sleep(BACKOFF.compute(self._failures))
            await self._connection.connect()  # type: ignore[no-untyped-call]
            self._link = _Link(self._connection, self._answered, self._lost, self._schedule)
        except asyncio.CancelledError:
            await self._connection.disconnect(nowait=True)
            raise
        except Exception as error:  # noqa: BLE001 - the callers receive it
            await self._connection.disconnect(nowait=True)
            unsent = NotSent(str(error)) if isinstance(error, RedisConnectionError) else None
            if unsent is not None:
                unsent.__cause__ = error
            self._fail_all(error, unsent)
        finally:
            self._opening = None
            self._schedule()

    def _answered(self, request: _Request, reply: Any) -> None:
        self._silent_ticks = 0
        if isinstance(reply, Exception):
            self._refused(request, reply)
            return
        self._failures = 0
        self._texts_sent.discard(request.text_of)
        if request.answer.done():  # its caller was cancelled
            return
        if request.decode is None:
            request.answer.set_result(reply)
            return
        try:
            request.answer.set_result(request.decode(reply))
        except Exception as error:  # noqa: BLE001 - the caller receives it
            request.fail(error)

    def _refused(self, request: _Request, error: Exception) -> None:
        assert self._link is not None
        self._texts_sent.discard(request.text_of)
        if isinstance(error, NoScriptError) and request.script and not request.text_of:
            self._send_text(request, request.script)
        elif (lost := lost_by(error)) is not None:
            self._link.refuse(request, lost)
        elif isinstance(error, RedisConnectionError):
            self._link.refuse(request, error)
        else:
            request.fail(error)

    def _send_text(self, request: _Request, script: LuaScript) -> None:
        if script.sha not in self._texts_sent:  # the later ones find it then
            self._texts_sent.add(script.sha)
            request.text_of = script.sha
            request.packed = self._pack(("EVAL", script.text, 0, *request.arguments))
        self._accept(request)

    def _lost(self, link: _Link, error: Exception) -> None:
        if link is not self._link:
            return
        self._link = None
        link.abort()
        self._texts_sent.clear()
        self._losses += 1
        self._failures += 1
        again = []
        for request in link.unanswered():
            request.losses += 1
            if request.losses > self._retries:
                request.fail(error)
            elif not request.answer.done():
                again.append(request)
        self._waiting.extendleft(reversed(again))
        if self._waiting:
            self._schedule()

    def _tick(self) -> None:
        self._timer = None
        if not self._unanswered():
            return
        if self._is_patient and self._link is None:  # redis-py limits the time of connecting
            self._silent_ticks = 0
        self._silent_ticks += 1
        if self._silent_ticks > TICKS:
            self._end_silence()
        assert self._timeout_s is not None
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._timeout_s / TICKS, self._tick)

    def _end_silence(self) -> None:
        self._silent_ticks = 0
        link = self._link
        if not self._is_patient:
            if self._opening is not None:
                self._opening.cancel()
            self._fail_all(TimeoutError("Redis does not answer"))
        if link is not None:
            self._lost(link, RedisTimeoutError("Timeout reading from Redis"))

    def _fail_all(self, error: Exception, unsent: Exception | None = None) -> None:
        """End all requests with an error, those that no connection ever had with `unsent`."""
        requests = self._unanswered()
        self._waiting.clear()
        for request in requests:
            request.fail(unsent if unsent and not request.losses else error)

    def _unanswered(self) -> list[_Request]:
        sent = self._link.unanswered() if self._link else ()
        return [request for request in (*sent, *self._waiting) if not request.answer.done()]


class ReplicatedCommitter(Committer):
    """Answers a request once `replicas` replicas have what it wrote.

    Otherwise it fails with a NOREPLICAS error: it has been written, but a failover may lose it. The
    requests of many callers wait together.
    """

    def __init__(self, client: Redis, timeout_s: float | None, replicas: int) -> None:
        super().__init__(client, timeout_s)
        self._replicas = replicas
        self._group: list[tuple[_Request, asyncio.Future[Any]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def aclose(self) -> None:
        """Disconnect once all requests have been answered."""
        while self._sender is not None:
            await asyncio.wait([self._sender])
        await super().aclose()

    def _request(self, request: _Request) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        self._group.append((request, answer))
        if self._sender is None:
            self._sender = loop.create_task(self._send_groups())
        return answer

    async def _send_groups(self) -> None:
        try:
            while self._group:
                group, self._group = self._group[:BATCH], self._group[BATCH:]
                await self._send_group(group)
        finally:
            self._sender = None

    async def _send_group(self, group: list[tuple[_Request, asyncio.Future[Any]]]) -> None:
        losses = self._losses
        requests = [self._accept(request) for request, _ in group]
        answers = await asyncio.gather(*requests, return_exceptions=True)
        failure = await self._failure(losses)
        for answer, (_, caller) in zip(answers, group, strict=True):
            error = answer if isinstance(answer, BaseException) else failure
            if caller.done():  # it was cancelled
                continue
            if error is not None:
                caller.set_exception(error)
            else:
                caller.set_result(answer)

    async def _failure(self, losses: int) -> Exception | None:
        """Return the error if replicas may lack a write of this group, else None.

        `losses` is the number of lost connections when the group was sent.
        """
        # WAIT waits for the last write of its connection: give it one, behind all earlier writes of
        # others, because a repeated request writes nothing.
        probe = self._accept(self._command("SET", keys.PROBE, 1, "PX", PROBE_MS))
        reached = self._accept(self._command("WAIT", self._replicas, WAIT_MS))
        number: object
        _, number = await asyncio.gather(probe, reached, return_exceptions=True)
        if isinstance(number, Exception):
            return number
        assert isinstance(number, int)
        if self._losses != losses:  # a new primary may lack what the old one has acknowledged
            return RedisConnectionError("the connection was lost before replicas had the write")
        if number < self._replicas:
            text = f"NOREPLICAS {number} of {self._replicas} replicas have the write"
            return ResponseError(text)
        return None
