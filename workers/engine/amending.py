"""Revising by edits instead of writing the whole text anew."""

from app.contract.calls import AMENDED_AGAIN
from app.contract.edits import EditMode
from workers.engine.asking import Unreadable, ask, question
from workers.engine.briefs import Amend, Revise
from workers.engine.edits import CannotApply, Edit, Edited, applied
from workers.engine.moves import StepFailed
from workers.engine.reading import Said, read_as

LONG = 1_500
"""Characters from which edits save tokens: what they quote and their JSON weigh less than that."""

GOOD = 0.5
"""Score from which more of a draft stays than changes."""

UNUSABLE = "unusable_edits"


class _Edit(Said):
    search: str
    replace: str


class _Edits(Said):
    edits: list[_Edit]


def is_delta(edits: EditMode, draft: str, score: float | None) -> bool:
    """Return whether a draft is to be revised by edits."""
    if edits == "auto":
        return len(draft) >= LONG and score is not None and score >= GOOD
    return edits == "delta"


async def amended(brief: Revise) -> Edited | None:
    """Return the draft with a reviser's edits; None when they cannot be applied.

    Edits that cannot be are returned once, with which one fails and why.
    """

    def read(reply: str) -> Edited:
        edits = [Edit(it.search, it.replace) for it in read_as(_Edits, reply).edits]
        try:
            return applied(brief.draft, edits, brief.task.locked)
        except CannotApply as error:
            raise Unreadable(str(error)) from None

    try:
        return await ask(
            question("revise", "generator", Amend(brief)), read, UNUSABLE, times=AMENDED_AGAIN
        )
    except StepFailed as failure:
        if failure.code != UNUSABLE:
            raise
        return None
