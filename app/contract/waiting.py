"""Waits for a model: why one cannot be called now, and until when it is waited for."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from app.contract import Contract

WaitReason = Literal[
    "rate_limited", "overloaded", "unreachable", "unauthorized", "quota_exhausted", "error"
]


class Waiting(Contract):
    """A step waits for a model: nothing is wrong with the call, which is made again later.

    One wait lasts from the first refusal of a step until the step has a reply or has failed.
    """

    key: str = Field(description="Key of the step that waits.")
    reason: WaitReason
    model: str = Field(description="Model that is waited for: `provider:name`.")
    until: datetime = Field(description="When a call was expected to be possible, at first.")
