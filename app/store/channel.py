"""Listening to a channel for ever."""

import asyncio
import logging
from collections.abc import AsyncIterator

from redis.asyncio import Redis
from redis.exceptions import RedisError

AGAIN_S = 0.5  # pause between two attempts to connect

_log = logging.getLogger(__name__)


async def messages(client: Redis, channel: str) -> AsyncIterator[str | None]:
    """Yield every message, and None after each time that messages may have been missed.

    The first None comes once the subscription stands. Connects again for as long as it takes.
    """
    while True:
        try:
            async with client.pubsub() as pubsub:
                await pubsub.subscribe(channel)
                async for message in pubsub.listen():
                    if message["type"] == "subscribe":  # again after each reconnection
                        yield None
                    elif message["type"] == "message":
                        yield message["data"].decode()
        except (RedisError, OSError) as error:
            _log.warning("listening to %s again: %s", channel, error)
        await asyncio.sleep(AGAIN_S)
