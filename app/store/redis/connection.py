"""Clients of Redis, the requirements that a server must meet, and the errors when it fails them."""

import asyncio
import logging
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import hiredis
from redis.asyncio import ConnectionPool
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
    parse_url,
)
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MasterDownError, OutOfMemoryError, ReadOnlyError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from app.contract.errors import HoneError, Overloaded, Unavailable
from app.store.redis import keys
from app.store.state import ArchiveAway, UnreadableRecord, UnreadableSecrets

OLDEST = (6, 2)
FIRST_RELEASE = "1.0"
"""The release from which on records can be read."""
SCANNED_AT_ONCE = 10_000

API_RETRIES = 1
TICKS = 10  # a timeout lasts so many ticks
WORKER_TIMEOUT_S = 5.0
WORKER_RETRIES = 3
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0

TURN_S = 60.0
"""Maximum time in this process, waits for a turn included."""

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")
log = logging.getLogger(__name__)


class UnusableRedis(Exception):
    """This Redis would lose or reject records; the message says what to change."""


REFUSED_WRITE = re.compile(r"\b(OOM|READONLY|NOREPLICAS|MISCONF|MASTERDOWN)\b")
"""Codes with which Redis refuses writes for a time; a script that meets one wrote nothing."""

REPLACED = re.compile(r"\b(READONLY|NOREPLICAS)\b")
BACKOFF = ExponentialWithJitterBackoff(base=0.01, cap=0.1)
# redis-py cuts the code off the message of an error that has a class of its own.
AWAY = (RedisConnectionError, RedisTimeoutError, OutOfMemoryError, ReadOnlyError, MasterDownError)


def is_away(error: BaseException) -> bool:
    """Return whether Redis cannot be reached, does not answer, or refuses writes for a time."""
    if isinstance(error, AWAY):
        return True
    return isinstance(error, RedisError) and REFUSED_WRITE.search(str(error)) is not None


def is_refused_by_replica(error: BaseException) -> bool:
    """Return whether a primary refuses a write because it was replaced, or lacks its replicas."""
    return isinstance(error, ReadOnlyError) or REPLACED.search(str(error)) is not None


async def until_answered(send: Callable[[], Awaitable[T]], what: str) -> T:
    """Return what `send` returns; call it again for as long as Redis is away (`is_away`).

    `send` must take effect once, however often it is sent.
    """
    wait_s = FIRST_WAIT_S
    while True:
        try:
            return await send()
        except RedisError as error:
            if not is_away(error):
                raise
            log.warning("%s: Redis is away, retrying: %s", what, error)
        await asyncio.sleep(random.uniform(wait_s / 2, wait_s))  # noqa: S311 - jitter
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)


