"""The strategy that lists ideas before it writes."""

from typing import ClassVar, Literal

from pydantic import Field

from app.contract.calls import Rates
from app.contract.strategies import LanguageNeed, Strategy


class BrainstormStrategy(Strategy):
    """List ideas, write a draft from them, then critique and revise the best like `iterative`."""

    kind: Literal["brainstorm"]
    ideas: int = Field(5, ge=2, le=20, description="Ideas listed before anything is written.")

    needs_language: ClassVar[LanguageNeed | None] = LanguageNeed(
        "lists ideas for a text", roles=("generator",)
    )
    judges_criteria: ClassVar[bool] = True
    prepares: ClassVar[int] = 1

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        return rates.ask + rates.search(max_iterations, has_draft=draft is not None)
