"""How a refinement ends: its last status, and what the summary says from then on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.contract.reviews import Paused, ReviewPlan
from app.contract.snapshot import Best, Failure, Result
from app.contract.status import Status, StopReason
from workers.engine.moves import Judgement, Review
from workers.engine.search import Outcome


class Canceled(Exception):
    """A cancel was accepted: the strategy is closed where it stands."""


class AwaitingReview(Exception):
    """A reviewer is asked: the claim is given up, and another one goes on after their word."""


class WorkerLeaving(Exception):
    """This worker is shutting down: the next step is somebody else's."""


@dataclass(frozen=True)
class Ending:
    """The status a refinement ends or pauses in, and the `Fields` that change with it."""

    status: Status
    changes: Mapping[str, Any]
    asked: Paused | None = None


def succeeded(outcome: Outcome, stopping: StopReason | None) -> Ending:
    """The strategy returned; one stopped from outside says no reason of its own.

    One that went on without the parts that were refused has not done all it set out to. What
    stopped without a journaled reason was a call that the budget did not allow beside others.
    """
    reason = None if stopping and outcome.reason is StopReason.COMPLETED else outcome.reason
    result = result_of(outcome.best, outcome.best.path, outcome.missing)
    changes = {
        "stop_reason": reason or stopping or StopReason.BUDGET_EXHAUSTED,
        "best": best_of(outcome.best, outcome.best.path),
        "result": result.model_copy(
            update={"comparison": outcome.comparison, "outputs": dict(outcome.outputs)}
        ),
        "best_passed": outcome.passed,
    }
    return Ending(Status.SUCCEEDED, changes)


def paused(move: Review, plan: ReviewPlan) -> Ending:
    """A reviewer is asked about a draft; what was judged before stays."""
    scored = move.judgement.scored
    what = "The result" if move.when == "before_completion" else "The draft"
    score = "was not measured" if scored.score is None else f"scored {scored.score:g}"
    asked = Paused(
        key=move.path,
        path=move.judgement.path,
        iteration=move.judgement.iteration,
        score=scored.score,
        sha256=scored.draft.sha256,
        when=move.when,
        timeout_s=plan.timeout_s,
        on_timeout=plan.on_timeout,
        question=f"{what} at {move.judgement.path} {score}. Approve it, reject it, say what to"
        " revise, give a text in its place, or rate it.",
    )
    return Ending(Status.PAUSED, {"phase": (move.path,)}, asked)


def canceled() -> Ending:
    """Work has really stopped."""
    return Ending(Status.CANCELED, {"stop_reason": StopReason.CANCELED})


def failed(code: str, detail: str) -> Ending:
    """It could not go on; what was judged before stays the result."""
    error = Failure(code=code, detail=detail)
    return Ending(Status.FAILED, {"stop_reason": StopReason.ERROR, "error": error})


def nothing_judged(stopping: StopReason | None) -> Ending:
    """A budget or deadline was reached with no draft judged."""
    reason = stopping or StopReason.BUDGET_EXHAUSTED
    return failed("nothing_judged", f"stopped before a draft was judged ({reason})")


def best_of(judgement: Judgement, path: str) -> Best:
    """Return what the snapshot says of the best draft."""
    scored = judgement.scored
    return Best(
        iteration=judgement.iteration, path=path, score=scored.score, sha256=scored.draft.sha256
    )


def result_of(judgement: Judgement, path: str, missing: tuple[str, ...] = ()) -> Result:
    """Return a draft with the score of exactly that text; `missing` has no draft in it."""
    scored = judgement.scored
    return Result(
        draft=scored.draft.text,
        iteration=judgement.iteration,
        path=path,
        score=scored.score,
        score_from=scored.score_from,
        sha256=scored.draft.sha256,
        missing=missing,
    )
