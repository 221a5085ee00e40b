"""Strategies that check a text by asking: about its facts, its agreement with others, its steps."""

from typing import Literal

from pydantic import Field, field_validator

from app.contract import Contract
from app.contract.answers import compile_answer


class ChainOfVerificationStrategy(Contract):
    """Draft, question its facts, answer without seeing it, revise from the contradictions.

    Every draft is judged and verified; one that an answer contradicts does not pass. (Factored
    Chain-of-Verification, arXiv 2309.11495.)
    """

    kind: Literal["chain_of_verification"]
    max_questions: int = Field(5, ge=1, le=12, description="Questions asked about a draft at most.")


class SelfConsistencyStrategy(Contract):
    """Answer the task n times at once, and return the answer that most of them give.

    No criteria are judged: the score is the share of the samples that agree. (Self-consistency,
    arXiv 2203.11171; `vote: "judge"` for prose, Universal Self-Consistency, arXiv 2311.17311.)
    """

    kind: Literal["self_consistency"]
    n: int = Field(5, ge=2, le=20, description="Samples drawn at once.")
    vote: Literal["exact", "judge"] = Field(
        "exact",
        description="`exact`: answers agree when they are the same after normalising; `judge`: when"
        " a critic says that they say the same.",
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


class ReasoningRevisionStrategy(Contract):
    """Reason in numbered steps; find the first faulty one and redo only it and what follows.

    The steps before it stay byte for byte. A chain with a faulty step does not pass. (Step-level
    correction, StepCo, arXiv 2410.12934; told where the error is, models mend it, arXiv
    2311.08516.)
    """

    kind: Literal["reasoning_revision"]
