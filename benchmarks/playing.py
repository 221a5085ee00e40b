"""Plays a strategy in this process: real validators, any model, no journal, no network."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.contract.judgement import FindingsReply
from app.contract.requests import RefinementRequest
from workers.engine.moves import (
    Approval,
    Ask,
    Call,
    Check,
    Heard,
    Judged,
    Move,
    MoveCoroutine,
    Review,
    ReviewerReply,
    StepError,
    Together,
)
from workers.engine.pipeline import strategy_for
from workers.engine.search import Outcome
from workers.models.port import ModelCall, ModelError, ModelReply
from workers.play.driver import play_moves
from workers.play.executor import Tools
from workers.validators.running import NO_RESOURCES, ServerResources, compile_validators

NONCE = "tzwplfhe"
"""The number in the tags around texts, as a record has one."""


class AnsweringModel(Protocol):
    """The model that plays every role."""

    async def complete(self, call: ModelCall) -> ModelReply: ...


@dataclass
class StrategyPlayer:
    """Plays one request; `steps` are the keys of its steps, in the order in which they began."""

    request: RefinementRequest
    model: AnsweringModel
    resources: ServerResources = NO_RESOURCES
    decisions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What reviewers decide, by the key of the review; anything else is approved."""
    steps: list[str] = field(default_factory=list)
    calls: int = 0

    async def play(self) -> Outcome:
        """Play the strategy and return its outcome."""
        self._checks = compile_validators(
            self.request.validators,
            resources=self.resources,
            items=self.request.strategy.item_validators(),
        )
        self._tools = Tools(self.request.tools, self.resources.endpoints)
        outcome: Outcome = await self._played(strategy_for(self.request, NONCE, is_exact=True))
        return outcome

    async def _played(self, part: MoveCoroutine[Any]) -> Any:
        return await play_moves(part, self._reply)

    async def _reply(self, move: Move[Any]) -> Any:
        match move:
            case Together():
                done = await asyncio.gather(*map(self._played, move.parts), return_exceptions=True)
                for error in (it for it in done if isinstance(it, BaseException)):
                    raise error
                return tuple(done)
            case Judged():
                return self.request.limits()
            case Heard():
                return None
            case Review() | Approval():
                self.steps.append(move.path)
                said = self.decisions.get(move.path, {"action": "approve"})
                return ReviewerReply(said["action"], said.get("feedback"))
        self.steps.append(move.path)
        return await self._done(move)

    async def _done(self, move: Move[Any]) -> Any:
        match move:
            case Call():
                return await self._tools.call(move.tool, move.arguments, move.path)
            case Check(of="calls"):
                return FindingsReply(findings=await self._tools.check(move.draft))
            case Check():
                return await self._checks.examine(move.draft, move.path, move.scopes)
            case Ask():
                return await self._asked(move)
        raise TypeError(move)

    async def _asked(self, move: Ask) -> str:
        self.calls += 1
        call = ModelCall("offline:editor", move.prompt, move.prompt_request, move.path, None, 4_096)
        try:
            return (await self.model.complete(call)).text
        except ModelError as error:
            raise StepError(error.code, error.detail) from None
