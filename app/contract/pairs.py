"""Preference pairs: two texts for one prompt, of which somebody preferred one."""

from typing import Literal, get_args

from pydantic import Field

from app.contract import Contract
from app.contract.snapshot import EVERYTHING, Selected
from app.contract.values import value

PairSource = Literal["rating", "review", "comparison"]
SOURCES: tuple[PairSource, ...] = get_args(PairSource)

PairForm = Literal["plain", "conversational"]


class ChatMessage(Contract):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


PairText = str | tuple[ChatMessage, ...]
"""A text, or messages: TRL's standard form and its conversational one."""


class PreferencePair(Contract):
    """Two texts for one prompt, of which somebody preferred one."""

    prompt: PairText = Field(description="Instructions, task, context and draft of the request.")
    chosen: PairText
    rejected: PairText
    source: PairSource = Field(
        description="Where that was said: in ratings, in reviews, or in the blind comparison."
    )
    by: str = Field(description="Who said so: a person, or the critic's model; empty: unknown.")
    refinement: str = Field(description="Id of the refinement.")
    event: int = Field(description="Number of the event that records it.")


@value(slots=True)
class WantedPairs:
    """Which pairs, and in which form; without a preset those of all requests."""

    preset: str | None = None
    form: PairForm = "plain"
    sources: frozenset[PairSource] = frozenset(SOURCES)
    selected: Selected = EVERYTHING
