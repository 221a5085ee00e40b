"""A draft, and what was said about exactly this text."""

from dataclasses import dataclass, replace
from typing import Self

from app.contract.edits import EditsMade
from app.contract.judgement import CriterionScore, Critique, Finding, ScoreFrom
from workers.engine.ledger import NO_ISSUES, Ledger


@dataclass(frozen=True, slots=True)
class Draft:
    """One version of the text; `parent` is the path of the iteration it was revised from.

    The path is that of its own search; one that begins with `/` counts from the outermost.
    `is_reply` is false for a text that is neither the reply of its own step nor the client's, such
    as joined parts: it is journaled with its judgement.
    """

    text: str
    sha256: str
    parent: str | None = None
    asked: tuple[str, ...] = ()
    is_reply: bool = True
    edits: EditsMade | None = None
    """How it was made of its parent, if by edits."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A draft with everything that was said about exactly this text; its score is `score_from`."""

    draft: Draft
    score: float | None
    scores: tuple[CriterionScore, ...]
    valid: bool
    floors_met: bool
    critique: Critique
    findings: tuple[Finding, ...] = ()
    score_from: ScoreFrom = "critique"

    def passes(self, threshold: float) -> bool:
        """True when every vetoing validator passed, and every floor and the threshold are met."""
        good = self.score is not None and self.score >= threshold
        return self.valid and self.floors_met and good


@dataclass(frozen=True, slots=True)
class Judgement:
    """A scored draft and where it stands: its path, and its number in its own search."""

    scored: Scored
    iteration: int
    path: str
    issues: Ledger = NO_ISSUES

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Order of drafts within one rubric; of two equal ones the earlier is the better."""
        scored = self.scored
        return (scored.valid, scored.floors_met, -1.0 if scored.score is None else scored.score)

    def rated(self, score: float) -> Self:
        """Return it with a reviewer's score in the place of its own."""
        return replace(self, scored=replace(self.scored, score=score, score_from="review"))
