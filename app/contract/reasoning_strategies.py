"""Strategies that check a text by asking: about its facts, its agreement with others, its steps."""

from typing import Literal

from pydantic import Field

from app.contract.model import Contract


class ChainOfVerificationStrategy(Contract):
    """Draft, question its facts, answer without seeing it, revise from the contradictions.

    Every draft is judged and verified; one that an answer contradicts does not pass. (Factored
    Chain-of-Verification, arXiv 2309.11495.)
    """

    kind: Literal["chain_of_verification"]
    max_questions: int = Field(5, ge=1, le=12, description="Questions asked about a draft at most.")
