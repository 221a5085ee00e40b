"""A proposal to change a preset: what is asked for, the change, and the proof that it is better."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from app.contract import Contract
from app.contract.judgement import Criteria, Criterion, Usage
from app.contract.models import ModelSpec
from app.contract.requests import PresetName, RoleInstructions
from app.contract.statistics import MeanGain
from hone_extras.compare.comparison import FEWEST_TEXTS, Verdict

Status = Literal["writing", "playing", "judging", "decided", "accepted", "failed"]
UNDER_WAY = ("writing", "playing", "judging")
STATUS_OF: Mapping[str, Status] = {
    "accepted": "accepted",
    "failure": "failed",
    "proof": "decided",
    "judging": "judging",
    "playing": "playing",
}
"""The status by the latest fact that is known."""

RemarkKind = Literal["edit", "feedback", "rejection", "rating", "preference", "returned_issue"]
MOST_TEXTS = 100


class ProposalRequest(Contract):
    """How a proposal is written and proved."""

    texts: int = Field(
        20, ge=FEWEST_TEXTS, le=MOST_TEXTS, description="Held-out texts that are played at most."
    )
    budget_usd: float | None = Field(
        None,
        gt=0,
        le=10**6,
        description="Dollars that everything may cost: fewer texts are played where it is small.",
    )
    writer: ModelSpec | None = Field(
        None, description="Model that writes the proposal; null: the generator of the preset."
    )
    judge: ModelSpec | None = Field(
        None, description="Model that judges the drafts; null: the critic of the preset."
    )


class Acceptance(Contract):
    """The decision to change the preset."""

    anyway: bool = Field(
        False, description="Whether to accept a proposal without a significant gain."
    )


class LearnedSetting(Contract):
    """The fields of a preset that a proposal may change."""

    criteria: Criteria = ()
    instructions: RoleInstructions = RoleInstructions()


Number = Annotated[int, Field(ge=1)]


class ChangeReason(Contract):
    """What was changed, and the numbers of the evidence for it."""

    change: str = Field(min_length=1, max_length=500)
    evidence: tuple[Number, ...] = Field(min_length=1, max_length=50)


class WrittenChange(Contract):
    """The reply of the model that writes a proposal; null leaves a field as it is."""

    criteria: Annotated[tuple[Criterion, ...], Field(min_length=1, max_length=20)] | None = None
    instructions: RoleInstructions | None = None
    why: tuple[ChangeReason, ...] = Field((), max_length=20)

    def over(self, before: LearnedSetting) -> LearnedSetting:
        """Return the setting with the change."""
        return LearnedSetting(
            criteria=before.criteria if self.criteria is None else self.criteria,
            instructions=before.instructions if self.instructions is None else self.instructions,
        )


class Evidence(Contract):
    """One remark that the proposal was written from: a reference, without its words."""

    number: int = Field(ge=1)
    refinement: str
    kind: RemarkKind
    path: str | None = Field(description="Path of the draft that it is about.")


class SettingResult(Contract):
    """Means over the texts that were played with a setting."""

    score: float | None
    cost_usd: float | None = Field(description="Of refining a text.")


class Proof(Contract):
    """Present and proposed setting on held-out texts, as `hone compare` finds it."""

    significant: bool = Field(description="Whether the proposed setting is shown to be better.")
    verdict: Verdict
    said: str = Field(description="The finding in sentences.")
    held_out: int = Field(ge=0, description="Texts that were played.")
    texts: int = Field(ge=0, description="Those of them that have a score with both settings.")
    gain: MeanGain | None = Field(
        description="Mean score of the proposed setting, minus that of the present one."
    )
    confidence: float = Field(
        description="Of the interval: higher with every proposal for the same setting."
    )
    wins: int
    losses: int
    ties: int
    present: SettingResult
    proposed: SettingResult
    criteria: dict[str, MeanGain]


class Proposal(Contract):
    """A change of a preset that a person may accept, and its proof."""

    id: str
    preset: PresetName
    status: Status
    created_at: datetime
    evidence: tuple[Evidence, ...] = Field(description="What it was written from.")
    held_out: tuple[str, ...] = Field(
        description="Refinements whose texts are played: none of them is in the evidence."
    )
    before: LearnedSetting
    after: LearnedSetting | None = Field(description="Null until it is written.")
    why: tuple[ChangeReason, ...] = ()
    proof: Proof | None = None
    spent: Usage = Field(description="What writing, playing and judging consumed so far.")
    refinement: str = Field(description="The refinement that writes it.")
    batches: tuple[str, ...] = Field((), description="The batches that played and judged it.")
    error: str | None = Field(None, description="Why it failed.")
    accepted_at: datetime | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether something of it is still to be done without a person."""
        return self.status in UNDER_WAY


class ProposalList(Contract):
    """The proposals for a preset, newest first."""

    data: tuple[Proposal, ...]


def status_of(facts: Mapping[str, Any]) -> Status:
    """Return the status of a proposal by the facts that are known of it."""
    return next((status for name, status in STATUS_OF.items() if name in facts), "writing")


def proposal_of(proposal_id: str, facts: Mapping[str, Any]) -> Proposal:
    """Return a proposal by its facts."""
    begun, written = facts["begun"], facts.get("written", {})
    spent = [said["spent"] for said in facts.values() if "spent" in said]
    batches = [facts[name]["work"] for name in ("playing", "judging") if name in facts]
    return Proposal(
        id=proposal_id,
        preset=begun["preset"],
        status=status_of(facts),
        created_at=begun["at"],
        evidence=begun["evidence"],
        held_out=tuple(refinement for ids in begun["held_out"] for refinement in ids),
        before=begun["before"],
        after=written.get("after"),
        why=written.get("why", ()),
        proof=facts.get("proof", {}).get("proof"),
        spent=sum((Usage.model_validate(said) for said in spent), Usage()),
        refinement=begun["work"],
        batches=tuple(batches),
        error=facts.get("failure", {}).get("detail"),
        accepted_at=facts.get("accepted", {}).get("at"),
    )
