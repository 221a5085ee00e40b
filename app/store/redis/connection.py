"""Clients of Redis, the requirements that a server must meet, and the errors when it fails them."""

import asyncio
import logging
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from functools import cache, wraps
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
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from app.contract.errors import HoneError, Overloaded, Unavailable
from app.store.redis import keys
from app.store.redis.keys import PLAIN, Layout
from app.store.redis.scripts import SCRIPTS, LuaScript
from app.store.state import ArchiveAway, UnreadableRecord, UnreadableSecrets

OLDEST = (6, 2)
OLDEST_IN_CLUSTER = (7, 0)  # the first with sharded messages
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


class NotSent(RedisConnectionError):
    """No connection could be opened for a command: it has not reached Redis."""


class WritesRefused(RedisConnectionError):
    """This Redis refuses writes: it is a replica, or lacks its own replicas."""


class SlotIsMoving(RedisConnectionError):
    """A cluster moves the slot key by key: nothing can be done with it until it is whole again."""

    def __init__(self, answer: Exception) -> None:
        super().__init__(
            "the cluster is moving the slot of Hone's keys key by key; Hone goes on when the slot"
            f" is whole ({answer})"
        )


REFUSED_WRITE = re.compile(r"\b(OOM|READONLY|NOREPLICAS|MISCONF|MASTERDOWN)\b")
"""Codes with which Redis refuses writes for a time; a script that meets one wrote nothing."""

REFUSES_WRITES = "Redis refuses writes"
REPLACED = re.compile(r"\b(READONLY|NOREPLICAS)\b")


class BoundedBackoff(ExponentialWithJitterBackoff):
    """Pauses for any number of failures: from the 1,024th on redis-py raises OverflowError."""

    def compute(self, failures: int) -> float:
        """Return the seconds to wait after so many failures."""
        return super().compute(min(failures, 30))


BACKOFF = BoundedBackoff(base=0.01, cap=0.1)
# redis-py cuts the code off the message of an error that has a class of its own.
AWAY = (RedisConnectionError, RedisTimeoutError, OutOfMemoryError, ReadOnlyError, MasterDownError)


def is_away(error: BaseException) -> bool:
    """Return whether Redis cannot be reached, does not answer, or refuses writes for a time."""
    if isinstance(error, AWAY):
        return True
    return isinstance(error, RedisError) and REFUSED_WRITE.search(str(error)) is not None


def lost_by(error: Exception) -> RedisConnectionError | None:
    """Return the error of a connection that is to be left because of an answer, if it is.

    The primary was replaced or lacks its replicas, or this node of a cluster does not have the
    slot. Of an ASK the other half of the slot is elsewhere, so that is not followed.
    """
    if isinstance(error, ReadOnlyError) or REPLACED.search(str(error)):
        return WritesRefused(f"{REFUSES_WRITES}: {error}")
    if isinstance(error, MovedError):
        return RedisConnectionError(f"another node has the slot: {error}")
    if isinstance(error, AskError | TryAgainError):
        return SlotIsMoving(error)
    if type(error) is ClusterDownError:
        return RedisConnectionError(f"the cluster is down: {error}")
    return None


