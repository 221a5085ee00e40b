"""What a proposal asks of the service: one refinement that writes it, then two batches.

The first batch refines each held-out text under both settings. The second one judges every final
draft, blind, by the preset's own criteria and by what people said of that text, which the writer
of the proposal has not seen.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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

SCHEMA = WrittenChange.model_json_schema()

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


@dataclass(frozen=True)
class Trial:
    """The requests of one proposal."""

    id: str
    preset: Mapping[str, Any]
    """Its fields as JSON, secrets included."""
    before: LearnedSetting
    asked: Mapping[str, Any]
    """The body that asked for the proposal, as JSON."""
    caps_usd: Mapping[str, float | None] = field(default_factory=dict)
    """What one request of each step may cost."""

    def writing(self, remarks: Sequence[Remark]) -> RefinementRequest:
        """Return the request whose result is a `WrittenChange`."""
        told = "\n\n".join(f"{number}. {each.words}" for number, each in enumerate(remarks, 1))
        setting = json.dumps(self.before.model_dump(mode="json"), ensure_ascii=False, indent=1)
        return Overlay(
            RequestLayer(
                {
                    **self._common("writing", "writing"),
                    "task": TASK,
                    "context": [
                        {"name": "Setting", "text": setting},
                        {"name": "Evidence", "text": told},
                    ],
                    "strategy": {"kind": "self_correction"},
                    "validators": [{"kind": "json_schema", "schema": SCHEMA}],
                    "models": self._model("generator", self.asked["writer"]),
                    "priority": "interactive",
                }
            )
        ).request()

    def playing(
        self, texts: Sequence[RemarkedText | None], settings: Mapping[str, LearnedSetting]
    ) -> Lines:
        """Return a request for each text under each setting; which one is first takes turns."""
        lines: Lines = []
        for index, text in enumerate(texts):
            for name in [*settings][:: 1 if index % 2 else -1] if text is not None else ():
                over = {
                    **self._common("playing", name),
                    **(text.fields if text is not None else {}),
                    **settings[name].model_dump(mode="json"),
                }
                layers = RequestLayer(self.preset, "the preset"), RequestLayer(over)
                lines.append((f"{index}/{name}", Overlay(*layers)))
        return lines

    def judging(
        self, texts: Sequence[RemarkedText | None], played: Mapping[str, BatchResult]
    ) -> Lines:
        """Return a request for each final draft; equal drafts of a text are judged once."""
        return [
            (custom_id, self.judgement(text, draft))
            for custom_id, draft in judged_once(played).items()
            if (text := texts[int(custom_id.partition("/")[0])]) is not None
        ]

    def judgement(self, text: RemarkedText, draft: str) -> Overlay:
        """Return the request that judges a draft of a text: the same for both settings.

        Half of the score is that of the preset's own criteria, half that of what people asked for.
        """
        own = (() if self.before.criteria == AUTO else self.before.criteria) or (QUALITY,)
        whole = sum(criterion.weight for criterion in own)
        shares = [each.model_copy(update={"weight": each.weight / whole}) for each in own]
        said = "\n\n".join(remark.words for remark in text.remarks if remark.is_of_a_person)
        documents = [*(text.fields.get("context") or ())][:31]
        left = MAX_CONTEXT - sum(len(document["text"]) for document in documents)
        style = f"{self.before.instructions.critic}\n{JUDGED_BY}".strip()[-4_000:]
        fields = {
            **self._common("judging", "judging"),
            "task": text.fields.get("task"),
            "context": [*documents, {"name": SAID, "text": said[:left]}],
            "grounding": text.fields.get("grounding") or "open",
            "draft": draft,
            "strategy": {"kind": "critique"},
            "criteria": [criterion.model_dump(mode="json") for criterion in (*shares, ASKED)],
            "instructions": {"critic": style},
            "critics": self.preset.get("critics", {}),
            "models": self._model("critic", self.asked["judge"]),
        }
        return Overlay(RequestLayer(fields))

    def _common(self, step: str, label: str) -> dict[str, Any]:
        """Return what no request of a step has of the preset, its label and what it may cost."""
        common = {**UNUSED, "metadata": {MARK: self.id, "proposal_step": label}}
        if cap_usd := self.caps_usd.get(step):
            stop = self.preset.get("stop") or {}
            least = min(cap_usd, stop.get("max_cost_usd") or cap_usd)
            common["stop"] = {**stop, "max_cost_usd": least}
        return common

    def _model(self, seat: str, given: Any) -> dict[str, Any]:
        model = given or (self.preset.get("models") or {}).get(seat)
        return {} if model is None else {seat: model}
