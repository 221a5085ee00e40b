"""Caveats: what a result lacks of what was asked for."""

from collections.abc import Iterable
from typing import Literal, Self, get_args

from pydantic import Field

from app.contract import Contract

Blocking = Literal["stage_given_up", "goal_not_met", "unverified", "validator_skipped"]
"""The codes of caveats that keep `passed` false, unless the request accepts them."""

BLOCKING: frozenset[str] = frozenset(get_args(Blocking))


class Caveat(Contract):
    """Something that was asked for and not done, or not used; it stands beside the result."""

    code: Literal[Blocking, "item_dropped", "lower_score", "forgeable"] = Field(
        description="`stage_given_up`: a stage, pass or part failed, or a stage did not pass;"
        " `goal_not_met`: the goal of a plan was not shown to be met, or a part or pass missed its"
        " own threshold, floors or validators; `unverified`: the facts or steps of the draft were"
        " not verified; `validator_skipped`: a validator did not run on the draft; `item_dropped`:"
        " an item that could not be used was left out; `lower_score`: another draft scored more;"
        " `forgeable`: a hostile draft could have forged the verdict of a validator."
        " The first four keep `passed` false, unless the request accepts them."
    )
    path: str = Field(description="Path of the stage, part, draft or step that it is about.")
    detail: str

    def under(self, prefix: str) -> Self:
        """Return it with its path below `prefix`, if that is not empty."""
        return self.model_copy(update={"path": f"{prefix}/{self.path}"}) if prefix else self


def blocks(caveats: Iterable[Caveat], accepted: frozenset[str]) -> bool:
    """Return whether any of the caveats keeps `passed` false."""
    return any(it.code in BLOCKING and it.code not in accepted for it in caveats)