async def run_script(client: AsyncRedis, script: LuaScript, *args: str | bytes | int) -> Any:
    """Return the answer of a script; send its text if Redis does not have it."""
    try:
        return await client.evalsha(script.sha, 0, *args)
    except NoScriptError:
        return await client.eval(script.text, 0, *args)


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

    Such a primary is a replica, has lost its replicas, or the slot of a cluster. The next
    connection asks Sentinel or the cluster, or resolves the name, again.
    """

    async def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*args, **options)
        except RedisError as error:
            if (lost := lost_by(error)) is None:
                raise
            await self.disconnect()
            raise lost from error


class _TcpConnection(_LeavesReplica, Connection):
    pass


class _TlsConnection(_LeavesReplica, SSLConnection):
    pass


class _UnixConnection(_LeavesReplica, UnixDomainSocketConnection):
    pass


async def _answer(server: AbstractConnection, *command: str) -> Any:
    await server.send_command(*command)
    return await server.read_response()


class Primaries:
    """Servers that know the address of a primary; each is the options of a connection."""

    known_by = ""
    layout = PLAIN

    def __init__(self, of: str, servers: Sequence[dict[str, Any]]) -> None:
        self.of = of
        self.servers = servers
        self.learnt: Sequence[dict[str, Any]] = ()
        self._answered = ""
        self._latest: tuple[str, int] | None = None
        self._asked_at = 0.0
        self._asking: asyncio.Task[None] | None = None

    async def primary(self) -> tuple[str, int]:
        """Return host and port of the primary by the first server that knows it.

        The next time it is asked first. Raises a redis ConnectionError that says what each of them
        answered.
        """
        answers = []
        servers = (*self.servers, *self.learnt)
        places = {f"{server['host']}:{server['port']}": server for server in servers}
        for where in sorted(places, key=lambda place: place != self._answered):
            try:
                if address := await self._asked(places[where]):
                    self._latest, self._answered = address, where
                    return address
                answers.append(f"{where} does not know it")
            except RedisError as error:
                answers.append(f"{where}: {error}")
        raise RedisConnectionError(
            f"no {self.known_by} names a primary for {self.of!r} ({'; '.join(answers)})"
        )

    def has_replaced(self, host: str, port: int) -> bool:
        """Return whether another primary is known, and see to it that one soon is.

        Sentinel leaves a replaced primary writable for about 10 seconds, and what is written there
        is lost. A primary that is cut off from its cluster hears no messages, and one that stood
        still has some that are lost.
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

    async def _asked(self, server: dict[str, Any]) -> tuple[str, int] | None:
        # A connection for each question: they are rare, and none is left open.
        connection = server["connection_class"](
            **{name: value for name, value in server.items() if name != "connection_class"}
        )
        try:
            await connection.connect()
            return await self.ask(connection, server["host"])
        finally:
            await connection.disconnect(nowait=True)

    async def ask(self, server: AbstractConnection, host: str) -> tuple[str, int] | None:
        """Return the address that one server names, which was reached under `host`."""
        raise NotImplementedError


class Sentinels(Primaries):
    """Sentinels, which name the primary of a service."""

    known_by = "Sentinel"

    async def ask(self, server: AbstractConnection, host: str) -> tuple[str, int] | None:
        """Return the address that a Sentinel names."""
        address = await _answer(server, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.of)
        return None if address is None else (address[0].decode(), int(address[1]))


class ClusterNodes(Primaries):
    """Nodes of a cluster, which name the primary that has the slot of all keys of a layout."""

    known_by = "node"

    def __init__(self, layout: Layout, servers: Sequence[dict[str, Any]]) -> None:
        super().__init__(layout.prefix, servers)
        self.layout = layout

    async def ask(self, server: AbstractConnection, host: str) -> tuple[str, int] | None:
        """Return the address that a node names, unless the others have left that node behind.

        The nodes of its answer are asked too, when those of the URL do not answer.
        """
        if b"cluster_state:ok" not in await _answer(server, "CLUSTER", "INFO"):
            raise RedisConnectionError("its cluster is down")
        ranges = await _answer(server, "CLUSTER", "SLOTS")
        address = None
        learnt = list[tuple[str, int]]()
        for first, last, *nodes in ranges:
            named = [((name or b"").decode() or host, port) for name, port, *_ in nodes]
            learnt += named
            if first <= self.layout.slot <= last:
                address = named[0]
        options = self.servers[0]
        self.learnt = [options | {"host": name, "port": port} for name, port in set(learnt)]
        return address


class _AsksForPrimary(Connection):
    """Connects to the primary that is named, and leaves it for the next one.

    redis-py's own SentinelConnectionPool cannot wait for a free connection. Its RedisCluster takes
    ten times as long for a command.
    """

    def __init__(self, *, primaries: Primaries, **options: Any) -> None:
        super().__init__(**options)
        self._primaries = primaries

    async def _connect(self) -> None:
        self.host, self.port = await self._primaries.primary()
        await super()._connect()  # type: ignore[no-untyped-call]

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        if self.is_connected and self.is_replaced():
            await self.disconnect()
        await super().send_packed_command(command, check_health)

    def is_replaced(self) -> bool:
        """Return whether another primary is named than the last connection had."""
        return self._primaries.has_replaced(self.host, int(self.port))


def is_replaced(connection: AbstractConnection) -> bool:
    """Return whether another primary is named than the last connection had."""
    return isinstance(connection, _AsksForPrimary) and connection.is_replaced()


class _PrimaryConnection(_LeavesReplica, _AsksForPrimary):
    pass


class _PrimaryTlsConnection(_LeavesReplica, _AsksForPrimary, SSLConnection):
    pass


class _SpellsKeys(_PrimaryConnection):
    def pack_command(self, *args: Any) -> list[bytes]:
        return super().pack_command(*self._primaries.layout.command(args))


class _NodeTlsConnection(_SpellsKeys, _PrimaryTlsConnection):
    pass


@cache
def _of_cell(number: int) -> Layout:
    return Layout(f"c{number:02}", {script.sha: script.text for script in SCRIPTS.values()})


