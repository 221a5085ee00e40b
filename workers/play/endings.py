"""How a refinement ends or pauses: status, result, caveats, and what that adds to sums."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from app.contract.events import IterationCompleted
from app.contract.judgement import Criterion, QualityEstimate
from app.contract.object_drafts import ObjectText, object_in
from app.contract.requests import RefinementRequest
from app.contract.reviews import Paused, PendingPause, ReviewPlan
from app.contract.snapshot import Best, Failure, Result
from app.contract.status import (
    BLOCKING,
    TEXT_MISSING,
    Caveat,
    RefinementOutcome,
    Shortfall,
    Status,
    StopReason,
)
from app.contract.values import value
from app.contract.waiting import REFUSALS
from app.store import Addition, Parking, Submitted
from app.store.statistics import Agreement, Hypotheses, Kind, agreements, lessons
from workers.engine.judging import error_weights
from workers.engine.moves import Approval, Judgement, Rejected, Review
from workers.engine.quality import HYPOTHESES
from workers.engine.search import Outcome
from workers.play.replay import Replay
from workers.play.waiting import EveryBranchWaits

OF_THE_BANK = Hypotheses(
    noise=tuple(hypothesis.noise for hypothesis in HYPOTHESES),
    gain=tuple(hypothesis.gain for hypothesis in HYPOTHESES),
    prior=tuple(hypothesis.prior for hypothesis in HYPOTHESES),
)

VALIDATORS_WEIGHT = 0.25
"""What a pair compared by validators weighs, against 1 by a person: they see a part of it."""


def learning_kind(submitted: Submitted) -> Kind | None:
    """Return the kind of a refinement; None if it neither learns nor is learnt from."""
    models = {seat: choice.model for seat, choice in submitted.models.items()}
    return Kind.of(submitted.request, models) if submitted.request.learn else None


def outcome_additions(
    tenant: str, kind: Kind | None, outcome: Outcome, judged: Mapping[str, IterationCompleted]
) -> tuple[Addition, ...]:
    """Return what an outcome adds; `judged` has every judged draft by its path."""
    if kind is None:
        return ()
    lesson = outcome.lesson
    learnt = () if lesson is None else lessons(tenant, kind, lesson, OF_THE_BANK)
    return (*learnt, *agreements(tenant, kind.critic, agreements_in(judged)))


def agreements_in(judged: Mapping[str, IterationCompleted]) -> Iterator[Agreement]:
    """Yield how the critic agrees with the validators about each revision and its parent.

    The better of the two has fewer and lighter findings. Pairs without such a difference, and those
    that critics did not score, say nothing.
    """
    for draft in judged.values():
        parent = judged.get(draft.parent or "")
        if parent is None or {draft.score_from, parent.score_from} != {"critique"}:
            continue
        if draft.score is None or parent.score is None:
            continue
        if not (draft.findings or parent.findings):
            continue
        fewer = sum(error_weights(parent.findings)) - sum(error_weights(draft.findings))
        if fewer:
            apparent = draft.score - parent.score
            agrees = apparent * fewer > 0
            yield Agreement.of_preference(apparent, agrees=agrees, weight=VALIDATORS_WEIGHT)


def best_of(judgement: Judgement, path: str) -> Best:
    """Return the snapshot's entry for the best draft."""
    scored = judgement.scored
    return Best(
        iteration=judgement.iteration, path=path, score=scored.score, sha256=scored.draft.sha256
    )


MOST_CAVEATS = 50
"""Caveats of a result; those that keep it from passing go first."""


NO_TEXT = "no text was written for it"


def unique_caveats(caveats: Iterable[Caveat]) -> tuple[Caveat, ...]:
    """Return the caveats of a result, as many as fit, each once."""
    first = BLOCKING | {TEXT_MISSING}
    known = sorted(dict.fromkeys(caveats), key=lambda caveat: caveat.code not in first)
    return tuple(known[:MOST_CAVEATS])


def result_of(
    request: RefinementRequest,
    judgement: Judgement,
    path: str,
    missing: tuple[str, ...] = (),
    estimate: QualityEstimate | None = None,
    caveats: Iterable[Caveat] = (),
) -> Result:
    """Return a draft with the score of exactly that text; `missing` lists parts without a draft.

    `caveats` are those about the work on it; what its verdict lacks, and those that the request
    brings with it, are added.
    """
    scored = judgement.scored
    return Result(
        draft=scored.draft.text,
        object=object_in(scored.draft.text) if isinstance(request.draft, ObjectText) else None,
        iteration=judgement.iteration,
        path=path,
        score=scored.score,
        score_from=scored.score_from,
        sha256=scored.draft.sha256,
        estimate=estimate,
        outputs={},  # pydantic would copy the default
        caveats=unique_caveats(
            (
                *(Caveat(code=TEXT_MISSING, path=at, detail=NO_TEXT) for at in missing),
                *caveats,
                *(caveat.under(path) for caveat in scored.caveats),
                *request.caveats(),
            )
        ),
    )


