"""Clients of Redis, and the requirements that a Redis server must meet."""

import asyncio
import logging
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

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
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MasterDownError, OutOfMemoryError, ReadOnlyError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

OLDEST = (6, 2)

API_RETRIES = 1
TICKS = 10  # of a timeout
WORKER_TIMEOUT_S = 5.0
WORKER_RETRIES = 3
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0

T = TypeVar("T")
log = logging.getLogger(__name__)


class UnusableRedis(Exception):
    """This Redis would lose or reject records; the message says what to change."""


REFUSED_WRITE = re.compile(r"\b(OOM|READONLY|NOREPLICAS|MISCONF|MASTERDOWN)\b")
"""Codes with which Redis refuses writes for a time; a script that meets one wrote nothing."""

# redis-py cuts the code off the message of an error that has a class of its own.
AWAY = (RedisConnectionError, RedisTimeoutError, OutOfMemoryError, ReadOnlyError, MasterDownError)


def is_away(error: BaseException) -> bool:
    """Return whether Redis cannot be reached, does not answer, or refuses writes for a time."""
    if isinstance(error, AWAY):
        return True
    return isinstance(error, RedisError) and REFUSED_WRITE.search(str(error)) is not None


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


@contextmanager
def _closed_transport() -> Iterator[None]:
    """Raise a connection error where uvloop has closed the transport after a TCP reset.

    uvloop raises RuntimeError("unable to perform operation on <TCPTransport closed=True ...>"),
    which redis-py does not know and passes on.
    """
    try:
        yield
    except RuntimeError as error:
        if "unable to perform operation on" not in str(error):
            raise
        raise RedisConnectionError(f"the connection was reset: {error}") from error


class _SurvivesReset(AbstractConnection):
    """Reports a reset connection as redis-py reports every other lost connection."""

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        with _closed_transport():
            await super().send_packed_command(command, check_health)

    async def read_response(self, *args: Any, **options: Any) -> Any:
        with _closed_transport():
            return await super().read_response(*args, **options)

    async def can_read(self) -> bool:
        with _closed_transport():
            return await super().can_read()

    async def disconnect(self, *args: Any, **options: Any) -> None:
        try:
            with _closed_transport():
                await super().disconnect(*args, **options)
        except RedisConnectionError:
            self._reader = self._writer = None


class _TcpConnection(_SurvivesReset, Connection):
    pass


class _TlsConnection(_SurvivesReset, SSLConnection):
    pass


class _UnixConnection(_SurvivesReset, UnixDomainSocketConnection):
    pass


CONNECTIONS: dict[type[AbstractConnection], type[AbstractConnection]] = {
    Connection: _TcpConnection,
    SSLConnection: _TlsConnection,
    UnixDomainSocketConnection: _UnixConnection,
}


def async_client(url: str, **options: Any) -> AsyncRedis:
    """Return a client whose lost connections are redis errors, however they were lost."""
    parsed: dict[str, Any] = {**options, **parse_url(url)}
    kind = parsed.pop("connection_class", Connection)
    return AsyncRedis.from_pool(ConnectionPool(connection_class=CONNECTIONS[kind], **parsed))


def api_client(url: str) -> AsyncRedis:
    """Return a client without timeouts: use it within `answered_within`."""
    return async_client(url, **_options(None, API_RETRIES))


def renewal_client(url: str, give_up_s: float) -> AsyncRedis:
    """Return a client that gives up after `give_up_s`: redis-py may wait for three timeouts.

    They are those of the command, of a new connection and of its retry.
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
        "retry": AsyncRetry(ExponentialWithJitterBackoff(base=0.01, cap=0.1), retries),
        "protocol": 2,
    }


async def check_server(client: AsyncRedis) -> None:
    """Raise UnusableRedis if this Redis would lose or reject records."""
    info = await client.info()
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