def layout_of(url: str) -> Layout:
    """Return how keys are spelled in the Redis of a URL.

    The path of a cluster is the number of a cell. Raises ValueError if it is none.
    """
    if OF_CLUSTER not in url:
        return PLAIN
    return _of_cell(int(urlsplit(url).path.strip("/") or 0) if "://" in url else 0)


def layout_in(client: AsyncRedis) -> Layout:
    """Return how the connections of a client spell keys."""
    primaries: Primaries | None = client.connection_pool.connection_kwargs.get("primaries")
    return PLAIN if primaries is None else primaries.layout


CONNECTIONS: dict[type[AbstractConnection], type[AbstractConnection]] = {
    Connection: _TcpConnection,
    SSLConnection: _TlsConnection,
    UnixDomainSocketConnection: _UnixConnection,
}
Kinds = dict[type[AbstractConnection], type[AbstractConnection]]
TO_PRIMARY: Kinds = {_TcpConnection: _PrimaryConnection, _TlsConnection: _PrimaryTlsConnection}
TO_NODE: Kinds = {_TcpConnection: _SpellsKeys, _TlsConnection: _NodeTlsConnection}

SENTINEL_PORT = 26379
NODE_PORT = 6379
ASKED_TIMEOUT_S = 1.0  # so that the API can ask a second one before it answers 503
ASK_EVERY_S = 0.5
OF_SENTINEL = "sentinel_"
OF_CLUSTER = "+cluster:"
ENCODED = "a port is no number, or a password has a /, ? or #: write %2F, %3F and %23 instead"


def options_of(url: str) -> dict[str, Any]:
    """Return the options of a connection, its class included.

    Beside the URLs of redis-py, `redis+sentinel://[USER:PASSWORD@]HOST[:PORT],.../SERVICE[/DB]`,
    and `rediss+sentinel://` for TLS to Sentinels and servers. In the query, the options of
    connections to a Sentinel start with `sentinel_`; those of TLS count for both. And
    `redis+cluster://[USER:PASSWORD@]HOST[:PORT],...[/CELL]` for some nodes of a cluster, or
    `rediss+cluster://`.

    Raises UnusableRedis for a URL that cannot be read.
    """
    try:
        _require_encoded(url)
        if OF_CLUSTER in url:
            return _in_cluster(url)
        return _through_sentinel(url) if "+sentinel:" in url else _direct(url)
    except (TypeError, ValueError, RedisError) as error:
        said = ENCODED if "Port " in str(error) else error  # the others name no part of a password
        raise UnusableRedis(f"HONE_REDIS_URL cannot be used: {said}") from None


def _require_encoded(url: str) -> None:
    """Raise ValueError for a password whose end stands where path or fragment should."""
    parts = urlsplit(url)
    if "@" in parts.path + parts.fragment and parts.scheme != "unix":
        raise ValueError(ENCODED)


def _direct(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    if parts.scheme in {"redis", "rediss"} and not (parts.path.strip("/") or "0").isdecimal():
        raise ValueError(f"the database {parts.path.strip('/')!r} is not a number")
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
        {"port": SENTINEL_PORT, **_asked(f"{scheme}://{host}?{of_sentinel}")}
        for host in hosts.split(",")
    ]
    options = _direct(f"{scheme}://{credentials}@primary/{int(db or 0)}?{urlencode(of_primary)}")
    return _to(TO_PRIMARY, options, Sentinels(service, servers))


