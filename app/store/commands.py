"""What a client can ask of a refinement that exists: cancel, finish, review, change, erase.

Each command carries an id of its own; Redis keeps the last of each kind, and a command that is sent
twice is answered as it was the first time.
"""

import asyncio
import logging
from typing import cast
from uuid import uuid4

from redis.asyncio import Redis
from redis.exceptions import RedisError

from app.contract.errors import Conflict, HoneError, IdempotencyMismatch, RefinementNotFound
from app.contract.limits import Limits, LimitsChange
from app.contract.reviews import Review
from app.store import keys
from app.store.codec import decode_limits, encode_limits, encode_said
from app.store.posting import Postman
from app.store.scripts import CANCEL, CHANGE, ERASE, FINISH, REVIEW, Script, run
from app.store.state import Job

POST_S = 1.0  # less than a client is kept waiting for an answer

log = logging.getLogger(__name__)


class Commands:
    """Gives commands. Every one raises RefinementNotFound, and Conflict when it comes too late."""

    def __init__(self, client: Redis, postman: Postman, lease_ms: int) -> None:
        self._client = client
        self._postman = postman
        self._lease_ms = lease_ms

    async def cancel(self, tenant: str, refinement_id: str, command_id: str | None) -> None:
        """Cancel at once what waits; what runs is `canceling`."""
        await self._give(CANCEL, tenant, refinement_id, command_id or uuid4().hex)

    async def finish(self, tenant: str, refinement_id: str, command_id: str | None) -> None:
        """Journal `refinement.stopping` if a draft was judged, else ask for it once one is.

        What is paused is queued, and ends when it is claimed.
        """
        args = (command_id or uuid4().hex, self._lease_ms)
        await self._give(FINISH, tenant, refinement_id, *args)

    async def review(
        self, tenant: str, refinement_id: str, review: Review, command_id: str | None
    ) -> None:
        """Journal a reviewer's word and queue what waited for it.

        Conflict also when it is not paused, or another review is pending than the one that is
        meant; IdempotencyMismatch when the last review had this id and said something else.
        """
        args = (command_id or uuid4().hex, review.path or "", encode_said(review), self._lease_ms)
        await self._give(REVIEW, tenant, refinement_id, *args)

    async def change(
        self, tenant: str, refinement_id: str, change: LimitsChange, command_id: str | None
    ) -> Limits:
        """Return the limits now in force."""
        command_id = command_id or uuid4().hex
        while True:
            key = keys.SUMMARY + refinement_id
            known = await self._client.hmget(key, ["limits_seq", "limits"])
            if None in known:
                raise RefinementNotFound(refinement_id)
            seq, stored = cast("list[bytes]", known)
            limits = change.applied_to(decode_limits(stored))
            args = (command_id, seq, encode_limits(limits))
            if await self._give(CHANGE, tenant, refinement_id, *args):
                return limits
            # Somebody else changed them in between.

    async def erase(self, tenant: str, refinement_id: str) -> None:
        """Delete it and everything derived from it, in any status."""
        await self._give(ERASE, tenant, refinement_id)

    async def _give(
        self, script: Script, tenant: str, refinement_id: str, *args: str | bytes | int
    ) -> bool:
        """Return False when somebody else was quicker."""
        answer = await run(self._client, script, refinement_id, tenant, *args)
        if isinstance(answer, int):
            await self._post(Job(refinement_id, f"{refinement_id}-{answer}"))
            return True
        code, _, detail = answer.decode().partition(" ")
        if error := _refusal(code, refinement_id, detail):
            raise error
        return bool(code == "OK")

    async def _post(self, job: Job) -> None:
        """Enqueue a job at once; one that is lost on the way is missed by an idle worker.

        The command was taken: whatever happens here must not look like a refusal.
        """
        try:
            async with asyncio.timeout(POST_S):
                await self._postman.post([job])
        except (RedisError, TimeoutError) as error:
            log.warning("%s: its job will be posted by a worker: %s", job.refinement_id, error)


def _refusal(code: str, refinement_id: str, detail: str) -> HoneError | None:
    match code:
        case "MISSING":
            return RefinementNotFound(refinement_id)
        case "ENDED":
            return Conflict(f"{refinement_id} has ended or is being canceled")
        case "UNASKED":
            return Conflict(f"{refinement_id} is not waiting for a review")
        case "OTHER":
            return Conflict(f"{refinement_id} is waiting for the review {detail}, not for this one")
        case "MISMATCH":
            return IdempotencyMismatch("this Idempotency-Key was used with another review")
    return None
