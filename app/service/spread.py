"""Submits to the cells of a tenant; the Service of a cell does what is about one refinement."""

from collections.abc import AsyncIterator, Sequence

from app.contract.errors import HoneError, Overloaded, QuotaExceeded, Unavailable
from app.contract.pairs import WantedPairs
from app.service.service import ClientRequest, Service
from app.store import NotSent
from app.store.cells import Cells
from app.store.state import Accepted


class Spread(Service):
    """The Service of several cells; `services` are those of the cells by number."""

    def __init__(self, cells: Cells, services: Sequence[Service]) -> None:
        super().__init__(*services[0].collaborators)
        self._cells = cells
        self._services = services
        for service in services:
            service.submitting = self

    async def submit(self, sent: ClientRequest, wait_s: float = 0) -> Accepted:
        """Create a refinement in a cell of its tenant, as `Service.submit` does in one.

        One without a key goes to the next cell if it cannot be sent, or finds no room.
        """
        quotas = await self._quotas_of(sent.tenant)
        await self._cells.access.require_spending_left(sent.tenant, quotas)
        refusal: HoneError | None = None
        for number in await self._cells_for(sent.tenant, sent.key):
            service = self._services[number]
            try:
                self._cells.require_checked(number)
                accepted = await service.created(sent)
            except (Unavailable, QuotaExceeded, Overloaded) as error:
                is_unsent = isinstance(error.__cause__, NotSent)
                if isinstance(error, Unavailable) and error.__cause__ and not is_unsent:
                    raise
                if is_unsent:
                    self._cells.note_away(number, error)
                refusal = refusal or error
            else:
                return await service.after(sent.tenant, accepted, wait_s)
        assert refusal is not None
        raise refusal

    async def _cells_for(self, tenant: str, key: str | None) -> list[int]:
        """Return the cells to try; where a key was used before homes moved it stays."""
        if key is not None:
            for number in self._cells.earlier_homes_of(tenant, key):
                self._cells.require_checked(number)
                if await self._cells.stores[number].knows(tenant, key):
                    return [number]
        return self._cells.homes_of(tenant, key)

    async def pairs(self, tenant: str, wanted: WantedPairs) -> AsyncIterator[bytes]:
        """Return the preference pairs in all cells, one cell after the other."""
        away = self._cells.away
        there = [service for n, service in enumerate(self._services) if n not in away]
        found = [await service.pairs(tenant, wanted) for service in there]
        return _after_another(found)


async def _after_another(parts: Sequence[AsyncIterator[bytes]]) -> AsyncIterator[bytes]:
    for part in parts:
        async for lines in part:
            yield lines
