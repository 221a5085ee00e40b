"""How many model calls a refinement makes at most, known before it begins.

A call is one question put to a model: a step that another model or another try had to answer is
one. Every question may be asked again `AGAIN` times, when the reply cannot be read. Tools are no
models, validators ask none. What is not counted: drafts that a reviewer asks for, and what a later
change of the limits allows.
"""

from dataclasses import dataclass, replace

from app.contract.criteria import AUTO
from app.contract.drafts import MOST_SECTIONS, sections_of
from app.contract.parted_strategies import MultiPassStrategy, Stage, StepwiseStrategy
from app.contract.planning import PlanExecuteStrategy
from app.contract.reasoning_strategies import (
    ChainOfVerificationStrategy,
    ReasoningRevisionStrategy,
    SelfConsistencyStrategy,
)
from app.contract.requests import RefinementRequest
from app.contract.strategies import (
    AnyStrategy,
    BestOfNStrategy,
    CritiqueStrategy,
    IterativeStrategy,
    NestedStrategy,
    SelfCorrectionStrategy,
)

AGAIN = 2
"""How often a reply that cannot be read is asked for again."""

AMENDED_AGAIN = 1
"""How often edits that cannot be applied are; then the whole text is asked for."""

ASKED = 1 + AGAIN


def at_most(request: RefinementRequest) -> int:
    """Return how many calls the request makes at most; whoever is never readable costs as much."""
    edited = 0 if request.edits == "full" else 1 + AMENDED_AGAIN
    judged = ASKED * len(request.critics.seats()) * request.critics.samples
    rates = _Rates(edited + ASKED, judged)
    listed = ASKED * (request.criteria == AUTO)
    compared = 2 * ASKED * (request.compare and _can_differ(request))
    return listed + _of(request, rates) + compared + ASKED * len(request.outputs)


@dataclass(frozen=True, slots=True)
class _Rates:
    """Calls at most for a revision, and for judging a draft."""

    revise: int
    judge: int

    def search(self, most: int, *, has_draft: bool) -> int:
        """Return the calls of a search with so many drafts besides the one it may start with."""
        first = self.judge if has_draft else ASKED + self.judge
        return first + (most if has_draft else most - 1) * (self.revise + self.judge)


def _of(request: RefinementRequest, rates: _Rates) -> int:
    strategy, has_draft = request.strategy, request.draft is not None
    if not isinstance(strategy, NestedStrategy):
        return _played(strategy, rates, request.max_iterations, has_draft=has_draft)
    parts = len(sections_of(request.draft)) if request.draft is not None else len(strategy.parts)
    part = _played(strategy.body, rates, strategy.max_iterations, has_draft=has_draft)
    return parts * part + rates.judge * (1 + has_draft)


def _played(strategy: AnyStrategy, rates: _Rates, most: int, *, has_draft: bool) -> int:
    """Return the calls of a strategy whose search has so many drafts at most."""
    around = rates.judge * (1 + has_draft)  # the client's draft before the parts, the whole after
    calls = rates.search(most, has_draft=has_draft)
    match strategy:
        case IterativeStrategy():
            pass
        case CritiqueStrategy():
            calls = rates.judge
        case SelfCorrectionStrategy():
            calls = replace(rates, judge=0).search(most, has_draft=has_draft)
        case BestOfNStrategy(n=n, refine=refine):
            drawn = n * ((rates.revise if has_draft else ASKED) + rates.judge)
            refined = refine * (most - n) * (rates.revise + rates.judge)
            calls = rates.judge * has_draft + drawn + refined
        case MultiPassStrategy(passes=(first, *later)):
            calls = around + rates.search(first.max_iterations, has_draft=has_draft)
            calls += sum(rates.search(it.max_iterations, has_draft=True) for it in later)
        case StepwiseStrategy(stages=stages):
            calls = around + sum(_staged(it, rates) for it in stages)
        case ChainOfVerificationStrategy(max_questions=questions):
            verified = rates.judge + ASKED * (2 + questions)
            calls = replace(rates, judge=verified).search(most, has_draft=has_draft)
        case SelfConsistencyStrategy(n=n, vote=vote):
            calls = ASKED * (n + (vote == "judge"))
        case ReasoningRevisionStrategy():
            calls = _Rates(ASKED, rates.judge + ASKED).search(most, has_draft=has_draft)
        case PlanExecuteStrategy(max_steps=steps):
            calls += 2 * ASKED * steps
        case NestedStrategy():
            raise TypeError("its parts are counted by the request")
    return calls


def _staged(stage: Stage, rates: _Rates) -> int:
    sections = ASKED * MOST_SECTIONS if stage.sections else 0
    starts_from_a_draft = stage.sections or stage.mode == "revise"
    return sections + rates.search(stage.max_iterations, has_draft=starts_from_a_draft)


def _can_differ(request: RefinementRequest) -> bool:
    """Return whether the result can be another draft than the first that is judged as a whole."""
    match request.strategy:
        case CritiqueStrategy():
            return False
        case _ if request.draft is not None:
            return True
        case MultiPassStrategy() | StepwiseStrategy() | NestedStrategy():
            return False  # one draft is judged as a whole
        case _:
            return request.max_iterations > 1