@value()
class Ending:
    """The status in which a refinement ends or pauses, and the `Fields` that change with it.

    With `parking` the status stays as it is, and only the claim ends.
    """

    status: Status | None
    changes: Mapping[str, Any]
    asked: tuple[Paused, ...] = ()
    parking: Parking | None = None
    additions: tuple[Addition, ...] = ()
    """What the ending adds to the sums of the tenant."""

    @property
    def outcome(self) -> RefinementOutcome | None:
        """The outcome; None if the refinement goes on."""
        if self.status is None or not self.status.is_terminal:
            return None
        if self.status is not Status.SUCCEEDED:
            return RefinementOutcome(self.status)
        if self.changes.get("result") is None:
            return RefinementOutcome.FAILED
        is_passed = bool(self.changes.get("best_passed"))
        return RefinementOutcome.PASSED if is_passed else RefinementOutcome.BEST_EFFORT

    def under(self, status: Status) -> Self:
        """Return what was written: a cancel that was under way overrules success and failure."""
        if status is not Status.CANCELED or self.status is None:
            return self
        changes = {**self.changes, "stop_reason": StopReason.CANCELED, "error": None}
        return replace(self, status=status, changes=changes)

    @classmethod
    def succeeded(
        cls,
        outcome: Outcome,
        recorded: Replay,
        request: RefinementRequest,
        threshold: float,
        additions: tuple[Addition, ...] = (),
    ) -> Self:
        """Return the ending for an outcome; a strategy that was stopped from outside has no reason.

        The reason `completed` does not count after a stop, since parts were refused. A stop without
        a journaled reason was a call that the budget did not allow beside others in flight.
        """
        stopping, path = recorded.stopping, outcome.best.path
        reason = None if stopping and outcome.reason is StopReason.COMPLETED else outcome.reason
        caveats = (*outcome.every_caveat, *recorded.dropped(path))
        result = result_of(request, outcome.best, path, outcome.missing, outcome.estimate, caveats)
        changes = {
            "stop_reason": reason or stopping or StopReason.BUDGET_EXHAUSTED,
            "best": best_of(outcome.best, path),
            "result": result.model_copy(
                update={"comparison": outcome.comparison, "outputs": dict(outcome.outputs)}
            ),
            "best_passed": outcome.passed,
            "lacks": "" if outcome.passed else _lacking(outcome, result, request, threshold),
        }
        return cls(Status.SUCCEEDED, changes, additions=additions)

    @classmethod
    def paused(
        cls, move: Review, plan: ReviewPlan, recorded: Replay, request: RefinementRequest
    ) -> Self:
        """Return the pause for the review of a draft.

        Work that is done is shown as it would end now: a cancel during the review ends it so.
        """
        scored = move.judgement.scored
        what = "The draft" if move.result is None else "The result"
        score = "was not measured" if scored.score is None else f"scored {scored.score:g}"
        asked = Paused(
            key=move.path,
            path=move.draft_path,
            iteration=move.judgement.iteration,
            score=scored.score,
            sha256=scored.draft.sha256,
            when=move.when,
            timeout_s=plan.timeout_s,
            on_timeout=plan.on_timeout,
            question=f"{what} at {move.draft_path} {score}. {_choices(plan)}",
            reviewers=plan.reviewers,
            approvals_needed=plan.approvals_needed,
        )
        changes: dict[str, Any] = {"phase": (move.path,)}
        if (found := move.result) is not None:
            judged, path = move.judgement, move.judgement.path
            caveats = (*found.caveats, *recorded.dropped(path))
            changes |= {
                "best": best_of(judged, path),
                "result": result_of(request, judged, path, found.missing, found.estimate, caveats),
                "best_passed": found.passed,
            }
        return cls(Status.PAUSED, changes, (asked,))

    @classmethod
    def awaiting(cls, pauses: Sequence[Self]) -> Self:
        """Return one pause for several reviews that are open at a time."""
        asked = tuple(review for each in pauses for review in each.asked)
        changes = {**pauses[0].changes, "phase": tuple(review.key for review in asked)}
        return cls(Status.PAUSED, changes, asked)

    @classmethod
    def paused_on_request(cls, pause: PendingPause, recorded: Replay, place: str | None) -> Self:
        """Return the pause that a client has requested, with the best draft so far.

        A revision of it, or a text in its place, is followed at `place`.
        """
        best = recorded.best
        state = "No draft was judged yet."
        if best is not None:
            score = "was not measured" if best.score is None else f"scored {best.score:g}"
            state = f"The best draft so far, at {best.path}, {score}."
        text = ""
        if place is not None:
            text = " give the first one," if best is None else " say what to revise, give a text,"
        asked = Paused(
            key=pause.key,
            **(best.model_dump() if best else {}),
            when="requested",
            timeout_s=pause.timeout_s,
            on_timeout=pause.on_timeout,
            question=f"It was paused on request. {state} Resume it,{text} change its limits, finish"
            " or cancel it.",
            place=place,
        )
        return cls(Status.PAUSED, {"phase": ()}, (asked,))

    @classmethod
    def awaiting_approval(cls, move: Approval, plan: ReviewPlan | None) -> Self:
        """Return the pause for the approval of a call; without an answer it is not made.

        The reviewers are those of `plan`, who decide about drafts as well.
        """
        call = move.call
        again = f"The arguments given cannot be sent: {move.error}. " if move.error else ""
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        needed = plan.approvals_needed if plan else 1
        choices = "Approve it, replace its arguments, or reject it with the reason."
        if needed > 1:
            choices = f"Approve it, or reject it with the reason. It takes {needed} approvals."
        asked = Paused(
            key=move.path,
            path=move.path.partition("/approval")[0],
            score=None,
            call=call,
            when="before_call",
            timeout_s=move.timeout_s,
            on_timeout="reject",
            question=f"{again}Call {call.tool} with {arguments[:MOST_SHOWN]}? {choices}",
            reviewers=plan.reviewers if plan else (),
            approvals_needed=needed,
        )
        return cls(Status.PAUSED, {"phase": (move.path,)}, (asked,))

    @classmethod
    def parked(cls, waits: EveryBranchWaits) -> Self:
        """Return the end of a claim whose steps all wait for models."""
        return cls(None, {"phase": waits.keys}, parking=Parking(waits.awaited))

    @classmethod
    def canceled(cls) -> Self:
        """Return the ending of a refinement whose work has really stopped."""
        return cls(Status.CANCELED, {"stop_reason": StopReason.CANCELED})

    @classmethod
    def rejected(cls, rejection: Rejected, result: Result | None) -> Self:
        """Return the ending after a rejection of what all the rest needs.

        The best draft judged before stays the result, with caveats about what was given up.
        """
        changes: dict[str, Any] = {"stop_reason": StopReason.REJECTED, "best_passed": False}
        if result is not None:
            caveats = unique_caveats((*rejection.caveats, *result.caveats))
            changes["result"] = result.model_copy(update={"caveats": caveats})
        return cls(Status.SUCCEEDED, changes)

    @classmethod
    def failed(cls, code: str, detail: str, steps: tuple[str, ...] = ()) -> Self:
        """Return the ending after an error; the best draft judged before stays the result.

        `steps` are the keys of the recorded steps that make up the failure.
        """
        error = Failure(code=code, detail=detail, steps=steps)
        return cls(Status.FAILED, {"stop_reason": StopReason.ERROR, "error": error})

    @classmethod
    def nothing_judged(cls, recorded: Replay, steps: tuple[str, ...] = ()) -> Self:
        """Return the ending of a refinement that was stopped before a draft was judged."""
        reason: str = recorded.stopping or StopReason.BUDGET_EXHAUSTED
        if recorded.limit:
            reason = f"{reason}: {recorded.limit}"
        detail = f"stopped before a draft was judged ({reason})"
        for wait in list(recorded.waits.values())[-1:]:
            detail = f"{detail} while it waited for {wait.model}, which {REFUSALS[wait.reason]}"
        return cls.failed("nothing_judged", detail, steps)


def _lacking(outcome: Outcome, result: Result, request: RefinementRequest, threshold: float) -> str:
    """Return what keeps the best draft from passing, for the reason of the outcome."""
    scored = outcome.best.scored
    found = Shortfall(
        score=scored.score,
        scores=scored.scores,
        findings=scored.findings,
        floors={
            of.name: of.floor
            for of in request.criteria
            if isinstance(of, Criterion) and of.floor is not None
        },
        caveats=result.caveats,
        is_mean=scored.score_from == "critique",
    )
    return found.text(threshold, frozenset(request.accept))


MOST_SHOWN = 2_000
"""Characters of arguments in a question; the event and the snapshot have all of them."""


def _choices(plan: ReviewPlan) -> str:
    """Return what reviewers can decide, in words."""
    rest = "Approve it, reject it, say what to revise,"
    if plan.approvals_needed == 1:
        return f"{rest} give a text in its place, or rate it."
    return f"{rest} or give a text in its place. It takes {plan.approvals_needed} approvals."
