"""How many tokens a reply takes: what is expected, and the limit that is sent.

A limit costs nothing unless it is used, but a provider may count it against its rate limits, and a
model that repeats itself writes up to it. So it follows the text, with room to spare.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from app.contract.models import ModelChoice, ReasoningEffort
from app.contract.providers import capacity_of
from app.contract.validators.text import LengthValidator, Unit
from app.contract.values import value

if TYPE_CHECKING:
    from app.contract.requests import RefinementRequest

BYTES_PER_TOKEN = 3
"""UTF-8 bytes per token at least, in prose: a letter of Latin, Greek or Cyrillic takes 1/3 to 2/3
of a token, an ideograph 1."""

SPLIT_SCRIPTS = re.compile(rb"\xe0|\xe1[\x80-\xb3]")
"""In UTF-8, the beginning of a letter from U+0800 to U+1CFF: scripts of South and South-East Asia,
Georgian, Ethiopic and others, for which vocabularies have few entries. It takes up to 2 tokens."""

FEWEST_BYTES_PER_TOKEN = 5
"""UTF-8 bytes per token at most, in prose."""

DEFAULT_MAX_OUTPUT_TOKENS = 16_384
"""Output tokens of a model whose own maximum is unknown, unless a setting says otherwise."""


def tokens_in(text: str) -> int:
    """Return an estimate of a text's tokens that is rarely too low, whatever the script."""
    encoded = text.encode()
    may_split = b"\xe0" in encoded or b"\xe1" in encoded
    split = len(SPLIT_SCRIPTS.findall(encoded)) if may_split else 0
    return -(-len(encoded) // BYTES_PER_TOKEN) + split


@value(slots=True)
class ReplySize:
    """The tokens of a reply without thinking: what is expected, and what it may take at most."""

    expected: int
    most: int


SLACK = 2_048
"""Tokens that every reply may take beyond twice what is expected."""

ORDINARY = ReplySize(1_000, 8_192)
"""A text of which nothing is known: a first draft without a length, a plan, a step of it."""

TOKENS_PER: dict[Unit, float] = {"words": 1.5, "characters": 0.4, "sentences": 40}
"""Of what validators of the length count."""


def as_long_as(tokens: int) -> ReplySize:
    """Return the size of a text that becomes about as long as one of that many tokens."""
    return ReplySize(tokens, 2 * tokens + SLACK)


def draft_size(request: "RefinementRequest") -> ReplySize:
    """Return the size of a first draft: of the length that validators ask for, if any does."""
    asked = asked_length(request)
    return as_long_as(asked) if asked else ORDINARY


def asked_length(request: "RefinementRequest") -> int:
    """Return the tokens of a draft of the length that validators ask for; 0 if none does."""
    bounds = list(_lengths(request))
    if not bounds:
        return 0
    least = max((low for low, _ in bounds if low is not None), default=0)
    most = min((high for _, high in bounds if high is not None), default=0)
    return round(most or 1.2 * least)


def _lengths(request: "RefinementRequest") -> Iterator[tuple[float | None, float | None]]:
    """Yield the least and the most tokens for every bound on the length."""
    for validator in request.validators:
        if isinstance(validator, LengthValidator):
            for unit, tokens in TOKENS_PER.items():
                low, high = validator.bounds(unit)
                yield low and low * tokens, high and high * tokens


def critique_size(criteria: int) -> ReplySize:
    """Return the size of a critique: evidence, reason and score of each criterion, and findings."""
    return as_long_as(400 + 200 * criteria)


CHECKLIST = as_long_as(800)


@value(slots=True)
class Thinking:
    """Tokens of thinking before a reply: what is expected, and what there is room for."""

    expected: int
    room: int


THINKING: dict[ReasoningEffort | None, Thinking] = {
    None: Thinking(1_000, 25_000),
    "none": Thinking(0, 4_096),
    "minimal": Thinking(200, 8_192),
    "low": Thinking(500, 16_384),
    "medium": Thinking(1_000, 25_000),
    "high": Thinking(3_000, 50_000),
    "xhigh": Thinking(8_000, 100_000),
    "max": Thinking(16_000, 100_000),
}
"""By effort. OpenAI advises to reserve 25,000 tokens
(https://developers.openai.com/api/docs/guides/reasoning); the others are in proportion. What is
expected counts only until a refinement has calls to go by."""

NO_THINKING = Thinking(0, 0)
UNKNOWN_THINKING = Thinking(0, THINKING[None].room)


def thinking_of(model: str, effort: ReasoningEffort | None) -> Thinking:
    """Return how much a model thinks. One that is unknown gets room for it."""
    capacity = capacity_of(model)
    if capacity is None:
        return THINKING[effort] if effort else UNKNOWN_THINKING
    is_on = capacity.thinks == "by_default" or (capacity.thinks == "on_request" and effort)
    return THINKING[effort] if is_on else NO_THINKING


@value(slots=True)
class OutputBounds:
    """The output tokens of a call, thinking included: what is expected, and the highest limit."""

    expected: int
    most: int


def output_bounds(
    choice: ModelChoice,
    size: ReplySize,
    input_tokens: int = 0,
    unknown: int = DEFAULT_MAX_OUTPUT_TOKENS,
    thought: int | None = None,
    doublings: int = 0,
) -> OutputBounds:
    """Return the bounds of a call, over the model and its fallbacks; a limit of the choice holds.

    `unknown` is the most of a model whose maximum is unknown, `thought` how many tokens of thinking
    calls took so far, `doublings` how often the room for the reply was doubled.
    """
    expected = most = 0
    for model in choice.names():
        thinking = thinking_of(model, choice.reasoning_effort)
        high = choice.max_output_tokens or min(
            (size.most + thinking.room) << doublings,
            most_output(model, input_tokens, unknown),
        )
        usual = size.expected + (thinking.expected if thought is None else thought)
        expected, most = max(expected, min(usual, high)), max(most, high)
    return OutputBounds(expected, most)


def most_output(model: str, input_tokens: int = 0, unknown: int = DEFAULT_MAX_OUTPUT_TOKENS) -> int:
    """Return the most output tokens of a model after that much input.

    An input that seems to fill the context window leaves the model's maximum: the estimate may be
    too high, and the server knows.
    """
    capacity = capacity_of(model)
    if capacity is None:
        return unknown
    left = capacity.context_tokens - input_tokens
    return min(capacity.max_output_tokens, left) if left > 0 else capacity.max_output_tokens
