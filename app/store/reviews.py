"""What a reviewer's decision makes of the reviews that a refinement waits for."""

from collections.abc import Sequence

from app.contract.errors import Conflict, FieldError, Forbidden, InvalidRequest
from app.contract.reviews import (
    ApprovalGiven,
    PendingReview,
    ReviewDecision,
    Reviewed,
    ReviewerApproval,
)
from app.contract.values import value

UNNAMED = FieldError(pointer="/reviewer", detail="this review must know who decides")


@value(slots=True)
class Decided:
    """What is journaled about one of the reviews: the decision, or one of several approvals."""

    about: str
    data: Reviewed | ApprovalGiven

    def words(self) -> tuple[str, str, str]:
        """Return what command.lua takes: `reviewed` or `approved`, key of the review, and data."""
        if isinstance(self.data, ApprovalGiven):
            return "approved", self.about, self.data.model_dump_json()
        known = {"reviewer": self.data.reviewer, "approved_by": self.data.approved_by}
        unknown = {name for name, content in known.items() if not content}
        return "reviewed", self.about, self.data.model_dump_json(exclude=unknown)


def decide(
    refinement_id: str,
    pending: Sequence[PendingReview],
    review: ReviewDecision,
    known_as: Sequence[str],
) -> Decided | None:
    """Return what a decision makes of one review; None if its reviewer has approved it before.

    `known_as`: the names of the reviewer, the newest first. Raises Conflict if no such review is
    pending or the decision does not suit it, Forbidden if others are asked, and InvalidRequest.
    """
    asked = _meant(refinement_id, pending, review)
    if asked is None:
        return None
    _require_suited(refinement_id, asked, review)
    reviewer = _counted_as(refinement_id, asked, known_as)
    needed = asked.approvals_needed
    if needed > 1 and (review.action == "rate" or review.arguments is not None):
        raise Conflict(
            f"{refinement_id} needs several approvals, which one rating, or other arguments of"
            " a call, are not"
        )
    if review.action != "approve" or reviewer is None or needed == 1:
        given = review.model_dump(exclude={"path", "reviewer"})
        by = (reviewer,) if review.action == "approve" and reviewer else ()
        said = Reviewed(key=asked.key, by="reviewer", reviewer=reviewer, approved_by=by, **given)
        return Decided(asked.key, said)
    if reviewer in {approval.reviewer for approval in asked.approvals}:
        return None
    own = ReviewerApproval(reviewer=reviewer, feedback=review.feedback, score=review.score)
    approvals = (*asked.approvals, own)
    if len(approvals) < needed:
        given = own.model_dump() | {"given": len(approvals), "needed": needed}
        return Decided(asked.key, ApprovalGiven(key=asked.key, **given))
    scores = [approval.score for approval in approvals if approval.score is not None]
    said = Reviewed(
        key=asked.key,
        action="approve",
        feedback=review.feedback,
        score=sum(scores) / len(scores) if scores else None,
        by="reviewer",
        reviewer=reviewer,
        approved_by=tuple(approval.reviewer for approval in approvals),
    )
    return Decided(asked.key, said)


def _meant(
    refinement_id: str, pending: Sequence[PendingReview], review: ReviewDecision
) -> PendingReview | None:
    found = review.may_mean(pending)
    if len(found) == 1 or not pending:
        return found[0] if found else None
    keys = ", ".join(open_review.key for open_review in pending)
    if not found:
        raise Conflict(f"{refinement_id} is waiting for another review, {keys}")
    detail = f"waiting for several reviews, of which `path` must name one: {keys}"
    raise Conflict(f"{refinement_id} is {detail}")


def _require_suited(refinement_id: str, asked: PendingReview, review: ReviewDecision) -> None:
    action, is_scored = review.action, review.score is not None
    if asked.when == "requested" and action != "resume":
        if action not in ("revise", "replace") or is_scored:
            raise Conflict(
                f"{refinement_id} was paused on request: only the actions resume, revise and"
                " replace are possible, without a `score`"
            )
        if asked.place is None:
            raise Conflict(
                f"{refinement_id} was paused where no draft can be changed, since the best one is"
                " finished, or reviews of it are planned: only the action resume is possible"
            )
        if action == "revise" and asked.path is None:
            raise Conflict(
                f"{refinement_id} was paused before a draft was judged: give the first one with"
                " the action replace, or resume it"
            )
    if asked.when != "requested" and action == "resume":
        detail = "is waiting for a review, which the action resume does not answer"
        raise Conflict(f"{refinement_id} {detail}")
    has_arguments = review.arguments is not None
    if asked.when == "before_call":
        if is_scored or not (action in ("approve", "reject") or has_arguments):
            raise InvalidRequest(
                "a call of a tool is under review: approve it, replace its `arguments`, or"
                " reject it"
            )
    elif has_arguments:
        raise InvalidRequest(
            "a draft is under review: `arguments` replaces those of a call of a tool"
        )


def _counted_as(refinement_id: str, asked: PendingReview, known_as: Sequence[str]) -> str | None:
    """Return the name by which a reviewer counts: the one that is asked, else the oldest."""
    if not known_as:
        if asked.reviewers or asked.approvals_needed > 1:
            raise InvalidRequest.at(UNNAMED)
        return None
    if not asked.reviewers:
        return known_as[-1]
    if found := [name for name in asked.reviewers if name in known_as]:
        return found[0]
    raise Forbidden(f"the review that {refinement_id} waits for has other `reviewers`")
