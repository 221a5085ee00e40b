"""How many questions a refinement asks models: at most, and usually; known before it begins.

A call is one question to a model; fallbacks and retries within its step do not count. Every
question may be asked again `AGAIN` times if the reply cannot be parsed. Tools and validators make
no model calls. Not counted: drafts that a reviewer asks for, and what a later change of the limits
allows.
"""

from operator import index
from typing import TYPE_CHECKING

from app.contract.errors import Internal
from app.contract.judgement import AUTO
from app.contract.values import value

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


@value(slots=True)
class Rates:
    """What one question, one revision, and judging one draft count.

    With `is_usual` a search ends before its last draft, as most do, and every other loop likewise.
    """

    ask: int
    revise: int
    judge: int
    is_usual: bool = False
    has_look_ups: bool = False
    """Whether the request has tools without effects."""

    def turns(self, most: int) -> int:
        """Return how many turns of at most `most` a loop takes: all, or usually half of them."""
        return -(-most // 2) if self.is_usual else most

    def search(self, most: int, *, has_draft: bool) -> int:
        """Return the count of a search that writes `most` drafts."""
        drafts = self.turns(most)
        first = self.judge if has_draft else self.ask + self.judge
        return first + (drafts if has_draft else drafts - 1) * (self.revise + self.judge)


@value(slots=True)
class Questions:
    """How many questions of each kind a request asks, each counted once however often it is asked.

    `asked` are those of the strategy itself, first drafts included; `judged` counts drafts. A draft
    that comes with feedback is not judged before it is revised.
    """

    listed: int
    asked: int
    revised: int
    judged: int
    compared: int
    derived: int


def questions(request: "RefinementRequest", *, is_usual: bool = False) -> Questions:
    """Return the questions of a request: at most, or as many as there usually are.

    Raises `Internal` if its strategy does not declare them.
    """
    strategy, most, draft = request.strategy, request.max_iterations, request.draft
    has_look_ups = not all(tool.effects for tool in request.tools)

    def counted(ask: int = 0, revise: int = 0, judge: int = 0) -> int:
        rates = Rates(ask, revise, judge, is_usual, has_look_ups)
        try:
            return index(strategy.calls(rates, most, draft))
        except Exception as error:
            detail = (
                f"the strategy {strategy.kind} does not declare its calls; the error was logged"
            )
            raise Internal(detail) from error

    can_differ = strategy.can_differ(most, has_draft=draft is not None)
    return Questions(
        listed=int(request.criteria == AUTO),
        asked=counted(ask=1),
        revised=counted(revise=1),
        judged=max(0, counted(judge=1) - int(request.feedback is not None)),
        compared=2 * int(request.compare and can_differ),
        derived=len(request.outputs),
    )


def revising(request: "RefinementRequest") -> int:
    """Return the maximum calls of one revision."""
    return ASKED if request.edits == "full" else 1 + AMENDED_AGAIN + ASKED


def judgements(request: "RefinementRequest") -> int:
    """Return how often each critic judges one draft at most."""
    confirmed = 0 if request.stop.confidence is None else CONFIRMED
    return request.critics.samples * (1 + confirmed)


def at_most(request: "RefinementRequest") -> int:
    """Return the maximum number of calls of the request, replies that cannot be parsed included."""
    all_ = questions(request)
    judged = judgements(request) * len(request.critics.seats()) * all_.judged
    writers = 1 + len(request.models.later_generators())  # each may have to take over
    once = all_.listed + all_.compared + all_.derived
    drafts = ASKED * all_.asked + revising(request) * all_.revised
    return ASKED * (once + judged) + writers * drafts
