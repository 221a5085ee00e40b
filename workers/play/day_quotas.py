"""Model calls within what tenants may spend in a day."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.exceptions import RedisError

from app.contract.judgement import Usage
from app.contract.waiting import QUOTA_OF
from app.settings import Settings
from app.store import NOTHING_SPENT, DaySpending, ReportSpending, Spent, open_spending
from workers.models.port import ModelCall, ModelError, ModelReply, ModelWaits
from workers.play.executor import ModelCaller

REPORTED_S = 1.0
"""Seconds between two reports, for which what other workers spend is not known."""

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_day_quotas(
    settings: Settings, models: ModelCaller, worker: str
) -> AsyncIterator[ModelCaller]:
    """Open what calls models within the quotas of tenants; without a Redis those models alone."""
    async with open_spending(settings, worker) as report:
        if report is None:
            yield models
            return
        quotas = DayQuotas(models, report)
        try:
            yield quotas
        finally:
            await quotas.aclose()


class DayQuotas:
    """Calls models for tenants that have something left today; calls of others wait until tomorrow.

    A call is let in as long as something is left, so that those in flight may exceed the quota.
    While Redis is away it goes by what it knew.
    """

    def __init__(self, models: ModelCaller, report: ReportSpending) -> None:
        self._models = models
        self._report = report
        self._number = 0
        self._sending: dict[str, Spent] = {}  # sent again under its number after an error
        self._spent: dict[str, Spent] = {}
        self._known: dict[str, tuple[float, DaySpending]] = {}
        self._failed_at = float("-inf")
        self._reporting: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None

    async def complete(self, name: str, call: ModelCall) -> ModelReply:
        """Return the reply of a model; raise ModelWaits for a tenant that has nothing left today.

        Raises also what the model raises.
        """
        if (over_s := await self._over_for(call.tenant)) is not None:
            detail = f"the quota of the day of {call.tenant} is used up"
            model = f"{QUOTA_OF}{call.tenant}"
            raise ModelWaits(model, "tenant_quota", over_s, detail, is_open=True)
        try:
            reply = await self._models.complete(name, call)
        except (ModelError, ModelWaits) as error:
            self._count(call.tenant, error.usage)
            raise
        self._count(call.tenant, reply.usage)
        return reply

    async def permits(self, name: str, most: int) -> int:
        """Take up to `most` permits for refinements that wait for a model, or for a quota."""
        if not name.startswith(QUOTA_OF):
            return await self._models.permits(name, most)
        return most if await self._over_for(name.removeprefix(QUOTA_OF)) is None else 0

    async def aclose(self) -> None:
        """Report what was spent since the last report."""
        if self._later is not None:
            self._later.cancel()
        if self._spent or self._sending:
            await self._reported()

    async def _over_for(self, tenant: str) -> float | None:
        """Return the seconds until a tenant that has nothing left today may spend again."""
        now = asyncio.get_running_loop().time()
        read_at, known = self._known.get(tenant, (float("-inf"), None))
        if now - read_at > REPORTED_S and now - self._failed_at > REPORTED_S:
            self._spent.setdefault(tenant, NOTHING_SPENT)
            if known is None or known.is_limited:
                await self._reported()
                read_at, known = self._known.get(tenant, (now, None))
            else:
                self._report_now()
        if known is None or not known.is_over:
            return None
        left_s = known.ends_in_s - (now - read_at)
        return left_s if left_s > 0 else None

    def _count(self, tenant: str, usage: Usage) -> None:
        tokens = usage.input_tokens + usage.output_tokens
        if not tokens and not usage.cost_usd:
            return
        before = self._spent.get(tenant, NOTHING_SPENT)
        cost_usd = before.cost_usd + (usage.cost_usd or 0.0)
        self._spent[tenant] = Spent(before.tokens + tokens, cost_usd)
        if self._later is None:
            loop = asyncio.get_running_loop()
            self._later = loop.call_later(REPORTED_S, self._report_now)

    def _report_now(self) -> None:
        if self._later is not None:
            self._later.cancel()
        self._later = None
        if self._reporting is None:
            self._reporting = asyncio.get_running_loop().create_task(self._send())

    async def _reported(self) -> None:
        """Report, or wait for the report under way; callers share it."""
        if self._reporting is None:
            self._reporting = asyncio.get_running_loop().create_task(self._send())
        await asyncio.shield(self._reporting)

    async def _send(self) -> None:
        try:
            while self._sending or self._spent:
                if not self._sending:
                    self._number += 1
                    self._sending, self._spent = self._spent, {}
                found = await self._report(self._number, self._sending)
                now = asyncio.get_running_loop().time()
                self._known |= {tenant: (now, it) for tenant, it in found.items()}
                self._sending = {}
        except (RedisError, OSError, TimeoutError) as error:
            self._failed_at = asyncio.get_running_loop().time()
            log.warning("what tenants spend is not shared until Redis is back: %s", error)
        finally:
            self._reporting = None
