"""The maximum number of model calls of a refinement, known before it begins.

A call is one question to a model; fallbacks and retries within its step do not count. Every
question may be asked again `AGAIN` times if the reply cannot be parsed. Tools and validators make
no model calls. Not counted: drafts that a reviewer asks for, and what a later change of the limits
allows.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.contract.criteria import AUTO

if TYPE_CHECKING:
    from app.contract.requests import RefinementRequest

AGAIN = 2
"""How often a reply that cannot be parsed is asked for again."""

AMENDED_AGAIN = 1
"""How often edits that cannot be applied are asked for again, before the whole text is."""

CONFIRMED = 3
"""How often a draft that passes is judged again, with `stop.confidence`."""

ASKED = 1 + AGAIN
"""Maximum calls for one question."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Maximum calls for one revision, and for judging one draft."""

    revise: int
    judge: int

    def search(self, most: int, *, has_draft: bool) -> int:
        """Return the maximum calls of a search that writes `most` drafts."""
        first = self.judge if has_draft else ASKED + self.judge
        return first + (most if has_draft else most - 1) * (self.revise + self.judge)


def at_most(request: "RefinementRequest") -> int:
    """Return the maximum number of calls of the request, replies that cannot be parsed included."""
    strategy, most = request.strategy, request.max_iterations
    edited = 0 if request.edits == "full" else 1 + AMENDED_AGAIN
    judged = ASKED * len(request.critics.seats()) * request.critics.samples
    if request.stop.confidence is not None:
        judged *= 1 + CONFIRMED
    played = strategy.calls(Rates(edited + ASKED, judged), most, request.draft)
    can_differ = strategy.can_differ(most, has_draft=request.draft is not None)
    compared = 2 * ASKED * (request.compare and can_differ)
    listed = ASKED * (request.criteria == AUTO)
    return listed + played + compared + ASKED * len(request.outputs)
