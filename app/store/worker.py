"""The worker's side of the store."""

from collections.abc import AsyncIterator, Mapping, Sequence
from uuid import uuid4

from redis.asyncio import Redis

from app.contract.errors import RefinementNotFound
from app.contract.events import Event
from app.store import keys
from app.store.codec import (
    decode_models,
    decode_request,
    decode_state,
    decoded_event,
    has_ended,
    paired,
)
from app.store.committer import Committer
from app.store.enqueue import Enqueuer
from app.store.journal import Journal
from app.store.scripts import CLAIM, HAND_BACK, LOAD, RENEW, TAKE_DUE, run
from app.store.state import Claimed, Fenced, Job, Submitted
from app.store.wakeups import messages

ATTEMPTS = 3
TAKEN = 100  # what one run of the script looks at


class WorkerStore:
    """What a worker may do. Redis errors reach the caller as redis-py raises them."""

    def __init__(
        self, client: Redis, listener: Redis, enqueuer: Enqueuer, *, name: str, lease_ms: int
    ) -> None:
        self._client = client
        self._listener = listener
        self._enqueuer = enqueuer
        self._name = name
        self._lease_ms = lease_ms
        self._committer = Committer(client)

    async def claim(self, refinement_id: str, job_id: str, nonce: str) -> Claimed | None:
        """Claim it, journaling `started` or `resumed`; None when there is nothing to do.

        `nonce` names the worker. A job that is delivered twice is claimed once, by the same worker
        too. After three claims in a row since which no step was journaled the refinement is
        `failed`, `poisoned`.
        """
        # New for every call: what redis-py sends again is given its token again, and only that.
        # Two journals of one token would take each other's numbers for their own.
        once = f"{nonce}:{uuid4().hex}"
        reply = await self._committer.run(
            CLAIM, refinement_id, job_id, once, self._lease_ms, ATTEMPTS
        )
        if reply is None:
            return None
        assert isinstance(reply, list)
        token, attempt, resumed, elapsed_ms, tenant, state = reply
        return Claimed(
            id=refinement_id,
            tenant=tenant.decode(),
            token=int(token),
            resumed=bool(int(resumed)),
            attempt=int(attempt),
            state=decode_state(state.partition(b" ")[2], None),
            elapsed_s=int(elapsed_ms) / 1000,
        )

    def journal(self, claimed: Claimed) -> Journal:
        """Return the journal of a claim; ask once per claim."""
        return Journal(claimed, self._committer)

    async def load(self, refinement_id: str) -> tuple[Submitted, tuple[Event, ...]]:
        """Return what to work on and the whole journal so far, else RefinementNotFound.

        Raises Fenced when it has ended meanwhile. It goes with the other requests of this turn of
        the loop: a worker that starts hundreds of refinements at once needs no connection for it.
        """
        reply = await self._committer.run(LOAD, refinement_id)
        if reply is None:
            raise RefinementNotFound(refinement_id)
        assert isinstance(reply, list)
        request, models, stored = reply
        entries = [(entry_id, paired(fields)) for entry_id, fields in stored]
        if has_ended(entries):
            raise Fenced(f"{refinement_id} has ended")
        events = tuple(decoded_event(entry_id, entry, b"") for entry_id, entry in entries)
        return Submitted(decode_request(request), decode_models(models)), events

    async def hand_back(self, refinement_id: str, token: int) -> None:
        """Give up the claim so that another worker takes it at once; no attempt is burnt."""
        number = await self._committer.run(HAND_BACK, refinement_id, token)
        if isinstance(number, int):
            await self.post([_job(refinement_id, number)])

    async def renew(self, held: Mapping[str, int]) -> set[str]:
        """Prolong the leases of `held` (id to token) and this worker's sign of life.

        Call it four times per lease. Returns the ids that are lost, or of which a command has news
        that no append or look has brought yet: look at those.
        """
        pairs = [word for pair in held.items() for word in pair]
        lost = await run(self._client, RENEW, self._name, self._lease_ms, *pairs)
        return {refinement_id.decode() for refinement_id in lost}

    async def leave(self) -> None:
        """Take back this worker's sign of life."""
        await self._client.zrem(keys.WORKERS, self._name)

    async def take_due(self, limit: int, include_queued: bool) -> tuple[int, tuple[Job, ...]]:
        """Look at up to `limit` refinements that are due: end, sweep or take them.

        Returns how many were looked at, and the jobs to post; those not posted are due again
        after a lease. With `include_queued` every place in the queue is doubted: say so only with
        free slots and the RQ queue seen empty. Otherwise only those overtaken by later ones are.
        """
        looked_at, *taken = await run(
            self._client, TAKE_DUE, limit, int(include_queued), self._lease_ms
        )
        jobs = tuple(
            _job(refinement_id.decode(), number)
            for refinement_id, number in zip(taken[::2], taken[1::2], strict=True)
        )
        return looked_at, jobs

    async def post(self, jobs: Sequence[Job]) -> None:
        """Put jobs into the RQ queue; one that is posted twice does no harm."""
        await self._enqueuer.post(jobs)

    async def recover(self, include_queued: bool) -> int:
        """End, sweep or enqueue everything that is due; return how many were enqueued.

        Call it no sooner than one whole lease after Redis was last seen away.
        """
        enqueued, looked_at = 0, TAKEN
        while looked_at == TAKEN:
            looked_at, jobs = await self.take_due(TAKEN, include_queued)
            await self.post(jobs)
            enqueued += len(jobs)
        return enqueued

    async def commands(self) -> AsyncIterator[str]:
        """Yield the id of every refinement that a command was given for, reconnecting for ever."""
        async for refinement_id in messages(self._listener, keys.COMMANDS):
            if refinement_id is not None:
                yield refinement_id

    async def ping(self) -> None:
        """Return when Redis answers."""
        await self._client.ping()

    async def aclose(self) -> None:
        """Return when everything that was asked for has been answered."""
        await self._committer.aclose()


def _job(refinement_id: str, number: int) -> Job:
    return Job(refinement_id, f"{refinement_id}-{number}")
