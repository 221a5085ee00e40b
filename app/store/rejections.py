"""What servers have rejected for their models, so that each worker need not be told again."""

import logging
from collections.abc import Collection

from redis.asyncio import Redis
from redis.exceptions import RedisError

from app.contract.values import value
from app.store import keys

KEPT_S = 86_400
"""A server may accept later what it rejects now."""

_log = logging.getLogger(__name__)


@value(slots=True)
class Rejections:
    """What workers share of one server, whose address and key `fingerprint` stands for."""

    client: Redis
    fingerprint: str

    async def read(self, name: str) -> frozenset[str] | None:
        """Return what was rejected for a name within a day; None while Redis is away."""
        try:
            found = await self.client.smembers(self._key(name))
        except (RedisError, OSError, TimeoutError):
            return None
        return frozenset(it.decode() for it in found if isinstance(it, bytes))

    async def add(self, name: str, rejected: Collection[str]) -> None:
        """Remember for a day, counted from the last addition, what was rejected for a name."""
        try:
            async with self.client.pipeline() as pipeline:
                pipeline.sadd(self._key(name), *rejected)
                pipeline.expire(self._key(name), KEPT_S)
                await pipeline.execute()
        except (RedisError, OSError, TimeoutError) as error:
            _log.warning("what a model rejects is not shared while Redis is away: %s", error)

    def _key(self, name: str) -> str:
        return f"{keys.REJECTED}{name}@{self.fingerprint}"
