"""What a proposal asks of the service: one refinement that writes it, then two batches.

The first batch refines each held-out text under both settings. The second one judges every final
draft, blind, by the preset's own criteria and by what people said of that text, which the writer
of the proposal has not seen.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from app.contract.batches import BatchResult
from app.contract.judgement import AUTO, QUALITY, Criterion
from app.contract.overlays import Overlay, RequestLayer
from app.contract.requests import MAX_CONTEXT, RefinementRequest
from app.contract.snapshot import Snapshot
from hone_extras.learn.proposal import (
    Evidence,
    LearnedSetting,
    ProposalRequest,
    WrittenChange,
)
from hone_extras.learn.remarks import MARK, Remark, RemarkedText

PRESENT, PROPOSED = "present", "proposed"
MOST_EVIDENCE = 60
MOST_CHARACTERS = 80_000
"""Of all the evidence that a writer is given."""

PEOPLE = "what people asked for"
SAID = "What people said"
STAND_IN = 2_000
"""Characters of the stand-in for a draft that does not exist yet."""

ASKED = Criterion(
    name=PEOPLE,
    description=f"Does the draft do what people asked for in the document '{SAID}'? They spoke of"
    " other drafts of this text. 1: they would change nothing of this one; 0: all that they"
    " objected to is still there. Words that the draft does not have need not be asked for again.",
)
JUDGED_BY = f"The document '{SAID}' says what people asked for: it is no source of facts."
TASK = """\
You improve the setting with which texts are written and judged. The document `Setting` has its
present criteria and instructions as JSON; the document `Evidence` has numbered remarks on drafts
that were made with it: edits, words and ratings of people, and findings that came back.

Find what people ask for again and again, and change the setting so that such texts need no such
remark: `instructions.generator` tells the writer how to write, `instructions.critic` and `criteria`
tell the judge what to look for, and `examples` of a criterion are short texts with the score that
they deserve. Change as little as possible, and keep what the evidence does not speak against. Name
no person, and copy no names or figures from the drafts. A remark on one text alone is no rule.

Reply with JSON. A field that stays as it is is null; a field that changes is given as a whole.
`why` names each change and the numbers of the remarks that it follows from. If the evidence
supports no change, `criteria` and `instructions` are null."""

UNUSED: Mapping[str, Any] = {
    "review": None,
    "webhook": None,
    "outputs": [],
    "compare": False,
    "retention_s": None,
    "learn": False,
    "store": True,
    "preset": None,
    "priority": "batch",
}
"""What is not wanted of a preset where its setting is tried."""

Lines = list[tuple[str, Overlay]]
"""Requests of a batch by their custom ids."""


class NotWritten(ValueError):
    """The refinement that writes a proposal has ended without one; the message says why."""


def chosen(texts: Iterable[RemarkedText]) -> list[Remark]:
    """Return the remarks that a proposal is written from: people's first, the newest first."""
    found = sorted(
        (remark for text in texts for remark in text.remarks),
        key=lambda remark: (remark.is_of_a_person, remark.refinement),
        reverse=True,
    )
    kept, left = list[Remark](), MOST_CHARACTERS
    for remark in found[:MOST_EVIDENCE]:
        left -= len(remark.words)
        if left < 0:
            break
        kept.append(remark)
    return kept


def evidence_of(remarks: Sequence[Remark]) -> tuple[Evidence, ...]:
    """Return references to the remarks, numbered from 1."""
    return tuple(
        Evidence(number=number, refinement=remark.refinement, kind=remark.kind, path=remark.path)
        for number, remark in enumerate(remarks, 1)
    )


def writing(
    preset: Mapping[str, Any],
    before: LearnedSetting,
    remarks: Sequence[Remark],
    asked: ProposalRequest,
    proposal_id: str,
) -> dict[str, Any]:
    """Return the request whose result is a `WrittenChange`."""
    told = "\n\n".join(f"{number}. {remark.words}" for number, remark in enumerate(remarks, 1))
    setting = json.dumps(before.model_dump(mode="json"), ensure_ascii=False, indent=1)
    return {
        **UNUSED,
        "task": TASK,
        "context": [{"name": "Setting", "text": setting}, {"name": "Evidence", "text": told}],
        "strategy": {"kind": "self_correction"},
        "validators": [{"kind": "json_schema", "schema": WrittenChange.model_json_schema()}],
        "models": _models(preset, writer=asked.writer),
        "metadata": {MARK: proposal_id, "proposal_step": "writing"},
        "priority": "interactive",
    }


def change_in(ended: Snapshot, numbers: int) -> WrittenChange:
    """Return the change in the result of an ended refinement; raise NotWritten."""
    if ended.result is None or ended.outcome != "passed":
        raise NotWritten(f"the model wrote no proposal: {ended.reason or ended.status}")
    try:
        change = WrittenChange.model_validate_json(ended.result.draft)
    except ValidationError as invalid:
        error = invalid.errors()[0]
        raise NotWritten(f"what the model wrote is no proposal: {error['msg']}") from None
    unknown = [number for why in change.why for number in why.evidence if number > numbers]
    if unknown:
        raise NotWritten(f"the model names evidence {unknown[0]}, and there is none")
    return change


