"""Upper bounds on what a model call consumes, known before the call.

Input is estimated as UTF-8 bytes / 3 (more than any common tokenizer makes of prose), output as the
role's `max_output_tokens`. `offline:editor` consumes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from app.contract.criteria import AUTO, LONGEST_NAME, LONGEST_QUESTION, MOST_LISTED
from app.contract.providers import cost_usd
from app.contract.requests import ModelChoice, RefinementRequest
from app.contract.tools import MAX_RESULT

PROMPT_BYTES = 3_000
"""Bytes of instructions around a client's texts; a test keeps every prompt below it."""

CHECKLIST_BYTES = MOST_LISTED * (4 * (LONGEST_NAME + LONGEST_QUESTION) + 200)
"""Bytes of the criteria that a critic lists, in any script, with the markup around them."""

BYTES_PER_TOKEN = 3
OUTPUT_BYTES_PER_TOKEN = 5
"""Bytes per token of a written draft, when it becomes part of a later prompt."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The most that one call consumes."""

    model: str
    input_tokens: int
    output_tokens: int

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


def estimate(choice: ModelChoice, prompt_bytes: int) -> Estimate:
    """Return the most that a call with a prompt of that many UTF-8 bytes consumes.

    The estimate is for the most expensive of the model and its fallbacks; a model with an unknown
    price counts as the most expensive.
    """
    return max((_of(name, choice, prompt_bytes) for name in choice.names()), key=_expense)


def _of(model: str, choice: ModelChoice, prompt_bytes: int) -> Estimate:
    if model.startswith("offline:"):
        return Estimate(model, 0, 0)
    return Estimate(model, -(-prompt_bytes // BYTES_PER_TOKEN), choice.max_output_tokens)


def _expense(it: Estimate) -> tuple[float, int]:
    cost = cost_usd(it.model, it.input_tokens, it.output_tokens)
    return (float("inf") if cost is None else cost, it.tokens)


def to_judge(
    request: RefinementRequest, models: Mapping[str, ModelChoice], draft_bytes: int | None = None
) -> tuple[Estimate, ...]:
    """Return the most that judging a draft consumes; one not yet written counts at full length.

    There is one call for every sample of every critic; validators consume nothing.
    """
    if "critic" not in request.strategy.roles():
        return ()
    if draft_bytes is None:
        draft_bytes = models["generator"].max_output_tokens * OUTPUT_BYTES_PER_TOKEN
    asked, critics = prompt_bytes(request) + draft_bytes, request.critics
    return tuple(estimate(models[key], asked) for key in critics.seats() * critics.samples)


def first_judgement(
    request: RefinementRequest, models: Mapping[str, ModelChoice]
) -> tuple[Estimate, ...]:
    """Return the calls up to the first judged draft; a budget below their sum is rejected."""
    listing = _to_list(request, models)
    if request.draft is not None:
        return (*listing, *to_judge(request, models, len(request.draft.encode())))
    if request.strategy.prepares:
        return (*listing, *_first_prepared(request, models))
    write = estimate(models["generator"], prompt_bytes(request))
    return (*listing, write, *to_judge(request, models))


def _to_list(request: RefinementRequest, models: Mapping[str, ModelChoice]) -> tuple[Estimate, ...]:
    """Return the most that listing the criteria consumes, if the request asks for it."""
    if request.criteria != AUTO:
        return ()
    draft = (request.draft or "") if request.task is None else ""
    return (estimate(models["critic"], prompt_bytes(request) + len(draft.encode())),)


def to_write(
    request: RefinementRequest, models: Mapping[str, ModelChoice], asked_bytes: int
) -> tuple[Estimate, ...]:
    """Return the most that a first draft consumes. It is written and judged from the content of a
    prompt of that many bytes, the reply to it and, if there are tools, one result."""
    generator = models["generator"]
    written = generator.max_output_tokens * OUTPUT_BYTES_PER_TOKEN
    observed = written + (MAX_RESULT if request.tools else 0)
    material = PROMPT_BYTES + asked_bytes + observed  # its instructions may be shorter
    added = max(0, material - prompt_bytes(request))
    return (estimate(generator, material), *to_judge(request, models, added + written))


def _first_prepared(
    request: RefinementRequest, models: Mapping[str, ModelChoice]
) -> tuple[Estimate, ...]:
    """Return the fewest calls of a prepared draft: those before it, each of which reads the reply
    to the previous one, and the calls that write and judge the text."""
    generator, asked = models["generator"], prompt_bytes(request)
    written = generator.max_output_tokens * OUTPUT_BYTES_PER_TOKEN
    sizes = [asked + number * written for number in range(request.strategy.prepares)]
    return (*(estimate(generator, it) for it in sizes), *to_write(request, models, sizes[-1]))


def least_tokens(request: RefinementRequest, models: Mapping[str, ModelChoice]) -> int:
    """Return the tokens of the calls up to the first judged draft."""
    return sum(call.tokens for call in first_judgement(request, models))


def prompt_bytes(request: RefinementRequest) -> int:
    """Return the bytes of a prompt that holds everything but a draft."""
    texts = [request.task or "", request.instructions.generator, request.instructions.critic]
    texts += request.in_words()
    texts += [part for document in request.context for part in (document.name, document.text)]
    texts += [part for it in request.judged_on() for part in (it.name, it.description)]
    for it in chain.from_iterable(request.rubrics()):
        texts += [part for example in it.examples for part in (it.name, example.text, example.why)]
    texts += 2 * [request.strategy.model_dump_json()]  # titles of parts are said once more
    texts += [member.perspective for member in request.critics.panel]
    texts += [tool.model_dump_json() for tool in request.tools]
    fences = 200 * (8 + len(request.context) + len(request.tools))
    fences += 50 * sum(1 + len(it.examples) for it in chain.from_iterable(request.rubrics()))
    listed = CHECKLIST_BYTES if request.criteria == AUTO else 0
    return PROMPT_BYTES + fences + listed + sum(len(text.encode()) for text in texts)
