"""Compares what estimates expect with what the examples of all strategies use.

.venv/bin/pip install bpe-openai
.venv/bin/python -m benchmarks.estimates
"""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass

from app.contract.models import ModelChoice
from app.contract.strategies import STRATEGIES
from app.service.estimates import estimated
from benchmarks.examples import player_of
from benchmarks.playing import AnsweringModel
from benchmarks.prompt_tokens import SETUP, counter
from workers.models.port import ModelCall, ModelReply

MODEL = ModelChoice(model="openai:gpt-4o-mini")
"""It does not think, and neither do the editor and the scripts that play the examples."""


@dataclass
class CountingModel:
    """Counts the tokens of calls."""

    model: AnsweringModel
    count: Callable[[str], int]
    calls: int = 0
    asked: int = 0
    written: int = 0

    async def complete(self, call: ModelCall) -> ModelReply:
        """Return the reply of the model."""
        reply = await self.model.complete(call)
        self.calls += 1
        self.asked += self.count(call.prompt.system) + self.count(call.prompt.user)
        self.written += self.count(reply.text)
        return reply


async def rows() -> list[str]:
    """Return the rows of a table: expected by used, for calls, input and output."""
    count, found = counter(), []
    for kind in STRATEGIES:
        player = player_of(kind)
        model = player.model = CountingModel(player.model, count)
        await player.play()
        seats = ("generator", "critic", *player.request.critics.seats())
        said = estimated(player.request, dict.fromkeys(seats, MODEL))
        expected = said.expected
        pairs = (
            (expected.calls, model.calls),
            (expected.input_tokens, model.asked),
            (expected.output_tokens, model.written),
        )
        shown = (f"{it} / {of} = {it / of:.2f}" for it, of in pairs)
        found.append(f"| {kind} | {' | '.join(shown)} |")
    return found


def main() -> int:
    """Print the table; return 1 without the tokenizer."""
    try:
        table = asyncio.run(rows())
    except ImportError:
        print(f"no tokenizer: {SETUP}", file=sys.stderr)
        return 1
    print("| strategy | calls | input | output |\n|---|---|---|---|")
    print("\n".join(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
