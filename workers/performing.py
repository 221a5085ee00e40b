"""Doing what a strategy asks for: calling a model or a tool, running the validators."""

from asyncio import get_running_loop
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from app.contract.drafts import sha256_of
from app.contract.events import (
    FindingsReply,
    PromptRef,
    StepCompleted,
    StepFailed,
    TextReply,
    ToolReply,
)
from app.contract.judgement import Finding, Usage
from app.contract.requests import ModelChoice
from workers.engine.briefs import Prompt
from workers.engine.moves import Ask, Call, Check, Deed
from workers.models.fallbacks import ask_in_turn
from workers.models.port import ModelCall, ModelError, ModelReply
from workers.tools import NO_TOOLS, Tools
from workers.validators import ValidatorUnavailable


class Models(Protocol):
    """Every model by its name, as `provider:name`. Raises `ModelError`."""

    async def complete(self, name: str, call: ModelCall) -> ModelReply: ...


class Checks(Protocol):
    """The validators of one request."""

    async def run(self, draft: str, key: str) -> tuple[Finding, ...]: ...


@dataclass(frozen=True)
class Performer:
    """Performs the steps of one refinement and says what goes into its journal."""

    refinement_id: str
    models: Models
    choices: Mapping[str, ModelChoice]
    checks: Checks
    tools: Tools = NO_TOOLS

    async def perform(self, move: Deed) -> StepCompleted | StepFailed:
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

    async def _done(self, move: Deed) -> StepCompleted:
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
            brief=move.brief,
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
