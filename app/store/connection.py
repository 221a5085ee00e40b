"""Clients of Redis, and the requirements that a Redis server must meet."""

from typing import Any

from redis import Redis
from redis.asyncio import BlockingConnectionPool
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialWithJitterBackoff
from redis.retry import Retry

OLDEST = (6, 2)

# The API must answer 503 within `redis_timeout_s`, and redis-py may wait for three timeouts: that
# of the command, of a new connection, of its retry. A worker can wait, and keeps paid replies.
TIMEOUTS_PER_REQUEST = 3
API_RETRIES = 1
API_CONNECTIONS = 8  # one event loop does not use more
WORKER_TIMEOUT_S = 5.0
WORKER_RETRIES = 3


class UnusableRedis(Exception):
    """This Redis would lose or reject records; the message says what to change."""


def api_client(url: str, give_up_s: float) -> AsyncRedis:
    """Return a client that gives up after `give_up_s`, the wait for a free connection included."""
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=API_CONNECTIONS,
        timeout=give_up_s,
        **_options(give_up_s / TIMEOUTS_PER_REQUEST, API_RETRIES),
    )
    return AsyncRedis.from_pool(pool)


def worker_client(url: str) -> AsyncRedis:
    """Return a client with long timeouts and several retries."""
    return AsyncRedis.from_url(url, **_options(WORKER_TIMEOUT_S, WORKER_RETRIES))


def listening_client(url: str) -> AsyncRedis:
    """Return a client for pub/sub, which waits for messages without a timeout."""
    return AsyncRedis.from_url(url, socket_timeout=None, protocol=2)


def blocking_client(url: str, give_up_s: float) -> Redis:
    """Return a client for threads that gives up after `give_up_s`: RQ is synchronous."""
    timeout_s = give_up_s / TIMEOUTS_PER_REQUEST
    return Redis.from_url(
        url,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(ExponentialWithJitterBackoff(base=0.01, cap=0.1), API_RETRIES),
        protocol=2,
    )


def _options(timeout_s: float, retries: int) -> dict[str, Any]:
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
