"""Proposals to change presets: facts about each of them, every one written once."""

import asyncio
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json, to_json

from app.store.presets import note_erasure
from app.store.redis import keys
from app.store.redis.committer import Committer
from app.store.redis.connection import refusals

Facts = dict[str, Any]
"""What is known of a proposal, by the name of the fact."""


class ProposalStore:
    """The proposals of all tenants. Every method raises Unavailable.

    A fact is written once: of several processes that do the same work, the first one is believed.
    """

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    async def begin(
        self, tenant: str, proposal_id: str, fact: str, said: Mapping[str, Any]
    ) -> None:
        """List a proposal with its first fact."""
        with refusals():
            await self._committer.execute("SADD", keys.PROPOSALS + tenant, proposal_id)
        await self.note(tenant, proposal_id, fact, said)

    async def note(self, tenant: str, proposal_id: str, fact: str, said: Mapping[str, Any]) -> bool:
        """Write a fact unless there is one of its name; return whether it was written."""
        key = keys.proposal(tenant, proposal_id)
        with refusals():
            return bool(await self._committer.execute("HSETNX", key, fact, to_json(said)))

    async def facts(self, tenant: str, proposal_id: str) -> Facts:
        """Return all facts; none of a proposal that does not exist."""
        with refusals():
            stored = await self._committer.execute("HGETALL", keys.proposal(tenant, proposal_id))
        return {name.decode(): from_json(said) for name, said in stored.items()}

    async def all(self, tenant: str) -> dict[str, Facts]:
        """Return the facts of each proposal of a tenant, by its id, the oldest first."""
        with refusals():
            found = await self._committer.execute("SMEMBERS", keys.PROPOSALS + tenant)
        ids = sorted(proposal_id.decode() for proposal_id in found)
        facts = await asyncio.gather(*(self.facts(tenant, proposal_id) for proposal_id in ids))
        return {proposal_id: told for proposal_id, told in zip(ids, facts, strict=True) if told}

    async def remove(self, tenant: str, proposal_id: str) -> None:
        """Delete a proposal with its facts, if it exists."""
        with refusals():
            await self._committer.execute("SREM", keys.PROPOSALS + tenant, proposal_id)
            await self._committer.execute("UNLINK", keys.proposal(tenant, proposal_id))
            await note_erasure(self._committer)
