"""A model that cannot answer is replaced, within its step, by the next one named for its role."""

from asyncio import get_running_loop
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from app.contract.drafts import sha256_of
from app.contract.events import (
    FindingsReply,
    PromptRef,
    StepCompleted,
    StepFailed,
    TextReply,
    ToolReply,
    Tried,
)
from app.contract.judgement import Finding, Usage
from app.contract.requests import ModelChoice
from workers.engine.moves import Ask, Call, Check, StepMove
from workers.engine.prompt_requests import Prompt
from workers.models.port import ModelCall, ModelError, ModelReply
from workers.play.tools import NO_TOOLS, Tools
from workers.validators import ValidatorUnavailable

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


class ModelCaller(Protocol):
    """Every model by its name, as `provider:name`. Raises `ModelError`."""

    async def complete(self, name: str, call: ModelCall) -> ModelReply: ...


class DraftChecks(Protocol):
    """The validators of one request."""

    async def run(self, draft: str, key: str) -> tuple[Finding, ...]: ...


@dataclass(frozen=True)
class StepExecutor:
    """Performs the steps of one refinement and says what goes into its journal."""

    refinement_id: str
    models: ModelCaller
    choices: Mapping[str, ModelChoice]
    checks: DraftChecks
    tools: Tools = NO_TOOLS

    async def perform(self, move: StepMove) -> StepCompleted | StepFailed:
        """Do one step; the failure of a model or a validator is an entry like any other."""
        clock = get_running_loop().time
        started = clock()
        try:
            entry: StepCompleted | StepFailed = await self._done(move)
        except ModelError as error:
            entry = StepFailed(
                key=move.path, code=error.code, detail=error.detail, usage=error.usage, next=()
            )
        except ValidatorUnavailable as error:
            entry = StepFailed(
                key=move.path,
                code="validator_unavailable",
                detail=error.detail,
                usage=Usage(),
                next=(),
            )
        seconds = round(clock() - started, 6)
        usage = entry.usage.model_copy(update={"seconds": seconds})
        if isinstance(entry, StepFailed):
            return entry.model_copy(update={"usage": usage})
        return entry.model_copy(update={"usage": usage, "seconds": seconds})

    async def _done(self, move: StepMove) -> StepCompleted:
        match move:
            case Ask():
                return await self._ask(move)
            case Check():
                return await self._check(move)
            case Call():
                return await self._call(move)

    async def _check(self, move: Check) -> StepCompleted:
        key = f"{self.refinement_id}/{move.path}"
        if move.of == "calls":
            findings = await self.tools.check(move.draft)
        else:
            findings = await self.checks.run(move.draft, key)
        reply = FindingsReply(findings=findings)
        return StepCompleted(
            key=move.path, kind="check", reply=reply, usage=Usage(), seconds=0, next=()
        )

    async def _call(self, move: Call) -> StepCompleted:
        key = f"{self.refinement_id}/{move.path}"
        result = await self.tools.call(move.tool, move.arguments, key)
        reply = ToolReply(ok=result.ok, text=result.text)
        return StepCompleted(
            key=move.path, kind="call", reply=reply, usage=Usage(), seconds=0, next=()
        )

    async def _ask(self, move: Ask) -> StepCompleted:
        choice = self.choices[move.seat]
        call = ModelCall(
            model=choice.model,
            prompt=move.prompt,
            prompt_request=move.prompt_request,
            key=f"{self.refinement_id}/{move.path}",
            temperature=choice.temperature,
            max_output_tokens=choice.max_output_tokens,
        )
        served = await ask_in_turn(self.models.complete, choice.names(), call)
        answer = served.reply
        return StepCompleted(
            key=move.path,
            kind="ask",
            reply=TextReply(text=answer.text),
            model=answer.model,
            tried=served.tried,
            prompt=_reference(move.prompt),
            usage=answer.usage,
            seconds=0,
            next=(),
        )


def _reference(prompt: Prompt) -> PromptRef:
    sha256 = sha256_of(f"{prompt.system}\n\n{prompt.user}")
    return PromptRef(name=prompt.name, version=prompt.version, sha256=sha256)
