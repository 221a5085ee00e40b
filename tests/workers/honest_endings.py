"""How a refinement may end that was stopped from outside."""

import re
from collections.abc import Sequence

from app.contract.events import Event, IterationCompleted, Stopping
from app.contract.snapshot import Snapshot
from app.contract.status import Status, StopReason

OUTERMOST = re.compile(r"iterations/\d+")
DECIDED = {
    StopReason.THRESHOLD_MET,
    StopReason.VALIDATORS_PASSED,
    StopReason.APPROVED,
    StopReason.REJECTED,
}
"""What stands whatever stopped it: the goal was reached, or a reviewer decided."""


def require_an_honest_end(
    ended: Snapshot, events: Sequence[Event], stop: StopReason, undisturbed: Snapshot
) -> None:
    """Assert that it ended as what it is: with a judged draft, or because there is none.

    If it was stopped that is the reason, unless what was left of it came to the same end anyway.
    """
    judged = [it.data for it in events if isinstance(it.data, IterationCompleted)]
    stopped = [it.data.reason for it in events if isinstance(it.data, Stopping)]
    assert stopped in ([], [stop])
    if ended.result is None:
        assert ended.error is not None
        assert (ended.status, ended.error.code) == (Status.FAILED, "nothing_judged")
        assert not judged
        return
    result = ended.result
    assert (result.path, result.sha256, result.score) in {
        (it.path, it.sha256, it.score) for it in judged
    }
    assert len({(it.path, it.sha256) for it in judged}) == len({it.path for it in judged})
    if all(OUTERMOST.fullmatch(it.path) for it in judged):
        assert result.path == judged[-1].best.path
    went_as_far = paths(ended) == paths(undisturbed)
    anyway = {undisturbed.stop_reason} if went_as_far else set()
    assert ended.status is Status.SUCCEEDED
    assert not stopped or ended.stop_reason in {stop, *DECIDED, *anyway}


def paths(ended: Snapshot) -> set[str]:
    return {it.path for it in ended.scores}
