"""The worker's own connections to Redis."""

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff

TIMEOUT_S = 5.0  # longer than any command blocks
LONGEST_PAUSE_S = 2.0
FIRST_PAUSE_S = 0.05

FOR_EVER = -1


def persistent_client(url: str, name: str) -> Redis:
    """Return a client that sends a command again until it is answered."""
    return _client(url, name, FOR_EVER)


def single_try_client(url: str, name: str) -> Redis:
    """Return a client that sends nothing twice."""
    return _client(url, name, 0)


def backoff() -> ExponentialWithJitterBackoff:
    """Return how long to wait after so many failures in a row, in seconds, with full jitter."""
    return ExponentialWithJitterBackoff(base=FIRST_PAUSE_S, cap=LONGEST_PAUSE_S)


def _client(url: str, name: str, retries: int) -> Redis:
    return Redis.from_url(
        url,
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        retry=Retry(backoff(), retries),
        client_name=name,
        protocol=2,
    )
