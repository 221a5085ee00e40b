"""Strategies that judge whole drafts: one loop, or one round of drafts."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from app.contract.calls import Rates
from app.contract.errors import FieldConflict
from app.contract.judgement import OnFail
from app.contract.models import Role
from app.contract.strategies import LanguageNeed, Strategy

if TYPE_CHECKING:
    from app.contract.requests import RefinementRequest


class IterativeStrategy(Strategy):
    """Write a draft, then critique and revise the best one until it is good enough.

    (Self-Refine, arXiv 2303.17651.)
    """

    kind: Literal["iterative"]

    needs_language: ClassVar[LanguageNeed | None] = None
    judges_criteria: ClassVar[bool] = True
    follows_feedback: ClassVar[bool] = True

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        return rates.search(max_iterations, has_draft=draft is not None)


DEFAULT = IterativeStrategy(kind="iterative")
"""The strategy of a request that names none."""


class CritiqueStrategy(Strategy):
    """Judge the given draft once and revise nothing."""

    kind: Literal["critique"]

    needs_language: ClassVar[LanguageNeed | None] = None
    judges_criteria: ClassVar[bool] = True

    def roles(self) -> tuple[Role, ...]:
        return ("critic",)

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        return rates.judge

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        if request.draft is None:
            yield FieldConflict(
                "/draft", "`draft` is required for the strategy critique, which judges it"
            )

    def can_differ(self, max_iterations: int, *, has_draft: bool) -> bool:
        return False

    def escalates(self, max_iterations: int) -> bool:
        return False


class SelfCorrectionStrategy(Strategy):
    """Validate, and correct from the exact errors until every validator passes; without a critic.

    The loop of Reflexion (arXiv 2303.11366) and Self-Debugging (arXiv 2304.05128) with validators
    as the only judge: for JSON, SQL, code and everything else that validators can check.
    """

    kind: Literal["self_correction"]

    needs_language: ClassVar[LanguageNeed | None] = None
    judges_criteria: ClassVar[bool] = False
    follows_feedback: ClassVar[bool] = True

    def roles(self) -> tuple[Role, ...]:
        return ("generator",)

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        return replace(rates, judge=0).search(max_iterations, has_draft=draft is not None)

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        if all(validator.on_fail is OnFail.WARN for validator in request.validators):
            yield FieldConflict(
                "/validators",
                "self_correction requires a validator with `on_fail` other than `warn`",
            )


class BestOfNStrategy(Strategy):
    """Write n drafts in parallel, judge each, return the best (best-of-n, arXiv 2009.01325).

    With `refine` the best draft is then revised with the remaining iterations; `max_iterations`
    counts every draft. This trades breadth for depth at an equal budget (arXiv 2408.03314).
    """

    kind: Literal["best_of_n"]
    n: int = Field(3, ge=2, le=16, description="Number of drafts written in parallel.")
    refine: bool = Field(False, description="Revise the best draft with the remaining iterations.")

    needs_language: ClassVar[LanguageNeed | None] = None
    judges_criteria: ClassVar[bool] = True

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        write = rates.ask if draft is None else rates.revise
        refining = self.refine * rates.turns(max_iterations - self.n)
        refined = refining * (rates.revise + rates.judge)
        return rates.judge * (draft is not None) + self.n * (write + rates.judge) + refined

    def drawn_at_least(self) -> int:
        return self.n + self.refine

    def escalates(self, max_iterations: int) -> bool:
        return self.refine
