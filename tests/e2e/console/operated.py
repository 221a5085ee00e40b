"""A service with an administrator's key, and something that was spent in the last months."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from app.access.keyring import Keyring
from app.contract.access import OPERATOR, IssuedKey, KeyRequest, Scope
from app.queue import RefinementQueue
from app.store import open_store
from app.store.redis import keys
from tests.e2e.running_service import RunningService, running_service
from tests.store.store_harness import stored_sums
from tests.waiting import TIMEOUT_S

SETTINGS = ("cost", "insights", "presets", "webhooks", "keys", "tenants", "audit")
"""The pages that have figures, or change settings."""

EPOCH = date(1970, 1, 1)
DAYS = 75
MODELS = ("openai:gpt-5-mini", "anthropic:claude-sonnet")


@asynccontextmanager
async def operated(
    directory: Path, **settings: Any
) -> AsyncIterator[tuple[RunningService, IssuedKey]]:
    """A running service whose client has the key of an administrator."""
    async with (
        running_service(directory, **settings) as service,
        open_store(service.settings, RefinementQueue(service.settings.queue)) as store,
    ):
        keyring = Keyring(store.access, service.settings)
        request = KeyRequest(scopes=tuple(Scope), name="Operator")
        admin = await keyring.create(OPERATOR, request)
        service.client.headers["Authorization"] = f"Bearer {admin.key}"
        yield service, admin


async def spend(service: RunningService) -> None:
    """Write down what a dollar and more a day was spent on, as workers would have."""
    async with Redis.from_url(service.redis.url, socket_timeout=TIMEOUT_S) as redis:
        for ago in range(DAYS):
            day = datetime.now(UTC).date() - timedelta(days=ago)
            endings = {"passed": 3, "best_effort": 1}
            sums = {
                f"{outcome} iterative - ": stored_sums(count, 0, 0, 0, 0, 0, 0)
                for outcome, count in endings.items()
            }
            for share, model in enumerate(MODELS, 1):
                for outcome, count in endings.items():
                    nano_usd = count * share * (2 + ago * ago % 7) * 10**8
                    used = [count, 5 * count, 15_000 * count, 4_000 * count, 0, nano_usd, 0]
                    sums[f"{outcome} iterative - {model}"] = stored_sums(*used)
            await redis.hset(keys.statistics("usage", OPERATOR, day), mapping=sums)  # type: ignore[arg-type]
            number = (day - EPOCH).days
            await redis.zadd(keys.STATISTICS, {f"{OPERATOR}:{number}": number})
