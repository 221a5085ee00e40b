"""What a client can ask of a refinement that exists: cancel, finish, change, erase.

Each command carries an id of its own; Redis keeps the last of each kind, and a command that is sent
twice is answered as it was the first time.
"""

from typing import cast
from uuid import uuid4

from redis.asyncio import Redis

from app.contract.errors import Conflict, RefinementNotFound
from app.contract.limits import Limits, LimitsChange
from app.store import keys
from app.store.codec import decode_limits, encode_limits
from app.store.scripts import CANCEL, CHANGE, ERASE, FINISH, Script, run


class Commands:
    """Gives commands. Every one raises RefinementNotFound, and Conflict when it comes too late."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def cancel(self, tenant: str, refinement_id: str, command_id: str | None) -> None:
        """Cancel at once what waits; what runs is `canceling`."""
        await self._give(CANCEL, tenant, refinement_id, command_id or uuid4().hex)

    async def finish(self, tenant: str, refinement_id: str, command_id: str | None) -> None:
        """Journal `refinement.stopping` if a draft was judged, else ask for it once one is."""
        await self._give(FINISH, tenant, refinement_id, command_id or uuid4().hex)

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
        self, script: Script, tenant: str, refinement_id: str, *args: str | bytes
    ) -> bool:
        answer = await run(self._client, script, refinement_id, tenant, *args)
        if answer == b"MISSING":
            raise RefinementNotFound(refinement_id)
        if answer == b"ENDED":
            raise Conflict(f"{refinement_id} has ended or is being canceled")
        return bool(answer == b"OK")
