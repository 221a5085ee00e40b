"""What `refine` returns: the best draft, and what to look at before it is used."""

import logging
from dataclasses import dataclass

from hone import models
from hone.errors import NotPassed, RefinementCanceled, RefinementFailed

log = logging.getLogger("hone")


@dataclass(kw_only=True)
class Result(models.Result):
    """The best judged draft of a refinement that has ended: check `passed` before you use it."""

    id: str
    outcome: str
    """`passed`, or `best_effort`: the best draft, which does not meet all that was asked."""
    reason: str
    """Why the outcome is that, in one sentence."""
    usage: models.Usage

    @property
    def passed(self) -> bool:
        """Whether the draft meets everything that was asked."""
        return self.outcome == "passed"


def result_of(snapshot: models.Snapshot, *, must_pass: bool | None) -> Result:
    """Return the result of a refinement that has ended.

    Raises RefinementCanceled, RefinementFailed, and with `must_pass` NotPassed.
    """
    if snapshot.outcome == "canceled":
        raise RefinementCanceled(snapshot)
    if snapshot.outcome == "failed" or snapshot.result is None:
        raise RefinementFailed(snapshot)
    result = Result(
        **vars(snapshot.result),
        id=snapshot.id,
        outcome=snapshot.outcome or "",
        reason=snapshot.reason or "",
        usage=snapshot.usage,
    )
    if must_pass and not result.passed:
        raise NotPassed(snapshot, result)
    if must_pass is None and not result.passed:
        log.warning("%s: %s: %s", result.id, result.outcome, result.reason)
    return result
