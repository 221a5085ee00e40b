"""The policies compared: the strategy as shipped, played move by move, and the naive loop.

And one that no product can have: it knows the reviser and the critic.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, pi, sqrt
from operator import mul
from typing import Any

from app.contract.judgement import QualityEstimate
from app.contract.limits import Limits
from app.contract.requests import RefinementRequest
from app.contract.statistics import Learnt
from benchmarks.simulation.world import FIRST_DRAFT, Critic, Reviser, TextWorld, World
from workers.engine.moves import Ask, Heard, Judged, Move, MoveCoroutine, Together
from workers.engine.pipeline import strategy_for
from workers.engine.prompts import Judge, Revise, Write
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


CELLS = 50
"""In how many steps `informed` counts qualities."""
CENTRES = tuple((it + 0.5) / CELLS for it in range(CELLS))
Belief = Sequence[float]
"""The probability of the quality at each of the centres."""


def informed(world: World, threshold: float, cap: int) -> PolicyResult:
    """Play like the naive loop, but revise and return the draft that is worth more on average.

    It is Bayes' rule with the true reviser and critic, so that nothing has to be learnt: what is
    possible when only the qualities are unknown.
    """
    number, (out_of, into) = 1, _transitions(world.reviser)
    text = world.write("iterations/1/draft")
    score = world.score("iterations/1/critique", text)
    fits = _fits(world.critic, score)
    base: Belief = _shares(list(map(mul, _FIRST, fits)))
    while score < threshold and number < cap:
        number += 1
        revised = world.revise(f"iterations/{number}/revise", text)
        score = world.score(f"iterations/{number}/critique", revised)
        fits = _fits(world.critic, score)
        new = [fit * sum(map(mul, base, row)) for fit, row in zip(fits, into, strict=True)]
        old = [prior * sum(map(mul, row, fits)) for prior, row in zip(base, out_of, strict=True)]
        base, new = _shares(old), _shares(new)
        if score >= threshold or _mean(new) >= _mean(base):
            text, base = revised, new
    return PolicyResult(world.quality(text), score, calls=2 * number, judged=number)


Matrix = tuple[tuple[float, ...], ...]


@cache
def _transitions(reviser: Reviser) -> tuple[Matrix, Matrix]:
    """Return the probabilities of the qualities after a revision, by those before, and transposed.

    Both have a row for each quality: before the revision, and after it.
    """
    out_of = tuple(tuple(_revised(reviser, quality)) for quality in CENTRES)
    return out_of, tuple(zip(*out_of, strict=True))


def _revised(reviser: Reviser, quality: float) -> Sequence[float]:
    """Return the probability of each quality after the revision of a text of this quality."""
    helps = reviser.helps_worst + (reviser.helps_best - reviser.helps_worst) * quality
    most = quality + reviser.reach * max(0.0, reviser.ceiling - quality)
    least = quality - reviser.harm * quality
    up, down = _uniform(quality, most), _uniform(least, quality)
    return [helps * one + (1 - helps) * other for one, other in zip(up, down, strict=True)]


def _uniform(low: float, high: float) -> list[float]:
    """Return the probability of each quality that is uniform between two values."""
    half = 0.5 / CELLS
    if high - low < half:
        low, high = low - half / 2, low + half / 2
    shared = (min(high, it + half) - max(low, it - half) for it in CENTRES)
    return _shares([max(0.0, it) for it in shared])


def _fits(critic: Critic, score: float) -> list[float]:
    """Return the density of a score at each quality; one step of qualities is its least error."""
    sigma = max(critic.sigma, 1 / CELLS)
    errors = [(score - critic.bias - it) / sigma for it in CENTRES]
    if critic.has_heavy_tails:
        densities = [2 / (pi * sqrt(3)) / (1 + it * it / 3) ** 2 for it in errors]
    else:
        densities = [exp(-it * it / 2) / sqrt(2 * pi) for it in errors]
    return [critic.rubbish + (1 - critic.rubbish) * it / sigma + 1e-12 for it in densities]


def _shares(weights: list[float]) -> list[float]:
    total = sum(weights)
    return [it / total for it in weights]


def _mean(belief: Belief) -> float:
    return sum(share * it for share, it in zip(belief, CENTRES, strict=True))


_FIRST = _shares([exp(-0.5 * ((it - FIRST_DRAFT[0]) / FIRST_DRAFT[1]) ** 2) for it in CENTRES])


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
            case Heard():
                return None
        raise TypeError(f"the simulation does not support this move: {move}")


def hone(
    world: TextWorld, request: RefinementRequest, learnt: Learnt | None = None
) -> PolicyResult:
    """Play the strategy that the request names, exactly as shipped."""
    player = _Player(world, request.limits())
    outcome: Outcome = player.play(strategy_for(request, "482913", learnt=learnt))
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
