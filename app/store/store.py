"""The API's side of the store."""

from collections.abc import Mapping

from app.contract.events import Event
from app.contract.limits import Limits, LimitsChange
from app.contract.requests import RefinementRequest
from app.contract.snapshot import Snapshot, SnapshotPage
from app.contract.status import Status
from app.store.state import Created, NewRefinement, StoredEvent


class Store:
    """What the API may do. Every method raises `Unavailable` when Redis cannot be reached."""

    async def create(self, new: NewRefinement, idempotency_key: str | None) -> Created:
        """Store and queue a refinement in one transaction.

        Raises IdempotencyMismatch, and Overloaded when the queue is full or memory nearly so.
        """
        raise NotImplementedError

    async def snapshot(self, tenant: str, refinement_id: str) -> Snapshot:
        """Return the refinement as it stands, else RefinementNotFound."""
        raise NotImplementedError

    async def request(self, tenant: str, refinement_id: str) -> RefinementRequest:
        """Return what was submitted, else RefinementNotFound."""
        raise NotImplementedError

    async def page(
        self,
        tenant: str,
        *,
        status: Status | None = None,
        metadata: Mapping[str, str] | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> SnapshotPage:
        """Return one page, newest first; MalformedHeader for a cursor that cannot be read."""
        raise NotImplementedError

    async def events(
        self, tenant: str, refinement_id: str, after: int = 0, limit: int = 1_000
    ) -> tuple[StoredEvent, ...]:
        """Return at most `limit` events after number `after`, oldest first, else
        RefinementNotFound."""
        raise NotImplementedError

    async def decoded_events(
        self, tenant: str, refinement_id: str, after: int = 0, limit: int = 1_000
    ) -> tuple[Event, ...]:
        """Return the same events as `events`, decoded."""
        raise NotImplementedError

    async def cancel(self, tenant: str, refinement_id: str, command_id: str | None = None) -> Snapshot:
        """Cancel it: at once while it waits, else it is `canceling`; Conflict when it has ended."""
        raise NotImplementedError

    async def finish(self, tenant: str, refinement_id: str, command_id: str | None = None) -> Snapshot:
        """Let it end with its best draft, as soon as there is one; Conflict when it has ended."""
        raise NotImplementedError

    async def change(
        self, tenant: str, refinement_id: str, change: LimitsChange, command_id: str | None = None
    ) -> Limits:
        """Return the limits now in force; Conflict when it has ended."""
        raise NotImplementedError

    async def erase(self, tenant: str, refinement_id: str) -> None:
        """Delete it and everything derived from it, in any status, else RefinementNotFound."""
        raise NotImplementedError

    async def ping(self) -> None:
        """Return when Redis answers, else Unavailable."""
        raise NotImplementedError

    async def workers(self) -> int:
        """Return how many workers are alive."""
        raise NotImplementedError
