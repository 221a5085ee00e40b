"""Plays a strategy against a scripted model: no event loop, no fixture, no patching."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from app.contract.judgement import Finding, FindingsReply
from app.contract.limits import Limits
from app.contract.requests import RefinementRequest
from tests.engine.scripted_replies import in_marks, said
from workers.engine.moves import (
    Approval,
    Ask,
    Call,
    Check,
    Heard,
    Judged,
    Move,
    MoveCoroutine,
    Reply,
    Review,
    ReviewerReply,
    StepError,
    Stopped,
    Together,
    ToolResult,
)
from workers.engine.pipeline import strategy_for
from workers.engine.search import Outcome
from workers.engine.strategies.plan_execute import Plan, Replan

Refusal = Stopped | StepError


def verdict(*scores: float | None, names: Iterable[str] = ("quality",), **more: object) -> str:
    """Write a critic's reply."""
    given = zip(names, scores, strict=True)
    return json.dumps(
        {"scores": [{"criterion": n, "score": s, "reason": "so"} for n, s in given], **more}
    )


@dataclass
class EngineDriver:
    """Answers moves from scripts; an exception among the answers is thrown in instead."""

    critic: Iterator[str | Refusal]
    writer: Iterator[str | Refusal]
    check: Callable[[str], tuple[Finding, ...] | FindingsReply] = lambda draft: ()
    change: Callable[[Judged, Limits], Limits] = lambda judged, limits: limits
    reviewer: Iterator[ReviewerReply | Refusal] = field(default_factory=lambda: iter(()))
    heard: dict[str, ReviewerReply] = field(default_factory=dict)
    """What a person said while it was paused, by the place where that is followed."""
    planner: Iterator[str | Refusal] | None = None
    fits: Callable[[str], tuple[Finding, ...]] = lambda calls: ()
    tool: Callable[[Call], ToolResult | Refusal] = lambda call: ToolResult(True, "")
    moves: list[Move[Any]] = field(default_factory=list)
    together: list[int] = field(default_factory=list)
    """How many were played side by side, each time."""

    @property
    def paths(self) -> list[str]:
        return [move.path for move in self.moves]

    def asked(self, role: str) -> list[Ask]:
        return [move for move in self.moves if isinstance(move, Ask) and move.role == role]

    def play(self, request: RefinementRequest) -> Outcome:
        return self.run(strategy_for(request, "482913"), request.limits())

    def run(self, strategy: MoveCoroutine[Reply], limits: Limits) -> Reply:
        """Play to the end; strategies side by side are played one after another."""
        send = self._answered(strategy, None)
        while True:
            try:
                move = send()
            except StopIteration as done:
                result: Reply = done.value
                return result
            if not isinstance(move, Together | Heard):
                self.moves.append(move)
            if isinstance(move, Judged):
                limits = self.change(move, limits)
            send = self._answered(strategy, self._answer(move, limits))

    def _answer(self, move: Move[Any], limits: Limits) -> Any:
        match move:
            case Ask():
                return self._asked(move)
            case Call():
                return self.tool(move)
            case Check(draft=text):
                said = self.fits(text) if move.of == "calls" else self.check(text)
                return said if isinstance(said, FindingsReply) else FindingsReply(findings=said)
            case Judged() | Heard():
                return limits if isinstance(move, Judged) else self.heard.get(move.path)
            case Review() | Approval():
                return next(self.reviewer)
            case Together(parts=parts):
                return self._together(parts, limits)
        raise AssertionError(move)

    def _asked(self, move: Ask) -> Any:
        if move.role == "critic":
            return next(self.critic)
        if isinstance(move.prompt_request, Plan | Replan):
            return said(move.prompt_request) if self.planner is None else next(self.planner)
        text = next(self.writer)
        return in_marks(text, move.prompt_request) if isinstance(text, str) else text

    def _together(self, parts: tuple[MoveCoroutine[Any], ...], limits: Limits) -> Any:
        self.together.append(len(parts))
        done = [self._part(part, limits) for part in parts]
        return next((it for it in done if isinstance(it, (Stopped, StepError))), tuple(done))

    def _part(self, part: MoveCoroutine[Any], limits: Limits) -> Any:
        try:
            return self.run(part, limits)
        except (Stopped, StepError) as refusal:
            return refusal

    @staticmethod
    def _answered(strategy: MoveCoroutine[Any], answer: Any) -> Callable[[], Move[Any]]:
        if isinstance(answer, (Stopped, StepError)):
            return lambda: strategy.throw(answer)
        return lambda: strategy.send(answer)


def drafts() -> Iterator[str]:
    """Write drafts that share no words."""
    number = 0
    while True:
        number += 1
        yield " ".join(f"word{number}.{place}" for place in range(12))


def driver_scoring(
    *scores: float | str | Refusal, writer: Iterable[str | Refusal] | None = None
) -> EngineDriver:
    """A critic that gives these scores in turn, and a writer whose drafts are all different."""
    critic = (verdict(it) if isinstance(it, float) else it for it in scores)
    return EngineDriver(critic, iter(writer) if writer is not None else drafts())


def judged_by(
    score: Callable[[str, str], float],
    writer: Iterable[str | Refusal],
    finds_fault: Callable[[], bool] = lambda: False,
) -> EngineDriver:
    """A critic that scores by the path of its step and the name of the criterion.

    To whatever else it is asked it says something that can be read, with a fault or without.
    """

    def critic() -> Iterator[str]:
        while True:
            question = model.moves[-1]
            assert isinstance(question, Ask)
            if reply := said(question.prompt_request, finds_fault=finds_fault()):
                yield reply
                continue
            names = [it.name for it in question.prompt_request.task.criteria]
            yield verdict(*(score(question.path, name) for name in names), names=names)

    model = EngineDriver(critic(), iter(writer))
    return model


def request(**fields: Any) -> RefinementRequest:
    """A task alone, unless the fields say otherwise."""
    return RefinementRequest.model_validate({"task": "Explain refunds.", **fields})
