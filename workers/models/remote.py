"""A model behind a wire format: ask, do without what the server refuses, read, count."""

from collections.abc import Callable
from time import perf_counter

from app.contract.budget import BYTES_PER_TOKEN
from app.contract.judgement import Usage
from app.contract.providers import cost_usd
from workers.models.http import Rejected, Step, Transport
from workers.models.port import ModelCall, ModelError, ModelReply
from workers.models.wire import Dialect, Said, Unwanted

NAMES_A_PART = frozenset({400, 422})
"""Statuses with which servers refuse a part of a request that they do not know."""

Clock = Callable[[], float]


class Remote:
    """Every model of one provider.

    What a server refuses (a format, a parameter) is left out of the next request, and, once that
    has worked, of every later request for the same model. A reply whose tokens the server did not
    count has them estimated, and an unknown cost.
    """

    def __init__(
        self, provider: str, dialect: Dialect, transport: Transport, clock: Clock = perf_counter
    ) -> None:
        self._provider = provider
        self._dialect = dialect
        self._transport = transport
        self._clock = clock
        self._unwanted: dict[str, Unwanted] = {}

    async def complete(self, call: ModelCall) -> ModelReply:
        """Answer a call; `usage` of a reply and of an error counts every request made for it."""
        started = self._clock()
        step = self._transport.step(call.key)
        said: Said | None = None
        try:
            said = self._dialect.read(await self._ask(call, step))
            if said.flaw:
                raise said.flaw
        except ModelError as error:
            error.usage = self._usage(call, step, said, self._clock() - started)
            raise
        usage = self._usage(call, step, said, self._clock() - started)
        answered = f"{self._provider}:{said.model or call.model}"
        return ModelReply(said.text, answered, usage)

    async def _ask(self, call: ModelCall, step: Step) -> bytes:
        known = unwanted = self._unwanted.get(call.model, frozenset())
        while True:
            request = self._dialect.request(call, unwanted)
            variant = f";without={'+'.join(sorted(unwanted))}" if unwanted else ""
            try:
                body = await step.post(request, variant)
            except Rejected as refusal:
                part = self._dialect.refused(refusal.said, call, unwanted)
                if refusal.status not in NAMES_A_PART or part is None:
                    raise
                unwanted |= {part}
                continue
            if unwanted is not known:
                self._unwanted[call.model] = self._unwanted.get(call.model, known) | unwanted
            return body

    def _usage(self, call: ModelCall, step: Step, said: Said | None, seconds: float) -> Usage:
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
        """Return US dollars, to the 9 places of every sum of them; None when unknown."""
        cost = cost_usd(f"{self._provider}:{call.model}", tokens_in, tokens_out)
        return None if cost is None else round(cost, 9)


def estimated(text: str) -> int:
    """Return how many tokens a text has at most, or nearly so."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)
