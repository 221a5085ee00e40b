"""What a caller is told when Redis cannot do its part."""

from contextlib import AbstractContextManager

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from app.contract.errors import HoneError, Overloaded, Unavailable
from app.store.connection import is_away
from app.store.state import UnreadableRecord, UnreadableSecrets

RETRY_AFTER_S = 5


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


def _refusal_for(error: BaseException) -> HoneError | None:
    if isinstance(error, RedisTimeoutError | TimeoutError):
        return Unavailable("Redis timed out", retry_after_s=RETRY_AFTER_S)
    if isinstance(error, RedisConnectionError):
        return Unavailable("Redis is unreachable", retry_after_s=RETRY_AFTER_S)
    if isinstance(error, UnreadableRecord):
        by_whom = "a later release of Hone wrote it, and this server cannot read"
        why = "cannot read" if isinstance(error, UnreadableSecrets) else by_whom
        return Unavailable(f"{why} {error}", retry_after_s=RETRY_AFTER_S)
    if not isinstance(error, RedisError):
        return None
    # Redis 6.2 puts the code of a script's error inside a message of its own.
    if isinstance(error, OutOfMemoryError) or "OOM" in str(error):
        return Overloaded("the memory of Redis is full", retry_after_s=RETRY_AFTER_S)
    is_passing = is_away(error)
    return Unavailable("Redis refuses writes", retry_after_s=RETRY_AFTER_S) if is_passing else None
