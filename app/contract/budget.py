"""What model calls are expected to consume, known before the calls, and the answer to an estimate.

The limit of a reply costs nothing unless it is used, but a provider may count it against its rate
limits, and a model that repeats itself writes up to it. So it follows the text, with room to spare.

Input is estimated as rarely too low, output as what a reply of its kind takes, thinking included.
`offline:editor` consumes nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from pydantic import Field

from app.contract import Contract
from app.contract.judgement import AUTO, LONGEST_NAME, LONGEST_QUESTION, MOST_LISTED
from app.contract.models import ModelChoice, ModelName, ReasoningEffort
from app.contract.providers import capacity_of, cost_usd, provider_of
from app.contract.requests import RefinementRequest
from app.contract.tools import MAX_RESULT
from app.contract.validators.text import LengthValidator, Unit
from app.contract.values import value

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
"""The criteria that a critic lists; the summary and the facts of a part of a long draft."""

MOST_SUMMARIZED = 100_000
"""Characters of the summaries by which a long draft is judged, all together."""

MOST_SHARED = 20_000
"""Characters of the facts of a long draft that are shown with them."""


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


class Consumption(Contract):
    """Model calls, their tokens and their cost."""

    calls: int = Field(ge=0)
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0, description="Thinking included.")
    tokens: int = Field(ge=0, description="Input and output together.")
    cost_usd: float | None = Field(
        ge=0, description="At list prices, without discounts of a cache; null if one is unknown."
    )


class Cap(Contract):
    """The limits that a refinement cannot exceed; null is without a limit.

    Not counted are what reviewers ask for, later changes of the limits, and replies that were lost
    or refused on the way and are repeated.
    """

    calls: int = Field(ge=0, description="If every reply has to be asked for as often as may be.")
    max_tokens: int | None = Field(description="`stop.max_tokens` of the request.")
    max_cost_usd: float | None = Field(description="`stop.max_cost_usd` of the request.")


class RefinementEstimate(Contract):
    """The expected consumption of a request; nothing was run."""

    strategy: str
    models: dict[str, ModelName] = Field(
        description="The model of every role and critic that it can call; the first candidate for a"
        " generator that is drawn."
    )
    expected: Consumption = Field(
        description="As such requests usually go: loops end halfway, replies can be read, and texts"
        " keep about their length."
    )
    p95: Consumption = Field(
        description="What 95 of 100 such refinements stay within: loops take all their turns, one"
        " reply in ten is asked for again, and texts, replies and thinking are half as long again"
        " as expected. `max_tokens` and `max_cost_usd` count."
    )
    cap: Cap


PROMPT_BYTES = 3_000
"""Bytes of instructions around a client's texts; a test keeps every prompt below it."""

PROMPT_TOKENS = PROMPT_BYTES // BYTES_PER_TOKEN

USUAL_PROMPT_TOKENS = 500
"""Tokens of the instructions and tags of most prompts."""

FENCE_TOKENS = 67
"""Tokens of the tags around a text."""

CHECKLIST_TOKENS = MOST_LISTED * (4 * (LONGEST_NAME + LONGEST_QUESTION) + 200) // BYTES_PER_TOKEN
"""Tokens of the criteria that a critic lists, in any script, with the markup around them."""


@value(slots=True)
class Estimate:
    """The expected consumption of one call."""

    model: str
    input_tokens: int
    output_tokens: int

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    @property
    def cost_usd(self) -> float:
        """US dollars; infinity if the price is unknown."""
        cost = cost_usd(self.model, self.input_tokens, self.output_tokens)
        return float("inf") if cost is None else cost


Models = Mapping[str, ModelChoice]


def call_estimate(choice: ModelChoice, input_tokens: int, output_tokens: int) -> Estimate:
    """Return what a call with that input and output consumes.

    The estimate is for the most expensive of the model and its fallbacks; a model with an unknown
    price counts as the most expensive.
    """
    each = (_of(name, input_tokens, output_tokens) for name in choice.names())
    return max(each, key=lambda estimate: (estimate.cost_usd, estimate.tokens))


