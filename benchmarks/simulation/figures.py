"""What a policy is worth, with 95 % confidence intervals over seeds; all differences are paired."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from app.contract.requests import RefinementRequest
from benchmarks.simulation.policies import Result, hone, naive
from benchmarks.simulation.world import Critic, Reviser, World

TUNING = range(800)
"""Seeds for looking at and choosing between policies."""
HELD_OUT = range(1_000_000, 1_000_800)
"""Seeds for reporting only: nothing is chosen by what they show."""

CAPS = (3, 6, 12)
THRESHOLD = 0.85


@dataclass(frozen=True)
class Mean:
    """A mean and the half-width of its 95 % confidence interval (normal approximation)."""

    value: float
    margin: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Mean":
        """Return the mean of at least two values."""
        given = list(values)
        return cls(fmean(given), 1.96 * stdev(given) / len(given) ** 0.5)

    @property
    def sign(self) -> int:
        """1 or -1 when the interval lies on one side of 0, else 0."""
        return (self.value - self.margin > 0) - (self.value + self.margin < 0)


@dataclass(frozen=True)
class Trial:
    """One seed: the naive loop, Hone, and the naive loop with no more drafts than Hone judged."""

    naive: Result
    hone: Result
    matched: Result


@dataclass(frozen=True)
class Cell:
    """All seeds of one reviser, one critic and one cap."""

    reviser: Reviser
    critic: Critic
    cap: int
    trials: Sequence[Trial]

    @property
    def quality(self) -> tuple[float, float]:
        """Mean true quality of the returned text: naive, Hone."""
        naive = fmean(it.naive.quality for it in self.trials)
        return naive, fmean(it.hone.quality for it in self.trials)

    @property
    def gain(self) -> Mean:
        """How much better the text that Hone returns is."""
        return Mean.of(it.hone.quality - it.naive.quality for it in self.trials)

    @property
    def gain_at_equal_calls(self) -> Mean:
        """The same against the naive loop cut to the drafts that Hone judged on that seed."""
        return Mean.of(it.hone.quality - it.matched.quality for it in self.trials)

    @property
    def truly_met(self) -> tuple[float, float]:
        """Share of returned texts that truly meet the threshold: naive, Hone."""
        naive = fmean(it.naive.quality >= THRESHOLD for it in self.trials)
        return naive, fmean(it.hone.quality >= THRESHOLD for it in self.trials)

    @property
    def met_gain(self) -> Mean:
        """The difference between the two shares."""
        return Mean.of(
            float(it.hone.quality >= THRESHOLD) - float(it.naive.quality >= THRESHOLD)
            for it in self.trials
        )

    @property
    def calls(self) -> tuple[float, float]:
        """Mean model calls: naive, Hone."""
        naive = fmean(it.naive.calls for it in self.trials)
        return naive, fmean(it.hone.calls for it in self.trials)

    @property
    def overstated(self) -> tuple[float, float]:
        """By how much the score of the returned text exceeds its quality: naive, Hone."""
        naive = fmean(it.naive.score - it.naive.quality for it in self.trials)
        return naive, fmean(it.hone.score - it.hone.quality for it in self.trials)

    @property
    def verdict(self) -> str:
        """`better` and `worse` are about true quality; `better` also needs no more calls."""
        naive, hone = self.calls
        if self.gain.sign > 0:
            return "better" if hone <= naive else "better, dearer"
        return "worse" if self.gain.sign < 0 else "even"


def simulated(reviser: Reviser, critic: Critic, cap: int, seeds: Iterable[int]) -> Cell:
    """Play every seed with every policy."""
    request = RefinementRequest(task="-", threshold=THRESHOLD, max_iterations=cap)
    return Cell(reviser, critic, cap, [_trial(reviser, critic, request, seed) for seed in seeds])


def _trial(reviser: Reviser, critic: Critic, request: RefinementRequest, seed: int) -> Trial:
    def world() -> World:
        return World(seed, reviser, critic)

    ours = hone(world(), request)
    return Trial(
        naive=naive(world(), THRESHOLD, request.max_iterations),
        hone=ours,
        matched=naive(world(), THRESHOLD, ours.judged),
    )
