"""How many model calls a refinement makes at most, known before it begins.

A call is one question put to a model: a step that another model or another try had to answer is
one. Every question may be asked again `AGAIN` times, when the reply cannot be read. Tools are no
models, validators ask none. What is not counted: drafts that a reviewer asks for, and what a later
change of the limits allows.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.contract.criteria import AUTO

if TYPE_CHECKING:
    from app.contract.requests import RefinementRequest

AGAIN = 2
"""How often a reply that cannot be read is asked for again."""

AMENDED_AGAIN = 1
"""How often edits that cannot be applied are; then the whole text is asked for."""

ASKED = 1 + AGAIN
"""Calls at most for one question."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Calls at most for a revision, and for judging a draft."""

    revise: int
    judge: int

    def search(self, most: int, *, has_draft: bool) -> int:
        """Return the calls of a search with so many drafts besides the one it may start with."""
        first = self.judge if has_draft else ASKED + self.judge
        return first + (most if has_draft else most - 1) * (self.revise + self.judge)


def at_most(request: "RefinementRequest") -> int:
    """Return how many calls the request makes at most; what is never readable costs as much."""
    strategy, most = request.strategy, request.max_iterations
    edited = 0 if request.edits == "full" else 1 + AMENDED_AGAIN
    judged = ASKED * len(request.critics.seats()) * request.critics.samples
    played = strategy.calls(Rates(edited + ASKED, judged), most, request.draft)
    can_differ = strategy.can_differ(most, has_draft=request.draft is not None)
    compared = 2 * ASKED * (request.compare and can_differ)
    listed = ASKED * (request.criteria == AUTO)
    return listed + played + compared + ASKED * len(request.outputs)
