"""The policies compared: the strategy as shipped, played move by move, and the naive loop."""

import json
from dataclasses import dataclass
from typing import Any

from app.contract.limits import Limits
from app.contract.requests import RefinementRequest
from benchmarks.simulation.world import World, quality_of
from workers.engine.moves import Ask, Judged, Move
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


def naive(world: World, threshold: float, cap: int) -> PolicyResult:
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
    return PolicyResult(quality_of(text), score, calls=2 * number, judged=number)


def hone(world: World, request: RefinementRequest) -> PolicyResult:
    """Play the strategy that the request names, exactly as shipped."""
    strategy, limits = strategy_for(request), request.limits()
    calls, judged, reply = 0, 0, None
    while True:
        try:
            move = strategy.send(reply)
        except StopIteration as done:
            outcome: Outcome = done.value
            scored = outcome.best.scored
            return PolicyResult(quality_of(scored.draft.text), scored.score or 0.0, calls, judged)
        calls += isinstance(move, Ask)
        judged += isinstance(move, Judged)
        reply = _answer(move, world, limits)


def _answer(move: Move[Any], world: World, limits: Limits) -> Any:
    match move:
        case Ask(path=key, prompt_request=Write()):
            return world.write(key)
        case Ask(path=key, prompt_request=Revise(draft=draft)):
            return world.revise(key, draft)
        case Ask(path=key, prompt_request=Judge(draft=draft)):
            return _verdict(world.score(key, draft))
        case Judged():
            return limits
    raise TypeError(f"the simulation does not support this move: {move}")


def _verdict(score: float) -> str:
    return json.dumps({"scores": [{"criterion": "quality", "score": score}]})