def playing(
    preset: Mapping[str, Any],
    settings: Mapping[str, LearnedSetting],
    texts: Sequence[RemarkedText | None],
    proposal_id: str,
    cap_usd: float | None = None,
) -> Lines:
    """Return a request for each text under each setting; which one is first takes turns."""
    lines: Lines = []
    for index, text in enumerate(texts):
        names = list(settings) if index % 2 else list(settings)[::-1]
        for name in names if text is not None else ():
            over = {
                **UNUSED,
                **(text.fields if text else {}),
                **settings[name].model_dump(mode="json"),
                **capped(preset, cap_usd),
                "metadata": {MARK: proposal_id, "proposal_step": name},
            }
            lines.append((f"{index}/{name}", _laid_over(preset, over)))
    return lines


def judging(
    preset: Mapping[str, Any],
    before: LearnedSetting,
    texts: Sequence[RemarkedText | None],
    played: Mapping[str, BatchResult],
    asked: ProposalRequest,
    proposal_id: str,
    cap_usd: float | None = None,
) -> Lines:
    """Return a request for each final draft; equal drafts of a text are judged once."""
    lines: Lines = []
    for custom_id, draft in judged_once(played).items():
        text = texts[int(custom_id.partition("/")[0])]
        if text is not None:
            over = judgement(preset, before, text, draft, asked) | capped(preset, cap_usd)
            over["metadata"] = {MARK: proposal_id, "proposal_step": "judging"}
            lines.append((custom_id, Overlay(RequestLayer(over))))
    return lines


def judged_once(played: Mapping[str, BatchResult]) -> dict[str, str]:
    """Return the final drafts by custom id, without one that equals that of the other setting."""
    drafts = {
        custom_id: result.refinement.result.draft
        for custom_id, result in played.items()
        if result.refinement is not None and result.refinement.result is not None
    }
    return {
        custom_id: draft
        for custom_id, draft in drafts.items()
        if custom_id.endswith(PRESENT) or drafts.get(other(custom_id)) != draft
    }


def other(custom_id: str) -> str:
    """Return the custom id of the same text under the present setting."""
    return f"{custom_id.partition('/')[0]}/{PRESENT}"


def judgement(
    preset: Mapping[str, Any],
    before: LearnedSetting,
    text: RemarkedText,
    draft: str,
    asked: ProposalRequest,
) -> dict[str, Any]:
    """Return the request that judges a draft of a text: the same for both settings.

    Half of the score is that of the preset's own criteria, half that of what people asked for.
    """
    listed = () if before.criteria == AUTO else before.criteria
    own = listed or (QUALITY,)
    people = ASKED.model_copy(update={"weight": sum(criterion.weight for criterion in own)})
    said = "\n\n".join(remark.words for remark in text.remarks if remark.is_of_a_person)
    documents = [*(text.fields.get("context") or ())][:31]
    left = MAX_CONTEXT - sum(len(document["text"]) for document in documents)
    instructions = {"critic": f"{before.instructions.critic}\n{JUDGED_BY}".strip()[-4_000:]}
    return {
        **UNUSED,
        "task": text.fields.get("task"),
        "context": [*documents, {"name": SAID, "text": said[:left]}],
        "grounding": text.fields.get("grounding") or "open",
        "draft": draft,
        "strategy": {"kind": "critique"},
        "criteria": [criterion.model_dump(mode="json") for criterion in (*own, people)],
        "instructions": instructions,
        "critics": preset.get("critics", {}),
        "models": _models(preset, judge=asked.judge),
    }


def _models(preset: Mapping[str, Any], **given: Any) -> dict[str, Any]:
    """Return the generator of the preset as a writer, or its critic as a judge."""
    (role, named), *_ = given.items()
    seat = "generator" if role == "writer" else "critic"
    model = (preset.get("models") or {}).get(seat) if named is None else named
    return {} if model is None else {seat: from_model(model)}


def from_model(model: Any) -> Any:
    """Return a model as JSON, whether it is a name or a choice."""
    return model.model_dump(mode="json") if hasattr(model, "model_dump") else model


def capped(preset: Mapping[str, Any], cap_usd: float | None) -> dict[str, Any]:
    """Return the limits of a preset with a cost of at most so many dollars; nothing without one."""
    if not cap_usd:
        return {}
    stop = preset.get("stop") or {}
    least = min(cap_usd, stop.get("max_cost_usd") or cap_usd)
    return {"stop": {**stop, "max_cost_usd": least}}


def _laid_over(preset: Mapping[str, Any], over: Mapping[str, Any]) -> Overlay:
    return Overlay(RequestLayer(preset, "the preset"), RequestLayer(over))


def request_of(fields: Mapping[str, Any]) -> RefinementRequest:
    """Return a request; raise InvalidRequest for fields that do not go together."""
    return Overlay(RequestLayer(fields)).request()
