"""A model that cannot answer is replaced, within its step, by the next one named for its role."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from app.contract.events import Tried
from app.contract.judgement import Usage
from workers.models.port import ModelCall, ModelError, ModelReply

Complete = Callable[[str, ModelCall], Awaitable[ModelReply]]
"""Has the model of a name answer a call. Raises `ModelError`."""

NOTHING = Usage()


@dataclass(frozen=True, slots=True)
class Served:
    """An answer, with what every try consumed, and the models that failed before it."""

    reply: ModelReply
    tried: tuple[Tried, ...]


async def ask_in_turn(complete: Complete, names: Sequence[str], call: ModelCall) -> Served:
    """Return the answer of the first model that gives one; every model has its own retries.

    `call` is addressed to the first of `names`.

    Every `ModelError` leads to the next model, refusals included: a missing key, an unknown name,
    a text too long or a filter is a fact about one server, and the next may well take the call.
    What is wrong with a call everywhere is refused everywhere, at the price of a few refusals.
    When all fail the last error is raised; it names every model with its error. The first model
    is asked under the key of the step, the others under keys of their own (`KEY;model=NAME`).
    """
    tried: tuple[Tried, ...] = ()
    spent = NOTHING
    for name in names:
        asked = replace(call, model=name, key=f"{call.key};model={name}") if tried else call
        try:
            reply = await complete(name, asked)
        except ModelError as error:
            spent += error.usage
            tried += (Tried(model=name, code=error.code, detail=error.detail),)
            if len(tried) == len(names):
                raise _all_failed(error, tried, spent) from None
        else:
            return Served(replace(reply, usage=spent + reply.usage) if tried else reply, tried)
    raise ValueError("a role needs a model")


def _all_failed(last: ModelError, tried: tuple[Tried, ...], spent: Usage) -> ModelError:
    if len(tried) > 1:
        last.detail = "; ".join(f"{it.model}: {it.detail}" for it in tried)
    last.usage = spent
    return last