class _ClosedTransport:
    """What `closed_transport` returns; a context manager made of a generator takes longer."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, RuntimeError) and "unable to perform operation on" in str(error):
            raise RedisConnectionError(f"the connection was reset: {error}") from error


_CLOSED_TRANSPORT = _ClosedTransport()


def closed_transport() -> AbstractContextManager[None]:
    """Raise a connection error where uvloop has closed the transport after a TCP reset.

    uvloop raises RuntimeError("unable to perform operation on <TCPTransport closed=True ...>"),
    which redis-py does not know and passes on.
    """
    return _CLOSED_TRANSPORT


class _SurvivesReset(AbstractConnection):
    """Reports a reset connection as redis-py reports every other lost connection.

    Commands are packed by hiredis, as redis-py's synchronous connections do.
    """

    def pack_command(self, *args: Any) -> list[bytes]:
        if " " in args[0]:  # such as CONFIG GET: Redis wants each word by itself
            args = (*args[0].split(), *args[1:])
        return [hiredis.pack_command(args)]

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        with closed_transport():
            await super().send_packed_command(command, check_health)

    async def read_response(self, *args: Any, **options: Any) -> Any:
        with closed_transport():
            return await super().read_response(*args, **options)

    async def can_read(self) -> bool:
        with closed_transport():
            return await super().can_read()

    async def disconnect(self, *args: Any, **options: Any) -> None:
        try:
            with closed_transport():
                await super().disconnect(*args, **options)
        except RedisConnectionError:
            self._reader = self._writer = None


class _LeavesReplica(_SurvivesReset):
    """Drops the connection to a primary that was replaced, so that the next try reconnects.

    Such a primary is a replica, or has lost its replicas. The next connection asks Sentinel, or
    resolves the name, again.
    """

    async def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*args, **options)
        except RedisError as error:
            if not is_refused_by_replica(error):
                raise
            await self.disconnect()
            raise RedisConnectionError(f"Redis refuses writes: {error}") from error


class _TcpConnection(_LeavesReplica, Connection):
    pass


class _TlsConnection(_LeavesReplica, SSLConnection):
    pass


class _UnixConnection(_LeavesReplica, UnixDomainSocketConnection):
    pass


class Sentinels:
    """The Sentinels that know the address of a primary; each is the options of a connection."""

    def __init__(self, service: str, servers: Sequence[dict[str, Any]]) -> None:
        self.service = service
        self.servers = servers
        self._latest: tuple[str, int] | None = None
        self._asked_at = 0.0
        self._asking: asyncio.Task[None] | None = None

    async def primary(self) -> tuple[str, int]:
        """Return host and port of the primary by the first Sentinel that knows it.

        The next time it is asked first. Raises a redis ConnectionError that says what each of them
        answered.
        """
        answers = []
        for server in self.servers:
            where = f"{server['host']}:{server['port']}"
            try:
                if address := await self._ask(server):
                    self._latest = address
                    self.servers = [
                        server,
                        *(other for other in self.servers if other is not server),
                    ]
                    return address
                answers.append(f"{where} does not know it")
            except RedisError as error:
                answers.append(f"{where}: {error}")
        raise RedisConnectionError(
            f"no Sentinel names a primary for {self.service!r} ({'; '.join(answers)})"
        )

    def has_replaced(self, host: str, port: int) -> bool:
        """Return whether another primary is known, and see to it that one soon is.

        Sentinel leaves a replaced primary writable for about 10 seconds, and what is written there
        is lost.
        """
        now = time.monotonic()
        if now - self._asked_at > ASK_EVERY_S and self._asking is None:
            self._asked_at = now
            self._asking = asyncio.get_running_loop().create_task(self._ask_again())
        return self._latest not in {None, (host, port)}

    async def _ask_again(self) -> None:
        try:
            with suppress(RedisError):
                await self.primary()
        finally:
            self._asking = None

    async def _ask(self, server: dict[str, Any]) -> tuple[str, int] | None:
        # A connection for each question: they are rare, and none is left open.
        client = AsyncRedis.from_pool(ConnectionPool(**server))
        try:
            command = "SENTINEL GET-MASTER-ADDR-BY-NAME"  # redis-py parses the answer to this name
            address = await client.execute_command(command, self.service)  # type: ignore[no-untyped-call]
            return None if address is None else (address[0].decode(), address[1])
        finally:
            await client.aclose()


class _AsksSentinel(Connection):
    """Connects to the primary that the Sentinels name, and leaves it for the next one.

    redis-py's own SentinelConnectionPool cannot wait for a free connection.
    """

    def __init__(self, *, sentinels: Sentinels, **options: Any) -> None:
        super().__init__(**options)
        self._sentinels = sentinels

    async def _connect(self) -> None:
        self.host, self.port = await self._sentinels.primary()
        await super()._connect()  # type: ignore[no-untyped-call]

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        if self.is_connected and self.is_replaced():
            await self.disconnect()
        await super().send_packed_command(command, check_health)

    def is_replaced(self) -> bool:
        """Return whether the Sentinels name another primary than the last connection had."""
        return self._sentinels.has_replaced(self.host, int(self.port))


def is_replaced(connection: AbstractConnection) -> bool:
    """Return whether Sentinels name another primary than the last connection had."""
    return isinstance(connection, _AsksSentinel) and connection.is_replaced()


class _PrimaryConnection(_LeavesReplica, _AsksSentinel):
    pass


class _PrimaryTlsConnection(_LeavesReplica, _AsksSentinel, SSLConnection):
    pass


CONNECTIONS: dict[type[AbstractConnection], type[AbstractConnection]] = {
    Connection: _TcpConnection,
    SSLConnection: _TlsConnection,
    UnixDomainSocketConnection: _UnixConnection,
}
TO_PRIMARY: dict[type[AbstractConnection], type[AbstractConnection]] = {
    _TcpConnection: _PrimaryConnection,
    _TlsConnection: _PrimaryTlsConnection,
}

SENTINEL_PORT = 26379
SENTINEL_TIMEOUT_S = 1.0  # so that the API can ask a second one before it answers 503
ASK_EVERY_S = 0.5
OF_SENTINEL = "sentinel_"


def options_of(url: str) -> dict[str, Any]:
    """Return the options of a connection, its class included.

    Beside the URLs of redis-py, `redis+sentinel://[USER:PASSWORD@]HOST[:PORT],.../SERVICE[/DB]`,
    and `rediss+sentinel://` for TLS to Sentinels and servers. In the query, the options of
    connections to a Sentinel start with `sentinel_`; those of TLS count for both.

    Raises UnusableRedis for a URL that cannot be read.
    """
    try:
        return _through_sentinel(url) if "+sentinel:" in url else _direct(url)
    except (TypeError, ValueError, RedisError) as error:
        raise UnusableRedis(f"HONE_REDIS_URL cannot be used: {error}") from error


def _direct(url: str) -> dict[str, Any]:
    options: dict[str, Any] = {**parse_url(url)}
    kind = CONNECTIONS[options.pop("connection_class", Connection)]
    kind(**options)  # rejects options that it does not know
    return options | {"connection_class": kind}


def _through_sentinel(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    scheme = parts.scheme.removesuffix("+sentinel")
    credentials, _, hosts = parts.netloc.rpartition("@")
    service, _, db = parts.path.strip("/").partition("/")
    if not service or not hosts or scheme not in {"redis", "rediss"}:
        raise ValueError("expected redis+sentinel://HOST[:PORT],.../SERVICE[/DB]")
    query = parse_qsl(parts.query)
    of_primary = [(name, value) for name, value in query if not name.startswith(OF_SENTINEL)]
    tls = [(name, value) for name, value in query if name.startswith("ssl_")]
    of_sentinel = urlencode(
        tls
        + [
            (name.removeprefix(OF_SENTINEL), value)
            for name, value in query
            if name.startswith(OF_SENTINEL)
        ]
    )
    servers = [
        {
            "port": SENTINEL_PORT,
            "socket_timeout": SENTINEL_TIMEOUT_S,
            "socket_connect_timeout": SENTINEL_TIMEOUT_S,
            "retry": AsyncRetry(NoBackoff(), 0),
            "protocol": 2,
            **_direct(f"{scheme}://{host}?{of_sentinel}"),
        }
        for host in hosts.split(",")
    ]
    options = _direct(f"{scheme}://{credentials}@primary/{int(db or 0)}?{urlencode(of_primary)}")
    options["connection_class"] = TO_PRIMARY[options["connection_class"]]
    return _without(options, "host") | {"sentinels": Sentinels(service, servers)}


def _without(options: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key != name}


def place_of(url: str) -> str:
    """Return where a URL points, without its credentials and options."""
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] + parts.path


def async_client(url: str, **options: Any) -> AsyncRedis:
    """Return a client whose lost connections are redis errors, however they were lost.

    Raises UnusableRedis for a URL that cannot be read.
    """
    return AsyncRedis.from_pool(ConnectionPool(**{**options, **options_of(url)}))


def api_client(url: str) -> AsyncRedis:
    """Return a client without timeouts: use it within `answered_within`."""
    return async_client(url, **_options(None, API_RETRIES))


def renewal_client(url: str, give_up_s: float) -> AsyncRedis:
    """Return a client that gives up after `give_up_s`: redis-py may wait for three timeouts.

    The command, a new connection and its retry have one timeout each.
    """
    return async_client(url, **_options(give_up_s / 3, API_RETRIES))


def worker_client(url: str) -> AsyncRedis:
    """Return a client with long timeouts and several retries."""
    return async_client(url, **_options(WORKER_TIMEOUT_S, WORKER_RETRIES))


def listening_client(url: str) -> AsyncRedis:
    """Return a client for pub/sub, which waits for messages without a timeout."""
    return async_client(url, socket_timeout=None, protocol=2)


@asynccontextmanager
async def answered_within(timeout_s: float | None) -> AsyncIterator[None]:
    """Raise TimeoutError if Redis takes longer than `timeout_s` in the body; None: no limit.

    Time counts only while the event loop turns, in ticks: when a busy loop comes late, the answer
    may be in the socket, and it is read before the next tick.
    """
    if timeout_s is None:
        yield
        return
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def wait(ticks: int) -> None:
        nonlocal timer
        if ticks:
            timer = loop.call_later(timeout_s / TICKS, wait, ticks - 1)
        else:
            scope.reschedule(loop.time())

    async with asyncio.timeout(None) as scope:
        wait(TICKS)
        try:
            yield
        finally:
            timer.cancel()


def _options(timeout_s: float | None, retries: int) -> dict[str, Any]:
    return {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "retry": AsyncRetry(BACKOFF, retries),
        "protocol": 2,
    }


async def check_server(client: AsyncRedis) -> None:
    """Raise UnusableRedis if this Redis would lose or reject records.

    It must hold records of release 1.0 or later, or none.
    Raises a redis ConnectionError for a replica, which may be about to become the primary.
    """
    info = await client.info()
    if info.get("role") == "slave":
        raise RedisConnectionError("this Redis is a replica: it refuses writes")
    version = tuple(int(part) for part in str(info["redis_version"]).split(".")[:2])
    if version < OLDEST:
        raise UnusableRedis(f"Redis {info['redis_version']} is too old: 6.2 or newer is required.")
    if info.get("redis_mode") == "cluster":
        raise UnusableRedis(
            "Redis Cluster is not supported: Hone requires one Redis that holds all its keys."
        )
    policy = info.get("maxmemory_policy")
    if policy != "noeviction":
        raise UnusableRedis(
            f"maxmemory-policy is {policy}: Redis would evict refinements when memory is full. Set"
            " it to noeviction; Hone then rejects new requests before memory is full."
        )
    await _check_format(client)


async def _check_format(client: AsyncRedis) -> None:
    """Raise UnusableRedis for records without the mark of their format; mark a Redis without any.

    The first process of a service marks it before it writes anything else.
    """
    if await client.exists(keys.FORMAT):
        return
    async for _ in client.scan_iter(f"{keys.PREFIX}*", count=SCANNED_AT_ONCE):
        if await client.exists(keys.FORMAT):  # another process has marked it meanwhile
            return
        raise UnusableRedis(
            "this Redis has records of a Hone before 1.0, which this release cannot read: set"
            " HONE_DATA_DIR or HONE_REDIS_URL to another one, or empty this one; nothing was"
            " changed"
        )
    await client.set(keys.FORMAT, FIRST_RELEASE, nx=True)


RETRY_AFTER_S = 5
ARCHIVE_RETRY_S = 30


class _Refusals:
    """What `refusals` returns; a context manager made of a generator took three times as long."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None and (refusal := _refusal_for(error)) is not None:
            raise refusal from error


