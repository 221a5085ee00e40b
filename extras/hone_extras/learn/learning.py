"""Proposals, from their first fact until a person accepts them.

    writing -> playing -> judging -> decided -> accepted         the first three -> failed

A step submits work of the tenant under a key made of the proposal's id, then notes a fact, and a
fact is written once: after a crash, and beside another process, no step is done twice.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

from pydantic_core import to_json
from ulid import ULID

from app.contract.batches import BatchOptions, BatchResult
from app.contract.errors import (
    Conflict,
    FieldError,
    HoneError,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
)
from app.contract.judgement import Usage
from app.contract.overlays import PartialRequest, Preset
from app.contract.requests import RefinementRequest
from app.service.batches import BatchEnd, Batches, BatchLine, Received, refused_line
from app.service.service import ClientRequest, Service
from app.store import Store
from app.store.proposals import Facts, work_of
from hone_extras.compare.comparison import FEWEST_TEXTS
from hone_extras.learn import requests
from hone_extras.learn.proposal import (
    UNDER_WAY,
    LearnedSetting,
    Proposal,
    ProposalRequest,
    proposal_of,
    status_of,
)
from hone_extras.learn.remarks import (
    FEWEST_TEXTS_IN_ALL,
    MARK,
    Remark,
    RemarkedText,
    divided,
    remarked_texts,
    setting_of,
    text_again,
)
from hone_extras.learn.requests import PRESENT, PROPOSED, STAND_IN, Lines, NotWritten, Trial

MOST_PROPOSALS = 200
FIRST_LOOK_S, LONGEST_LOOK_S = 0.2, 10.0
CALL_AGAIN = (429, 503)
"""Statuses of refusals after which a step is tried again."""

UNUSABLE = "no request can have the setting that the model wrote"
log = logging.getLogger(__name__)

_followed: WeakKeyDictionary[Store, dict[str, asyncio.Task[None]]] = WeakKeyDictionary()
"""The proposals that this process takes further, by the store that it does so with."""


class ProposalNotFound(NotFound):
    """The preset has no such proposal."""

    def __init__(self, proposal_id: str) -> None:
        super().__init__(f"proposal {proposal_id} was not found")


class Learning:
    """Begins proposals, takes them further, and changes presets where a person accepts."""

    def __init__(self, store: Store, service: Service, batches: Batches) -> None:
        self._store = store
        self._service = service
        self._batches = batches

    async def begin(
        self, tenant: str, preset_name: str, asked: ProposalRequest, api_key: str | None
    ) -> Proposal:
        """Begin a proposal from what people said of the refinements of a preset.

        Raises PresetNotFound, Conflict without enough remarks or beside another proposal that is
        under way, and InvalidRequest for models or a budget with which it cannot be done.
        """
        preset = await self._store.presets.get(tenant, preset_name)
        _require_playable(preset)
        await self._require_room(tenant)
        earlier = await self.all(tenant, preset_name)
        if running := [each.id for each in earlier if each.is_under_way]:
            raise Conflict(f"{running[0]} is under way: wait for it, or remove it")
        texts = await remarked_texts(self._store, tenant, preset)
        _require_enough(preset_name, texts)
        written_from, held_out = divided(texts, asked.texts)
        remarks = requests.chosen(written_from)
        fields = await self._store.presets.fields(tenant, preset_name)
        before, given = setting_of(preset.request), asked.model_dump(mode="json")
        trial = Trial(f"prop_{ULID()}", fields, before, given)
        count, caps = await self._budget(tenant, trial, remarks, held_out, asked.budget_usd)
        writing = replace(trial, caps_usd=caps).writing(remarks)
        digest = sha256(trial.id.encode()).hexdigest()
        made = await self._service.submit(ClientRequest(tenant, writing, digest, api_key=api_key))
        held_ids = [text.ids for text in held_out[:count]]
        begun = {
            "work": made.snapshot.id,
            "texts": [*{each.refinement: 0 for each in remarks}, *chain.from_iterable(held_ids)],
            "preset": preset_name,
            "at": datetime.now(UTC).isoformat(),
            "asked": given,
            "caps_usd": caps,
            "before": before.model_dump(mode="json"),
            "version": _version(preset),
            "evidence": [each.model_dump() for each in requests.evidence_of(remarks)],
            "held_out": held_ids,
            "api_key": api_key,
        }
        if not await self._store.proposals.begin(tenant, trial.id, begun):
            await self._store.erase_proposal(tenant, trial.id, {"begun": begun})
            raise Conflict("texts of the preset were erased meanwhile: propose again")
        return await self.look(tenant, preset_name, trial.id)

    async def look(self, tenant: str, preset_name: str, proposal_id: str) -> Proposal:
        """Return a proposal as it is now; take it further if that is possible."""
        await self._facts(tenant, proposal_id, preset_name)
        with suppress(HoneError):  # the next look, or its follower, tries again
            await self.advance(tenant, proposal_id)
        found = proposal_of(proposal_id, await self._facts(tenant, proposal_id, preset_name))
        if found.is_under_way:
            self._follow(tenant, proposal_id)
        return found

    async def all(self, tenant: str, preset_name: str) -> list[Proposal]:
        """Return the proposals for a preset, newest first, and follow those under way.

        Raises PresetNotFound.
        """
        await self._store.presets.get(tenant, preset_name)
        found = [
            proposal_of(proposal_id, facts)
            for proposal_id, facts in (await self._store.proposals.all(tenant)).items()
            if facts.get("begun", {}).get("preset") == preset_name
        ]
        for each in found:
            if each.is_under_way:
                self._follow(tenant, each.id)
        return found[::-1]

    async def accept(
        self, tenant: str, preset_name: str, proposal_id: str, *, anyway: bool
    ) -> Proposal:
        """Change the preset as proposed.

        Raises Conflict before the proof is there, without a significant gain unless `anyway`, and
        for a setting that no preset can have; PreconditionFailed if the preset has changed since.
        """
        found = await self.look(tenant, preset_name, proposal_id)
        if found.status == "accepted":
            return found
        if found.status != "decided" or found.after is None or found.proof is None:
            raise Conflict(f"{proposal_id} is {found.status}: only a decided one can be accepted")
        if not (found.proof.significant or anyway):
            raise Conflict(f'no gain was shown, so "anyway": true is required. {found.proof.said}')
        facts = await self._facts(tenant, proposal_id)
        preset = await self._store.presets.get(tenant, preset_name)
        if setting_of(preset.request) != found.after:  # else it was changed, and this not noted
            _require_version(preset, facts["begun"])
            try:
                await self._store.presets.replace(tenant, preset, _changed(preset, found.after))
            except InvalidRequest as why:
                raise Conflict(f"{UNUSABLE}: {why.detail}") from None
        accepted = {"at": datetime.now(UTC).isoformat()}
        await self._store.proposals.note(tenant, proposal_id, "accepted", accepted)
        return await self.look(tenant, preset_name, proposal_id)

    async def remove(self, tenant: str, preset_name: str, proposal_id: str) -> None:
        """Delete a proposal with all that was made for it, in any status."""
        facts = await self._facts(tenant, proposal_id, preset_name)
        await self._store.erase_proposal(tenant, proposal_id, facts)

    async def advance(self, tenant: str, proposal_id: str) -> Facts:
        """Take every step of a proposal that is possible now; return what is known of it.

        A refusal that a later try cannot mend ends it as failed. Raises HoneError for others.
        """
        steps = {"writing": self._write, "playing": self._play, "judging": self._judge}
        facts = await self._facts(tenant, proposal_id)
        while (step := steps.get(status_of(facts))) is not None:
            try:
                fact = await step(tenant, proposal_id, facts)
            except (HoneError, NotWritten) as error:
                if isinstance(error, HoneError) and error.status in CALL_AGAIN:
                    raise
                spent = await self._spent_so_far(tenant, facts)
                fact = "failure", {"detail": str(error), "spent": spent}
            if fact is None:
                break
            await self._store.proposals.note(tenant, proposal_id, *fact)
            try:
                facts = await self._facts(tenant, proposal_id)
            except ProposalNotFound:  # it was removed while this step was done
                await self._store.erase_work(tenant, work_of(dict([fact])))
                raise
        return facts

    async def _write(self, tenant: str, proposal_id: str, facts: Facts) -> "Fact | None":
        begun = facts["begun"]
        if "written" not in facts:
            now = await self._store.snapshot(tenant, begun["work"])
            if not now.status.is_terminal:
                return None
            change = requests.change_in(now, len(begun["evidence"]))
            before = LearnedSetting.model_validate(begun["before"])
            said = change.model_dump(mode="json") | {"spent": now.usage.model_dump()}
            return "written", said | {"after": change.over(before).model_dump(mode="json")}
        if facts["written"]["after"] == begun["before"]:
            return "proof", {"proof": await _proof(facts, {}, {}, {}), "spent": {}}
        trial = await self._trial(tenant, proposal_id, begun)
        after = LearnedSetting.model_validate(facts["written"]["after"])
        await self._require_usable(tenant, begun["preset"], after)
        settings = {PRESENT: trial.before, PROPOSED: after}
        lines = trial.playing(await self._texts(tenant, begun), settings)
        batch = await self._submitted(tenant, proposal_id, "playing", lines, begun["api_key"])
        setting = to_json(begun["before"])
        attempt = await self._store.proposals.tried(tenant, begun["preset"], setting, proposal_id)
        return "playing", {"work": batch, "attempt": attempt}

    async def _require_usable(self, tenant: str, preset_name: str, after: LearnedSetting) -> None:
        """Raise NotWritten for a setting that no preset can have."""
        preset = await self._store.presets.get(tenant, preset_name)
        try:
            self._store.presets.require_storable(tenant, preset_name, _changed(preset, after))
        except InvalidRequest as why:
            raise NotWritten(f"{UNUSABLE}: {why.detail}") from None

    async def _play(self, tenant: str, proposal_id: str, facts: Facts) -> "Fact | None":
        begun = facts["begun"]
        played = await self._results(tenant, facts["playing"]["work"])
        if played is None:
            return None
        trial = await self._trial(tenant, proposal_id, begun)
        lines = trial.judging(await self._texts(tenant, begun), played)
        if not lines:
            raise NotWritten("no text was refined with either setting")
        batch = await self._submitted(tenant, proposal_id, "judging", lines, begun["api_key"])
        return "judging", {"work": batch, "spent": _usage(played)}

    async def _judge(self, tenant: str, proposal_id: str, facts: Facts) -> "Fact | None":
        judged = await self._results(tenant, facts["judging"]["work"])
        played = await self._results(tenant, facts["playing"]["work"])
        if judged is None or played is None:
            return None
        scores = {
            custom_id: (await self._service.iterations(tenant, found.refinement.id, None))[-1]
            for custom_id, found in judged.items()
            if found.refinement is not None and found.refinement.result is not None
        }
        proof = await _proof(facts, played, judged, scores)
        return "proof", {"proof": proof, "spent": _usage(judged)}

    async def _spent_so_far(self, tenant: str, facts: Facts) -> dict[str, Any]:
        """Return what the step under way consumed; nothing of what is gone."""
        with suppress(HoneError):
            if "written" not in facts:
                writing = await self._store.snapshot(tenant, facts["begun"]["work"])
                return writing.usage.model_dump()
            for step in ("judging", "playing"):
                if step in facts:
                    return _usage(await self._results(tenant, facts[step]["work"]) or {})
        return {}

    async def _require_room(self, tenant: str) -> None:
        if len(await self._store.proposals.all(tenant)) >= MOST_PROPOSALS:
            raise Conflict(f"there are {MOST_PROPOSALS} proposals: remove some first")

    def _follow(self, tenant: str, proposal_id: str) -> None:
        """Take a proposal further for as long as this process runs, or until it is decided."""
        followed = _followed.setdefault(self._store, {})
        if proposal_id not in followed:
            task = asyncio.create_task(self._followed(tenant, proposal_id))
            followed[proposal_id] = task
            task.add_done_callback(lambda _: followed.pop(proposal_id, None))

    async def _followed(self, tenant: str, proposal_id: str) -> None:
        wait_s, known = FIRST_LOOK_S, Facts()
        while True:
            await asyncio.sleep(wait_s)
            wait_s = min(1.3 * wait_s, LONGEST_LOOK_S)
            try:
                known = await self.advance(tenant, proposal_id)
                if status_of(known) not in UNDER_WAY:
                    return
            except ProposalNotFound:  # also what was made while it was removed goes
                await self._store.erase_work(tenant, work_of(known))
                return
            except HoneError as error:
                log.warning("%s waits: %s", proposal_id, error)

    async def _facts(self, tenant: str, proposal_id: str, preset: str | None = None) -> Facts:
        facts = await self._store.proposals.facts(tenant, proposal_id)
        if "begun" not in facts or preset not in (None, facts["begun"]["preset"]):
            raise ProposalNotFound(proposal_id)
        return facts

    async def _trial(self, tenant: str, proposal_id: str, begun: Facts) -> Trial:
        """Return the requests of a proposal; raise PreconditionFailed if its preset has changed."""
        _require_version(await self._store.presets.get(tenant, begun["preset"]), begun)
        fields = await self._store.presets.fields(tenant, begun["preset"])
        before = LearnedSetting.model_validate(begun["before"])
        return Trial(proposal_id, fields, before, begun["asked"], begun["caps_usd"])

    async def _texts(self, tenant: str, begun: Facts) -> list[RemarkedText | None]:
        until = datetime.fromisoformat(begun["at"])
        return [await text_again(self._store, tenant, ids, until) for ids in begun["held_out"]]

    async def _submitted(
        self, tenant: str, proposal_id: str, step: str, lines: Lines, api_key: str | None
    ) -> str:
        """Return the id of the batch with these lines, submitted now or by an earlier try."""
        received, key = _received(proposal_id, lines), f"{proposal_id} {step}"
        batch, _ = await self._batches.submit(tenant, received, key, api_key)
        return batch.id

    async def _results(self, tenant: str, batch_id: str) -> dict[str, BatchResult] | None:
        """Return what came of the requests of a batch by custom id; None before it has ended."""
        if not (await self._store.batches.get(tenant, batch_id)).has_ended:
            return None
        pages = await self._store.batches.results(tenant, batch_id, _ignore)
        found = [
            BatchResult.model_validate_json(line, extra="ignore")
            async for page in pages
            for line in page.splitlines()
        ]
        return {result.custom_id: result for result in found if result.custom_id is not None}

    async def _budget(
        self,
        tenant: str,
        trial: Trial,
        remarks: Sequence[Remark],
        held_out: Sequence[RemarkedText],
        budget_usd: float | None,
    ) -> tuple[int, dict[str, float]]:
        """Return how many texts are played, and what each request may cost.

        The longest text stands for all. Raises InvalidRequest for a budget below `FEWEST_TEXTS`,
        and for models that cannot do it.
        """
        longest = max(held_out, key=lambda text: text.size)
        ((_, played),) = trial.playing([longest], {PRESENT: trial.before})
        judged = trial.judgement(longest, longest.fields.get("draft") or "x" * STAND_IN)
        costs = {
            "writing": await self._cost(tenant, trial.writing(remarks), "/writer"),
            "playing": await self._cost(tenant, played.request(), ""),
            "judging": await self._cost(tenant, judged.request(), "/judge"),
        }
        if budget_usd is None:
            return len(held_out), {}
        return shares_of(budget_usd, costs, len(held_out))

    async def _cost(self, tenant: str, request: RefinementRequest, pointer: str) -> float | None:
        try:
            return (await self._service.estimate(tenant, request)).p95.cost_usd
        except InvalidRequest as refused:
            detail = "; ".join(error.detail for error in refused.errors) or refused.detail
            raise InvalidRequest.at(FieldError(pointer=pointer, detail=detail)) from None


Fact = tuple[str, dict[str, Any]]


async def _proof(
    facts: Facts, played: Mapping[str, Any], judged: Mapping[str, Any], scores: Mapping[str, Any]
) -> dict[str, Any]:
    # Loading scipy takes a second, and no other operation of the API needs it.
    from hone_extras.learn.proof import proof_of  # noqa: PLC0415

    attempt = facts["playing"]["attempt"] if "playing" in facts else 0
    held_out = len(facts["begun"]["held_out"])
    proof = await asyncio.to_thread(proof_of, attempt, held_out, played, judged, scores)
    return proof.model_dump(mode="json")


def shares_of(
    budget_usd: float, costs: Mapping[str, float | None], most: int
) -> tuple[int, dict[str, float]]:
    """Return how many texts a budget pays for, and its shares; together they are the budget."""
    known = {name: cost for name, cost in costs.items() if cost is not None}
    if len(known) < len(costs):
        detail = "the price of a model is unknown: leave it out, and bound the proposal by `texts`"
        raise InvalidRequest.at(FieldError(pointer="/budget_usd", detail=detail))
    of_text = 2 * (known["playing"] + known["judging"])
    left = budget_usd - known["writing"]
    texts = most if of_text == 0 else min(most, int(left / of_text))
    if texts < FEWEST_TEXTS:
        least = known["writing"] + FEWEST_TEXTS * of_text
        detail = f"{FEWEST_TEXTS} texts, the fewest that prove anything, may cost ${least:.4f}"
        raise InvalidRequest.at(FieldError(pointer="/budget_usd", detail=detail))
    share = budget_usd / ((known["writing"] + texts * of_text) or 1)
    return texts, {name: cost * share for name, cost in known.items()}


async def _received(proposal_id: str, lines: Lines) -> AsyncIterator[Received]:
    """Yield a batch as its reception reads one."""
    yield BatchOptions(metadata={MARK: proposal_id})
    digest = sha256()
    for number, (custom_id, overlay) in enumerate(lines, 1):
        raw = to_json(overlay.fields)
        digest.update(raw)
        try:
            line_digest = sha256(raw).hexdigest()
            yield BatchLine(number, custom_id, overlay.request(), line_digest, overlay)
        except InvalidRequest as why:
            yield refused_line(number, custom_id, why, "/request")
    yield BatchEnd(digest.hexdigest())


async def _ignore(_refinement_id: str) -> None:
    """Everything that a proposal plays is stored."""


def _usage(results: Mapping[str, BatchResult]) -> dict[str, Any]:
    spent = (found.refinement.usage for found in results.values() if found.refinement is not None)
    return sum(spent, Usage()).model_dump()


def _changed(preset: Preset, after: LearnedSetting) -> PartialRequest:
    """Return the fields of a preset with another setting."""
    changes = {"criteria": after.criteria, "instructions": after.instructions}
    return preset.request.model_copy(update=changes)


def _version(preset: Preset) -> str:
    """Return what changes whenever a preset is stored, without its secrets."""
    return (
        f"{preset.updated_at.isoformat()} {sha256(preset.model_dump_json().encode()).hexdigest()}"
    )


def _require_version(preset: Preset, begun: Facts) -> None:
    if _version(preset) != begun["version"]:
        raise PreconditionFailed(f"the preset {preset.name} has changed since the proposal began")


def _require_playable(preset: Preset) -> None:
    """Raise Conflict for a preset that cannot be tried without effects, or leaves no texts."""
    if preset.request.tools:
        raise Conflict(f"{preset.name} has tools, which playing its setting would call")
    if preset.request.store is False:
        raise Conflict(f'{preset.name} has "store": false, so no drafts are there to learn from')


def _require_enough(preset_name: str, texts: Sequence[RemarkedText]) -> None:
    spoken = sum(text.has_a_person for text in texts)
    if spoken < FEWEST_TEXTS_IN_ALL:
        raise Conflict(
            f"{preset_name} has {spoken} kept {'text' if spoken == 1 else 'texts'} of its present"
            f" setting that people reviewed or rated; a proposal needs {FEWEST_TEXTS_IN_ALL}"
        )
