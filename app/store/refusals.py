"""What a caller is told when Redis cannot do its part."""

from collections.abc import Iterator
from contextlib import contextmanager

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from app.contract.errors import Overloaded, Unavailable
from app.store.connection import is_away
from app.store.state import UnreadableRecord, UnreadableSecrets

RETRY_AFTER_S = 5


@contextmanager
def refusals() -> Iterator[None]:
    """Raise Unavailable or Overloaded if Redis is unreachable, full, or does not answer in time.

    Unavailable also stands for what only a server of a later release can read: ask again, while
    servers are being replaced.
    """
    try:
        yield
    except (RedisTimeoutError, TimeoutError) as error:
        raise Unavailable("Redis timed out", retry_after_s=RETRY_AFTER_S) from error
    except RedisConnectionError as error:
        raise Unavailable("Redis is unreachable", retry_after_s=RETRY_AFTER_S) from error
    except UnreadableSecrets as error:
        raise Unavailable(f"cannot read {error}", retry_after_s=RETRY_AFTER_S) from error
    except UnreadableRecord as error:
        raise Unavailable(
            f"a later release of Hone wrote it, and this server cannot read {error}",
            retry_after_s=RETRY_AFTER_S,
        ) from error
    except RedisError as error:
        # Redis 6.2 puts the code of a script's error inside a message of its own.
        if isinstance(error, OutOfMemoryError) or "OOM" in str(error):
            raise Overloaded("the memory of Redis is full", retry_after_s=RETRY_AFTER_S) from error
        if not is_away(error):
            raise
        raise Unavailable("Redis refuses writes", retry_after_s=RETRY_AFTER_S) from error
