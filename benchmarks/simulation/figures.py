"""Results of the policies, with 95 % confidence intervals over seeds; differences are paired."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from app.contract.requests import RefinementRequest
from benchmarks.simulation.policies import PolicyResult, hone, naive
from benchmarks.simulation.world import Critic, Reviser, World

TUNING = range(500)
"""Seeds for choosing between policies."""
HELD_OUT = range(1_000_000, 1_000_500)
"""Seeds for reporting only: no choice is based on them."""

CAPS = (3, 6, 12)
THRESHOLD = 0.85
TOLERANCE = 0.15
"""`stop.tolerance` for a noisy critic; chosen on the tuning seeds."""


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
class Arm:
    """One policy's results, seed by seed."""

    results: Sequence[PolicyResult]

    @property
    def quality(self) -> float:
        """Mean true quality of the returned text."""
        return fmean(it.quality for it in self.results)

    @property
    def truly_met(self) -> float:
        """Share of returned texts that truly meet the threshold."""
        return fmean(it.quality >= THRESHOLD for it in self.results)

    @property
    def calls(self) -> float:
        """Mean model calls."""
        return fmean(it.calls for it in self.results)

    @property
    def overstated(self) -> float:
        """By how much the score of the returned text exceeds its quality."""
        return fmean(it.score - it.quality for it in self.results)

    def gain_over(self, other: "Arm") -> Mean:
        """Return by how much the true quality of the returned text is higher."""
        pairs = zip(self.results, other.results, strict=True)
        return Mean.of(mine.quality - its.quality for mine, its in pairs)

    def met_gain_over(self, other: "Arm") -> Mean:
        """Return the difference between the shares that truly meet the threshold."""
        pairs = zip(self.results, other.results, strict=True)
        return Mean.of(
            float(mine.quality >= THRESHOLD) - float(its.quality >= THRESHOLD)
            for mine, its in pairs
        )

    def verdict_against(self, other: "Arm") -> str:
        """Return whether this policy returns the better text; `better` means at no more calls."""
        sign = self.gain_over(other).sign
        if sign > 0:
            return "better" if self.calls <= other.calls else "better, dearer"
        return "worse" if sign < 0 else "even"


@dataclass(frozen=True)
class Cell:
    """All seeds of one reviser, one critic and one cap.

    `patient` is Hone with a patience as high as the cap, so that it never stops at a plateau;
    `tolerant` is the same with a tolerance. The matched arms are the naive loop with no more drafts
    than Hone judged on that seed.
    """

    reviser: Reviser
    critic: Critic
    cap: int
    naive: Arm
    hone: Arm
    matched: Arm
    patient: Arm
    tolerant: Arm
    tolerant_matched: Arm


def simulated(reviser: Reviser, critic: Critic, cap: int, seeds: Iterable[int]) -> Cell:
    """Play every seed with every policy."""
    worlds = [World(seed, reviser, critic) for seed in seeds]

    def ours(**stop: float) -> Arm:
        given = {"task": "-", "threshold": THRESHOLD, "max_iterations": cap, "stop": stop}
        request = RefinementRequest.model_validate(given)
        return Arm([hone(world, request) for world in worlds])

    def matched(arm: Arm) -> Arm:
        pairs = zip(worlds, arm.results, strict=True)
        return Arm([naive(world, THRESHOLD, it.judged) for world, it in pairs])

    shipped, tolerant = ours(), ours(patience=cap, tolerance=TOLERANCE)
    return Cell(
        reviser,
        critic,
        cap,
        naive=Arm([naive(world, THRESHOLD, cap) for world in worlds]),
        hone=shipped,
        matched=matched(shipped),
        patient=ours(patience=cap),
        tolerant=tolerant,
        tolerant_matched=matched(tolerant),
    )
