"""Strategies that check the facts of a text, its agreement with other samples, or its steps."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, field_validator

from app.contract.calls import ASKED, Rates
from app.contract.errors import FieldConflict
from app.contract.models import ROLES, Role
from app.contract.strategies import LanguageNeed, Strategy
from app.contract.strategies.answers import compile_answer
from app.contract.strategies.chains import NotAChain, chain_of

if TYPE_CHECKING:
    from app.contract.requests import RefinementRequest


class ChainOfVerificationStrategy(Strategy):
    """Draft, ask about its facts, answer without seeing it, revise from the contradictions.

    Every draft is judged and verified; a draft that an answer contradicts does not pass. (Factored
    Chain-of-Verification, arXiv 2309.11495.)
    """

    kind: Literal["chain_of_verification"]
    max_questions: int = Field(
        5, ge=1, le=12, description="Maximum number of questions about a draft."
    )

    needs_language: ClassVar[LanguageNeed | None] = LanguageNeed(
        "asks and answers questions about what a text says"
    )
    judges_criteria: ClassVar[bool] = True

    def roles(self) -> tuple[Role, ...]:
        return ROLES

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        verified = rates.judge + ASKED * (2 + self.max_questions)
        return replace(rates, judge=verified).search(max_iterations, has_draft=draft is not None)


class SelfConsistencyStrategy(Strategy):
    """Answer the task n times in parallel, and return the most frequent answer.

    No criteria are judged: the score is the share of samples that agree. (Self-consistency, arXiv
    2203.11171; `vote: "judge"` for prose, Universal Self-Consistency, arXiv 2311.17311.)
    """

    kind: Literal["self_consistency"]
    n: int = Field(5, ge=2, le=20, description="Number of samples drawn in parallel.")
    vote: Literal["exact", "judge"] = Field(
        "exact",
        description="`exact`: answers agree if they are equal after normalization; `judge`: if a"
        " critic decides that they mean the same.",
    )
    answer: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="RE2 pattern with one group that finds the answer in the last 2,000 characters"
        " of a sample; the last match counts. Without it the whole sample is the answer.",
    )

    @field_validator("answer")
    @classmethod
    def _answer_compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            compile_answer(pattern)
        return pattern

    needs_language: ClassVar[LanguageNeed | None] = LanguageNeed(
        "answers a task several times and compares the answers"
    )
    judges_criteria: ClassVar[bool] = False

    def roles(self) -> tuple[Role, ...]:
        return ROLES if self.vote == "judge" else ("generator",)

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        return ASKED * (self.n + (self.vote == "judge"))

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        yield from self.refused_tools(request)  # they are named before the draft
        if request.draft is not None:
            yield FieldConflict(
                "/draft", "`draft` is not supported by self_consistency: give a `task` alone"
            )

    def drawn_at_least(self) -> int:
        return self.n


class ReasoningRevisionStrategy(Strategy):
    """Reason in numbered steps; find the first faulty one and redo it and the steps after it.

    The steps before it stay byte for byte. A chain with a faulty step does not pass. (Step-level
    correction, StepCo, arXiv 2410.12934; models correct an error once its location is given, arXiv
    2311.08516.)
    """

    kind: Literal["reasoning_revision"]

    needs_language: ClassVar[LanguageNeed | None] = LanguageNeed(
        "reasons in steps and finds the faulty one"
    )
    judges_criteria: ClassVar[bool] = True

    def roles(self) -> tuple[Role, ...]:
        return ROLES

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        redone = replace(rates, revise=ASKED, judge=rates.judge + ASKED)
        return redone.search(max_iterations, has_draft=draft is not None)

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        yield from self.refused_tools(request)  # they are named before the draft
        if request.draft is not None:
            try:
                chain_of(request.draft)
            except NotAChain as error:
                yield FieldConflict(
                    "/draft", f"`draft` must be numbered steps for reasoning_revision: {error}"
                )
