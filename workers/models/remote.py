"""A model behind a wire format: sends requests without what the server rejects, counts usage."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from time import perf_counter
from typing import Protocol

from app.contract.budget import BYTES_PER_TOKEN
from app.contract.judgement import Usage
from app.contract.providers import cost_usd
from workers.engine.prompt_requests import Prompt
from workers.models.port import (
    ModelCall,
    ModelError,
    ModelRefused,
    ModelReply,
    ModelUnavailable,
    ReplyCutOff,
    UnreadableReply,
)
from workers.outbound.transport import (
    Request,
    RequestAttempts,
    RequestRefused,
    RequestUnanswered,
    StatusRejected,
    Transport,
    TransportError,
    UnusableResponse,
)

NAMES_OF_JSON = (
    *("response_format", "json_schema", "json_object", "json mode", "json_mode"),
    *("output_config", "output_format", "schema", "structured", "grammar"),
)
"""Lower-case words in the errors of servers that do not support a way to request JSON."""


def system_text(prompt: Prompt, *, in_words: bool) -> str:
    """Return the instructions; with `in_words` they state the JSON Schema of the reply."""
    if not in_words or prompt.schema is None:
        return prompt.system
    schema = json.dumps(prompt.schema, ensure_ascii=False)
    return (
        f"{prompt.system}\n\nAnswer with one JSON object that satisfies this JSON Schema, "
        f"and with nothing else:\n{schema}"
    )


def counted(usage: object, inputs: Sequence[str], output: str) -> tuple[int, int] | None:
    """Return input and output tokens; None if the first of `inputs` or `output` is missing.

    The other names of `inputs` are parts that a server counts separately; each may be missing.
    """
    if not isinstance(usage, dict):
        return None
    first, *parts, said = [_count(usage.get(name)) for name in (*inputs, output)]
    if first is None or said is None:
        return None
    return first + sum(part or 0 for part in parts), said


def _count(number: object) -> int | None:
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= MOST_TOKENS:
        return number
    return None


def flaw_of(text: str, *, is_cut_off: bool, is_withheld: bool) -> ModelError | None:
    """Return why a reply must not be used, or None."""
    if is_withheld:
        return ModelRefused("the model or its provider's content filter refused to answer")
    if is_cut_off:
        return ReplyCutOff("the reply is cut off: `max_output_tokens` is too small for it", text)
    return None if text.strip() else UnreadableReply("the reply is empty")


MOST_TOKENS = 100_000_000
"""Tokens of one call; a server that counts more is not believed."""

Unwanted = frozenset[str]
"""What a server has rejected for a model: names that only its wire format defines."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The reply of a model; `tokens` (input, output) is None when the server did not count them.

    A reply with a `flaw` must not be used, although it was paid for.
    """

    text: str
    model: str | None
    tokens: tuple[int, int] | None
    flaw: ModelError | None = None


class WireFormat(Protocol):
    """One wire format, for one server and key."""

    def request(self, call: ModelCall, unwanted: Unwanted) -> Request:
        """Return the request, without what the server has rejected for this model."""

    def refused(self, said: str, call: ModelCall, unwanted: Unwanted) -> str | None:
        """Return the part of the request that an error names, if the request works without it."""

    def read(self, body: bytes) -> ChatReply:
        """Parse a response. Raises `UnreadableReply` when it is not in this format."""


AdapterFactory = Callable[[str, str], WireFormat]
"""Returns the adapter for a base URL and an API key, which is empty where none is needed."""


@cache
def adapter_of(wire: str) -> AdapterFactory:
    """Return the `ADAPTER` of the module in this package that is named after the wire format."""
    adapter: AdapterFactory = import_module(f"workers.models.{wire}").ADAPTER
    return adapter


NAMES_A_PART = frozenset({400, 422})
"""Statuses with which servers reject a part of a request that they do not support."""

MODEL_ERRORS: Mapping[type[TransportError], type[ModelError]] = {
    RequestUnanswered: ModelUnavailable,
    RequestRefused: ModelRefused,
    StatusRejected: ModelRefused,
    UnusableResponse: UnreadableReply,
}
"""The model error for each error of the transport."""


class Remote:
    """Every model of one provider.

    What a server rejects (a format, a parameter) is left out of the next request and, once that
    has worked, of every later request for the same model. If the server does not count a reply's
    tokens they are estimated, and the cost is unknown.
    """

    def __init__(
        self,
        provider: str,
        dialect: WireFormat,
        transport: Transport,
    ) -> None:
        self._provider = provider
        self._dialect = dialect
        self._transport = transport
        self._unwanted: dict[str, Unwanted] = {}

    async def complete(self, call: ModelCall) -> ModelReply:
        """Answer a call; the `usage` of the reply or error counts every request made for it."""
        started = perf_counter()
        step = self._transport.step(call.key)
        said: ChatReply | None = None
        try:
            said = self._dialect.read(await self._ask(call, step))
            if said.flaw:
                raise said.flaw
        except (ModelError, TransportError) as failure:
            error = failure if isinstance(failure, ModelError) else _translated(failure)
            error.usage = self._usage(call, step, said, perf_counter() - started)
            raise error from None
        usage = self._usage(call, step, said, perf_counter() - started)
        answered = f"{self._provider}:{said.model or call.model}"
        return ModelReply(said.text, answered, usage)

    async def _ask(self, call: ModelCall, step: RequestAttempts) -> bytes:
        known = unwanted = self._unwanted.get(call.model, frozenset())
        while True:
            request = self._dialect.request(call, unwanted)
            variant = f";without={'+'.join(sorted(unwanted))}" if unwanted else ""
            try:
                body = await step.post(request, variant)
            except StatusRejected as refusal:
                part = self._dialect.refused(refusal.said, call, unwanted)
                if refusal.status not in NAMES_A_PART or part is None:
                    raise
                unwanted |= {part}
                continue
            if unwanted is not known:
                self._unwanted[call.model] = self._unwanted.get(call.model, known) | unwanted
            return body

    def _usage(
        self, call: ModelCall, step: RequestAttempts, said: ChatReply | None, seconds: float
    ) -> Usage:
        if said is None:
            cost = None if step.may_have_cost else 0.0
            return Usage(calls=step.calls, cost_usd=cost, seconds=seconds)
        cost = self._cost(call, *said.tokens) if said.tokens else None
        asked = call.prompt.system + call.prompt.user
        tokens_in, tokens_out = said.tokens or (estimated(asked), estimated(said.text))
        return Usage(
            calls=step.calls,
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            cost_usd=cost,
            seconds=seconds,
        )

    def _cost(self, call: ModelCall, tokens_in: int, tokens_out: int) -> float | None:
        """Return US dollars, rounded to 9 places like every total; None when unknown."""
        cost = cost_usd(f"{self._provider}:{call.model}", tokens_in, tokens_out)
        return None if cost is None else round(cost, 9)


def _translated(failure: TransportError) -> ModelError:
    return MODEL_ERRORS[type(failure)](failure.detail)


def estimated(text: str) -> int:
    """Return an estimate of a text's tokens that is rarely too low."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)