def _of(model: str, input_tokens: int, output_tokens: int) -> Estimate:
    if model.startswith("offline:"):
        return Estimate(model, 0, 0)
    return Estimate(model, input_tokens, output_tokens)


def read_again(output_tokens: int) -> int:
    """Return the estimated tokens of a text written in that many, when a later prompt has it."""
    return -(-output_tokens * FEWEST_BYTES_PER_TOKEN // BYTES_PER_TOKEN)


def to_judge(
    request: RefinementRequest,
    models: Models,
    draft_tokens: int | None = None,
    thought: int | None = None,
) -> tuple[Estimate, ...]:
    """Return what judging a draft consumes; one not yet written counts as long as expected.

    There is one call for every sample of every critic; validators consume nothing. `thought` is how
    many tokens of thinking calls took so far.
    """
    if "critic" not in request.strategy.roles():
        return ()
    if draft_tokens is None:
        draft_tokens = read_again(_first_draft(request, models))
    asked, critics = prompt_tokens(request) + draft_tokens, request.critics
    most = MOST_LISTED if request.criteria == AUTO else max(map(len, request.rubrics()))
    size = critique_size(most)
    return tuple(
        call_estimate(
            models[key], asked, output_bounds(models[key], size, thought=thought).expected
        )
        for key in critics.seats() * critics.samples
    )


def _first_draft(request: RefinementRequest, models: Models) -> int:
    """Return the expected output tokens of a first draft."""
    return output_bounds(models["generator"], draft_size(request)).expected


def first_judgement(request: RefinementRequest, models: Models) -> tuple[Estimate, ...]:
    """Return the calls up to the first judged draft; a budget below their sum is rejected."""
    return (*_to_list(request, models), *first_draft(request, models))


def first_draft(request: RefinementRequest, models: Models) -> tuple[Estimate, ...]:
    """Return the calls up to the first judged draft, without those that list the criteria."""
    if parts := request.strategy.read_in_parts(request.draft):
        asked, shown = prompt_tokens(request), (MOST_SUMMARIZED + MOST_SHARED) // BYTES_PER_TOKEN
        generator, sizes = models["generator"], map(tokens_in, parts)
        read = output_bounds(generator, CHECKLIST).expected
        reading = [call_estimate(generator, asked + size, read) for size in sizes]
        return (*reading, *to_judge(request, models, shown))
    if request.draft is not None:
        followed = _to_follow(request, models, request.draft)
        written = sum(read_again(estimate.output_tokens) for estimate in followed)
        return (*followed, *to_judge(request, models, tokens_in(request.draft) + written))
    if request.strategy.prepared():
        return _first_prepared(request, models)
    generator, written = models["generator"], _first_draft(request, models)
    return (call_estimate(generator, prompt_tokens(request), written), *to_judge(request, models))


def _to_follow(request: RefinementRequest, models: Models, draft: str) -> tuple[Estimate, ...]:
    """Return what a revision by the feedback of the request consumes, if there is some."""
    if request.feedback is None:
        return ()
    marked = "".join(draft[span.start : span.end] for span in request.marked())
    asked = prompt_tokens(request) + tokens_in(draft) + tokens_in(request.feedback)
    size = as_long_as(tokens_in(marked or draft))
    return (
        call_estimate(
            models["generator"], asked, output_bounds(models["generator"], size).expected
        ),
    )


def _to_list(request: RefinementRequest, models: Models) -> tuple[Estimate, ...]:
    """Return what listing the criteria consumes, if the request asks for it."""
    if request.criteria != AUTO:
        return ()
    draft = (request.draft or "") if request.task is None else ""
    critic, asked = models["critic"], prompt_tokens(request) + tokens_in(draft)
    return (call_estimate(critic, asked, output_bounds(critic, CHECKLIST).expected),)


def to_write(
    request: RefinementRequest, models: Models, asked_tokens: int, replied_tokens: int
) -> tuple[Estimate, ...]:
    """Return what a first draft consumes. It is written and judged from the content of a prompt of
    that many tokens, the reply to it and, if there are tools, one result."""
    observed = read_again(replied_tokens) + (MAX_RESULT // BYTES_PER_TOKEN if request.tools else 0)
    material = PROMPT_TOKENS + asked_tokens + observed  # its instructions may be shorter
    added = max(0, material - prompt_tokens(request))
    written = _first_draft(request, models)
    judged = to_judge(request, models, added + read_again(written))
    return (call_estimate(models["generator"], material, written), *judged)


def _first_prepared(request: RefinementRequest, models: Models) -> tuple[Estimate, ...]:
    """Return the fewest calls of a prepared draft: those before it, each of which reads the reply
    to the previous one, and the calls that write and judge the text."""
    generator, asked = models["generator"], prompt_tokens(request)
    replied = output_bounds(generator, ORDINARY).expected
    sizes = [asked + number * read_again(replied) for number in range(request.strategy.prepared())]
    before = (call_estimate(generator, size, replied) for size in sizes)
    return (*before, *to_write(request, models, sizes[-1], replied))


REWRITTEN_BYTES_PER_TOKEN = 4
"""UTF-8 bytes per token that prose has about, for a draft that is rewritten whole."""


@value(slots=True)
class Rewriting:
    """The output tokens of rewriting a draft, and the most that a model writes after its input."""

    needed: int
    most: int

    @property
    def fits(self) -> bool:
        """Whether the model can rewrite it."""
        return self.needed <= self.most


def rewriting(
    request: RefinementRequest,
    model: str,
    chosen: int | None,
    unknown: int,
    text: str | None = None,
) -> Rewriting | None:
    """Return whether a model can rewrite a text in one reply.

    Without one it is the client's draft, or the longest part of one that is too long for a prompt.
    `chosen` is the `max_output_tokens` of the request, and `unknown` holds if it has none and that
    of the model is unknown. None if no call does that, or if the model runs in the worker itself.
    """
    provider = provider_of(model)
    is_local = provider is not None and provider.wire is None
    if request.draft is None or is_local:
        return None
    if text is None:
        parts = request.strategy.read_in_parts(request.draft)
        if not (request.strategy.rewrites or parts):
            return None
        text = max(parts, key=len, default=request.draft)
    needed = len(text.encode()) // REWRITTEN_BYTES_PER_TOKEN
    asked = sum(len(given.encode()) for given in _texts(request)) // REWRITTEN_BYTES_PER_TOKEN
    most = chosen or most_output(model, asked + needed, unknown)
    return Rewriting(needed, most)


def prompt_tokens(request: RefinementRequest) -> int:
    """Return the tokens of a prompt that holds everything but a draft."""
    examples = sum(
        1 + len(criterion.examples) for criterion in chain.from_iterable(request.rubrics())
    )
    fences = 8 + len(request.context) + len(request.tools) + examples
    listed = CHECKLIST_TOKENS if request.criteria == AUTO else 0
    return PROMPT_TOKENS + FENCE_TOKENS * fences + listed + sum(map(tokens_in, _texts(request)))


def usual_prompt_tokens(request: RefinementRequest) -> int:
    """Return about the tokens of a prompt that holds everything but a draft, in English prose."""
    given = sum(len(text.encode()) for text in _texts(request))
    return USUAL_PROMPT_TOKENS + given // REWRITTEN_BYTES_PER_TOKEN


def _texts(request: RefinementRequest) -> Iterable[str]:
    """Yield the texts of a request that prompts contain, without the draft."""
    yield request.task or ""
    for document in request.context:
        yield from (document.name, document.text)
    for criterion in request.judged_on():
        yield from (criterion.name, criterion.description)
    for criterion in chain.from_iterable(request.rubrics()):
        for example in criterion.examples:
            yield from (criterion.name, example.text, example.why)
    yield from (request.instructions.generator, request.instructions.critic)
    yield from request.in_words()
    yield from 2 * [request.strategy.model_dump_json()]  # titles of parts are said once more
    yield from (member.perspective for member in request.critics.panel)
    yield from (tool.model_dump_json(exclude={"headers", "secret"}) for tool in request.tools)
