"""The policies compared: the strategy as shipped, played move by move, and the naive loop."""

import json
from dataclasses import dataclass
from typing import Any

from app.contract.judgement import QualityEstimate
from app.contract.learnt import Learnt
from app.contract.limits import Limits
from app.contract.requests import RefinementRequest
from benchmarks.simulation.world import TextWorld
from workers.engine.moves import Ask, Judged, Move, MoveCoroutine, Together
from workers.engine.pipeline import strategy_for
from workers.engine.prompts.drafting import Revise, Write
from workers.engine.prompts.judging import Judge
from workers.engine.search import Outcome


@dataclass(frozen=True)
class PolicyResult:
    """What a policy returned: the text's true quality, its reported score, and the cost."""

    quality: float
    score: float
    calls: int
    judged: int
    estimate: QualityEstimate | None = None
    lesson: Learnt | None = None


def naive(world: TextWorld, threshold: float, cap: int) -> PolicyResult:
    """Revise the last draft until a score reaches the threshold; return the last draft.

    `cap` drafts are written and judged at most.
    """
    number = 1
    text = world.write("iterations/1/draft")
    score = world.score("iterations/1/critique", text)
    while score < threshold and number < cap:
        number += 1
        text = world.revise(f"iterations/{number}/revise", text)
        score = world.score(f"iterations/{number}/critique", text)
    return PolicyResult(world.quality(text), score, calls=2 * number, judged=number)


@dataclass
class _Player:
    """Answers the moves of a strategy from a world, and counts them."""

    world: TextWorld
    limits: Limits
    calls: int = 0
    judged: int = 0

    def play(self, strategy: MoveCoroutine[Any]) -> Any:
        """Play to the end; strategies side by side are played one after another."""
        reply = None
        while True:
            try:
                move = strategy.send(reply)
            except StopIteration as done:
                return done.value
            reply = self._answer(move)

    def _answer(self, move: Move[Any]) -> Any:
        self.calls += isinstance(move, Ask)
        match move:
            case Ask(path=key, prompt_request=Write()):
                return self.world.write(key)
            case Ask(path=key, prompt_request=Revise(draft=draft)):
                return self.world.revise(key, draft)
            case Ask(path=key, prompt_request=Judge(draft=draft)):
                return _verdict(self.world.score(key, draft))
            case Together(parts=parts):
                return tuple(self.play(part) for part in parts)
            case Judged():
                self.judged += 1
                return self.limits
        raise TypeError(f"the simulation does not support this move: {move}")


def hone(
    world: TextWorld, request: RefinementRequest, learnt: Learnt | None = None
) -> PolicyResult:
    """Play the strategy that the request names, exactly as shipped."""
    player = _Player(world, request.limits())
    outcome: Outcome = player.play(strategy_for(request, learnt=learnt))
    scored = outcome.best.scored
    return PolicyResult(
        world.quality(scored.draft.text),
        scored.score or 0.0,
        player.calls,
        player.judged,
        outcome.estimate,
        outcome.lesson,
    )


def _verdict(score: float) -> str:
    return json.dumps({"scores": [{"criterion": "quality", "score": score}]})
