"""Proposals to change presets: facts about each of them, every one written once."""

import asyncio
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any

from pydantic_core import from_json, to_json

from app.store.presets import note_erasure
from app.store.redis import keys
from app.store.redis.committer import Committer
from app.store.redis.connection import refusals

Facts = dict[str, Any]
"""What is known of a proposal, by the name of the fact.

The first one, `begun`, lists in `texts` the refinements whose texts go into the proposal. Each
names in `work` the refinement or batch that was made for it, if there is one.
"""


def work_of(facts: Mapping[str, Any]) -> list[str]:
    """Return the ids of the refinement and the batches that were made for a proposal."""
    return [said["work"] for said in facts.values() if "work" in said]


class ProposalStore:
    """The proposals of all tenants. Every method raises Unavailable.

    A fact is written once: of several processes that do the same work, the first one is believed.
    """

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    async def begin(self, tenant: str, proposal_id: str, said: Mapping[str, Any]) -> bool:
        """List a proposal with its first fact; return whether all of its texts are still there."""
        summaries = [keys.SUMMARY + refinement_id for refinement_id in said["texts"]]
        with refusals():
            await self._committer.execute("SADD", keys.PROPOSALS + tenant, proposal_id)
        await self.note(tenant, proposal_id, "begun", said)
        with refusals():
            return bool(await self._committer.execute("EXISTS", *summaries) == len(summaries))

    async def note(self, tenant: str, proposal_id: str, fact: str, said: Mapping[str, Any]) -> None:
        """Write a fact, unless there is one of its name or the proposal was removed."""
        key = keys.proposal(tenant, proposal_id)
        with refusals():
            await self._committer.execute("HSETNX", key, fact, to_json(said))
            if not await self._committer.execute("HEXISTS", key, "begun"):
                await self._committer.execute("UNLINK", key)

    async def tried(self, tenant: str, preset: str, setting: bytes, proposal_id: str) -> int:
        """Note that a proposal is tried against a setting; return how many others were before.

        Tries outlive their proposals and the preset: another try on the same texts is one more.
        """
        key = keys.tries(tenant, preset, sha256(setting).hexdigest()[:16])
        with refusals():
            await self._committer.execute("SADD", key, proposal_id)
            return int(await self._committer.execute("SCARD", key)) - 1

    async def made_from(self, tenant: str, refinement_ids: Collection[str]) -> dict[str, Facts]:
        """Return the facts of each proposal that a text of these refinements went into."""
        gone = frozenset(refinement_ids)
        return {
            proposal_id: facts
            for proposal_id, facts in (await self.all(tenant)).items()
            if "begun" in facts and not gone.isdisjoint(facts["begun"]["texts"])
        }

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
