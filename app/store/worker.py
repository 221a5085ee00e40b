"""The worker's side of the store."""

from collections.abc import AsyncIterator, Mapping, Sequence

from app.contract.events import Event
from app.contract.snapshot import Snapshot
from app.contract.status import Status
from app.store.state import Claimed, Entry, Fields, Job, State, Submitted


class Journal:
    """The journal of one claimed refinement."""

    id: str
    token: int

    async def append(
        self,
        entries: Sequence[Entry],
        fields: Fields = Fields(),  # noqa: B008 - frozen
        *,
        to: Status | None = None,
        limits_seq: int | None = None,
    ) -> State:
        """Append all of `entries` with the summary fields that go with them, or nothing.

        Raises Fenced, StaleLimits and redis errors. After a redis error the same call may be
        made again: it happens once.
        """
        raise NotImplementedError

    async def look(self) -> State:
        """Return how it stands, else Fenced."""
        raise NotImplementedError


class WorkerStore:
    """What a worker may do. Redis errors reach the caller as redis-py raises them."""

    async def claim(self, refinement_id: str, job_id: str, nonce: str) -> Claimed | None:
        """Claim it, journaling `started` or `resumed`; None when there is nothing to do."""
        raise NotImplementedError

    def journal(self, claimed: Claimed) -> Journal:
        """Return the journal of a claim; ask once per claim."""
        raise NotImplementedError

    async def request(self, refinement_id: str) -> Submitted:
        """Return what to work on, else RefinementNotFound."""
        raise NotImplementedError

    async def recorded(self, refinement_id: str) -> tuple[Event, ...]:
        """Return the whole journal so far, else RefinementNotFound."""
        raise NotImplementedError

    async def summary(self, refinement_id: str) -> Snapshot:
        """Return the snapshot, else RefinementNotFound."""
        raise NotImplementedError

    async def hand_back(self, refinement_id: str, token: int) -> None:
        """Give up the claim so that another worker takes it at once; no attempt is burnt."""
        raise NotImplementedError

    async def renew(self, held: Mapping[str, int]) -> set[str]:
        """Prolong the leases of `held` (id to token) and this worker's sign of life.

        Returns the ids that are lost, or of which a command has news: look at those.
        """
        raise NotImplementedError

    async def leave(self) -> None:
        """Take back this worker's sign of life."""
        raise NotImplementedError

    async def take_due(self, limit: int, include_queued: bool) -> tuple[Job, ...]:
        """End, sweep or pick what is due; what is returned must be posted."""
        raise NotImplementedError

    async def post(self, jobs: Sequence[Job]) -> None:
        """Put jobs into the RQ queue; one that is posted twice does no harm."""
        raise NotImplementedError

    async def recover(self, include_queued: bool) -> int:
        """Take everything that is due, post it, and return how many refinements were posted."""
        raise NotImplementedError

    def commands(self) -> AsyncIterator[str]:
        """Yield the id of every refinement that a command was given for, reconnecting for ever."""
        raise NotImplementedError