_REFUSALS = _Refusals()


def refusals() -> AbstractContextManager[None]:
    """Raise Unavailable or Overloaded if Redis is unreachable, full, or does not answer in time.

    Unavailable also stands for what only a server of a later release can read: ask again, while
    servers are being replaced.
    """
    return _REFUSALS


def refusing(
    method: Callable[Concatenate[S, P], Awaitable[T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Wrap a method in `refusals`.

    The time that Redis takes to answer is bounded by the committer. Here is only a limit for a
    process with so much to do that its own work waits.
    """

    @wraps(method)
    async def refused(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with refusals():
            async with asyncio.timeout(TURN_S):
                return await method(self, *args, **kwargs)

    return refused


def _refusal_for(error: BaseException) -> HoneError | None:
    if isinstance(error, RedisTimeoutError | TimeoutError):
        return Unavailable("Redis timed out", retry_after_s=RETRY_AFTER_S)
    if isinstance(error, RedisConnectionError):
        return Unavailable("Redis is unreachable", retry_after_s=RETRY_AFTER_S)
    if isinstance(error, ArchiveAway | UnreadableRecord):
        return _unreadable(error)
    if not isinstance(error, RedisError):
        return None
    # Redis 6.2 puts the code of a script's error inside a message of its own.
    if isinstance(error, OutOfMemoryError) or "OOM" in str(error):
        return Overloaded("the memory of Redis is full", retry_after_s=RETRY_AFTER_S)
    is_passing = is_away(error)
    return Unavailable("Redis refuses writes", retry_after_s=RETRY_AFTER_S) if is_passing else None


def _unreadable(error: ArchiveAway | UnreadableRecord) -> Unavailable:
    if isinstance(error, ArchiveAway):
        return Unavailable(f"the record is archived: {error}", retry_after_s=ARCHIVE_RETRY_S)
    by_whom = "a later release of Hone wrote it, and this server cannot read"
    why = "cannot read" if isinstance(error, UnreadableSecrets) else by_whom
    return Unavailable(f"{why} {error}", retry_after_s=RETRY_AFTER_S)