def _in_cluster(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    scheme = parts.scheme.removesuffix("+cluster")
    credentials, _, hosts = parts.netloc.rpartition("@")
    is_cell = (parts.path.strip("/") or "0").isdecimal()
    if not hosts or not is_cell or scheme not in {"redis", "rediss"}:
        raise ValueError("expected redis+cluster://HOST[:PORT],...[/CELL]")
    node = f"{scheme}://{credentials}@{{}}?{parts.query}"
    servers = [{"port": NODE_PORT, **_asked(node.format(host))} for host in hosts.split(",")]
    return _to(TO_NODE, _direct(node.format("primary")), ClusterNodes(layout_of(url), servers))


def _asked(url: str) -> dict[str, Any]:
    """Return the options of a connection on which one question is asked."""
    return {
        **_direct(url),
        "socket_timeout": ASKED_TIMEOUT_S,
        "socket_connect_timeout": ASKED_TIMEOUT_S,
        "retry": AsyncRetry(NoBackoff(), 0),
        "protocol": 2,
    }


def _to(kinds: Kinds, options: dict[str, Any], primaries: Primaries) -> dict[str, Any]:
    """Return the options of connections to the primary that is named."""
    kept = {name: value for name, value in options.items() if name != "host"}
    return kept | {"connection_class": kinds[options["connection_class"]], "primaries": primaries}


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


async def check_server(client: AsyncRedis, cell: int | None = None) -> None:
    """Raise UnusableRedis if this Redis would lose or reject records.

    It must hold records of release 1.0 or later, or none; of several cells those of this one.
    Raises WritesRefused for a replica, which may be about to become the primary.
    """
    info = await client.info()
    if info.get("role") == "slave":
        raise WritesRefused("this Redis is a replica: it refuses writes")
    version = tuple(int(part) for part in str(info["redis_version"]).split(".")[:2])
    is_cluster = bool(info.get("cluster_enabled"))
    oldest = OLDEST_IN_CLUSTER if is_cluster else OLDEST
    if version < oldest:
        needed = ".".join(map(str, oldest))
        raise UnusableRedis(
            f"Redis {info['redis_version']} is too old: {needed} or newer is required."
        )
    if is_cluster and layout_in(client) is PLAIN:
        raise UnusableRedis(
            "this Redis is a node of a cluster: set HONE_REDIS_URL to redis+cluster://HOST:PORT,..."
        )
    policy = info.get("maxmemory_policy")
    if policy != "noeviction":
        raise UnusableRedis(
            f"maxmemory-policy is {policy}: Redis would evict refinements when memory is full. Set"
            " it to noeviction; Hone then rejects new requests before memory is full."
        )
    await _check_format(client)
    if cell is not None:
        await _check_cell(client, cell)


async def _check_cell(client: AsyncRedis, number: int) -> None:
    """Raise UnusableRedis for another cell; mark one that has no number."""
    await client.set(keys.CELL, number, nx=True)
    if int(found := await client.get(keys.CELL) or b"0") != number:
        raise UnusableRedis(
            f"this Redis is cell {int(found)}, and HONE_CELLS_URL names it as cell {number}: give"
            " the URLs in the order in which the cells were added"
        )


async def _check_format(client: AsyncRedis) -> None:
    """Raise UnusableRedis for records without the mark of their format; mark a Redis without any.

    The first process of a service marks it before it writes anything else.
    """
    if await client.exists(keys.FORMAT):
        return
    async for _ in client.scan_iter(keys.PREFIX + "*", count=SCANNED_AT_ONCE):
        if await client.exists(keys.FORMAT):  # another process has marked it meanwhile
            return
        raise UnusableRedis(
            "this Redis has records of a Hone before 1.0, which this release cannot read: set"
            " HONE_DATA_DIR or HONE_REDIS_URL to another one, or empty this one; nothing was"
            " changed"
        )
    await client.set(keys.FORMAT, keys.FIRST_RELEASE, nx=True)


RETRY_AFTER_S = 5
ARCHIVE_RETRY_S = 30
UNREAD_RETRY_S = 1
UNREAD = (
    "a package that brings it may be missing here (install it), or a later release of Hone wrote it"
    " (ask again, while servers are being replaced)"
)


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

    Unavailable also stands for what only a server of a later release, or with more packages, can
    read: ask again at once, since such a server may stand beside this one.
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
        return Unavailable(_why_away(error), retry_after_s=RETRY_AFTER_S)
    if isinstance(error, ArchiveAway | UnreadableRecord):
        return _unreadable(error)
    if not isinstance(error, RedisError):
        return None
    # Redis 6.2 puts the code of a script's error inside a message of its own.
    if isinstance(error, OutOfMemoryError) or "OOM" in str(error):
        return Overloaded("the memory of Redis is full", retry_after_s=RETRY_AFTER_S)
    is_passing = is_away(error)
    return Unavailable(REFUSES_WRITES, retry_after_s=RETRY_AFTER_S) if is_passing else None


def _why_away(error: RedisConnectionError) -> str:
    match error:
        case SlotIsMoving():
            return str(error)
        case WritesRefused():
            return REFUSES_WRITES
        case AuthenticationError():
            return "Redis refuses the password"
        case RedisConnectionError(__cause__=RedisConnectionError() as cause):
            return _why_away(cause)
        case _:
            return "Redis is unreachable"


def _unreadable(error: ArchiveAway | UnreadableRecord) -> Unavailable:
    if isinstance(error, ArchiveAway):
        return Unavailable(f"the record is archived: {error}", retry_after_s=ARCHIVE_RETRY_S)
    text = f"this server cannot read {error}"
    if isinstance(error, UnreadableSecrets):
        return Unavailable(text, retry_after_s=RETRY_AFTER_S)
    return Unavailable(f"{text}: {UNREAD}", retry_after_s=UNREAD_RETRY_S)
