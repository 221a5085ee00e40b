"""Results of the policies, with 95 % confidence intervals over seeds; differences are paired."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, permutations
from statistics import fmean, stdev
from typing import Any

from app.contract.requests import RefinementRequest
from app.contract.statistics import Learnt
from benchmarks.simulation.policies import PolicyResult, hone, informed, naive
from benchmarks.simulation.programs import PROGRAMMERS, TESTERS, ProgramWorld
from benchmarks.simulation.world import (
    CRITICS,
    REVISERS,
    WIDE_CRITICS,
    WIDE_REVISERS,
    TextWorld,
    World,
)
from workers.engine.quality import (
    CALIBRATED_FROM,
    NONE_RATED,
    Rated,
    predictions_held,
)

TUNING = range(500)
"""Seeds for choosing between policies."""
HELD_OUT = range(1_000_000, 1_000_500)
"""Seeds for reporting only: no choice is based on them."""
WIDE_SEEDS = 100
"""How many of them the wider rows and the programs play."""

CAPS = (3, 6, 12)
SAMPLES = (3, 6)
"""Drafts of `best_of_n`."""
THRESHOLD = 0.85
TOLERANCE = 0.15
"""`stop.tolerance` for a noisy critic; chosen on the tuning seeds."""

FEWER = 100
"""Seeds that the policies besides the rule play."""

PAST = 30
"""Refinements of the same kind that ended before, for the policy that has learnt."""
HISTORIES = 5
"""Independent histories of a row; seeds take them in turn."""
PAST_FROM = 10_000
"""The distance of the seeds of histories from those that are played."""
MEMORY = 0.99
"""What a refinement leaves of the sums before it."""


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

    def first(self, count: int) -> "Arm":
        """Return the results of the first seeds."""
        return Arm(self.results[:count])

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
        """Return by how much the true quality of the returned text is higher, on shared seeds."""
        pairs = zip(self.results, other.results, strict=False)
        return Mean.of(mine.quality - its.quality for mine, its in pairs)

    def verdict_against(self, other: "Arm") -> str:
        """Return whether this policy returns the better text; `better` means at no more calls."""
        sign = self.gain_over(other).sign
        if sign > 0:
            calls = fmean(it.calls for it in other.results[: len(self.results)])
            return "better" if self.calls <= calls else "better, dearer"
        return "worse" if sign < 0 else "even"


@dataclass(frozen=True)
class Cell:
    """All seeds of one reviser, one critic and one cap, with every policy.

    `fresh` is Hone with its defaults and no history, `learnt` the same after `PAST` refinements,
    `tolerant` has a tolerance, and `strict` keeps the highest score and stops at a plateau of two.
    `informed`, on the yardstick, knows the reviser and the critic.
    """

    world: str
    reviser: str
    critic: str
    cap: int
    naive: Arm
    fresh: Arm
    learnt: Arm
    tolerant: Arm | None = None
    strict: Arm | None = None
    informed: Arm | None = None


Worlds = Callable[[int], TextWorld]
"""Returns the world of a seed."""


@dataclass(frozen=True)
class Spec:
    """What a cell plays."""

    world: str
    reviser: str
    critic: str
    cap: int
    worlds: Worlds
    seeds: range
    samples: bool = False
    """Whether `cap` drafts are made side by side, against the first of them alone."""
    taught_in: Worlds | None = None
    """Where the past refinements took place, if that is another world."""

    @property
    def name(self) -> str:
        """What tells it from the other rows."""
        return f"{self.world}, {self.reviser}, {self.critic}, cap {self.cap}"

    def played(self) -> Cell:
        """Play every seed with every policy."""
        worlds = [self.worlds(seed) for seed in self.seeds]
        most = 1 if self.samples else self.cap
        pasts = [self._past(number) for number in range(HISTORIES)]
        request = self._request()
        turns = [pasts[number % HISTORIES] for number in range(len(worlds))]
        before = {"tolerance": 0, "patience": 2, "escape": False}
        strict = {"tolerance": 0} if self.samples else before
        has_others = self.world not in ("masked", "wrong")
        return Cell(
            self.world,
            self.reviser,
            self.critic,
            self.cap,
            naive=Arm([naive(it, THRESHOLD, most) for it in worlds]),
            fresh=Arm([hone(it, request) for it in worlds]),
            learnt=Arm([hone(it, request, past) for it, past in zip(worlds, turns, strict=True)]),
            tolerant=self._arm(worlds[:FEWER], {"tolerance": TOLERANCE}) if has_others else None,
            strict=self._arm(worlds[:FEWER], strict) if has_others else None,
            informed=self._informed(worlds) if self.world == "yardstick" else None,
        )

    def _informed(self, worlds: Sequence[TextWorld]) -> Arm:
        return Arm([informed(it, THRESHOLD, self.cap) for it in worlds if isinstance(it, World)])

    def _arm(self, worlds: Sequence[TextWorld], stop: Mapping[str, float]) -> Arm:
        request = self._request(stop=stop)
        return Arm([hone(it, request) for it in worlds])

    def _past(self, number: int) -> Learnt:
        """Return what a history of refinements taught."""
        learnt, request, worlds = None, self._request(), self.taught_in or self.worlds
        first = self.seeds.start + PAST_FROM + number * PAST
        for seed in range(first, first + PAST):
            lesson = hone(worlds(seed), request, learnt).lesson
            assert lesson is not None  # a critic has scored drafts
            learnt = added(learnt, lesson)
        assert learnt is not None
        return learnt

    def _request(self, **fields: Any) -> RefinementRequest:
        given = {"task": "-", "threshold": THRESHOLD, "max_iterations": self.cap, **fields}
        if self.samples:
            given["strategy"] = {"kind": "best_of_n", "n": self.cap}
        return RefinementRequest.model_validate(given)


def added(learnt: Learnt | None, lesson: Learnt) -> Learnt:
    """Return what is known after one more refinement, as the store adds it."""
    if learnt is None:
        return lesson
    count, total, squares = (
        MEMORY * old + new
        for old, new in zip(learnt.first_drafts, lesson.first_drafts, strict=True)
    )
    return Learnt(
        bank=lesson.bank,
        refinements=MEMORY * learnt.refinements + lesson.refinements,
        evidence=tuple(
            MEMORY * old + new for old, new in zip(learnt.evidence, lesson.evidence, strict=True)
        ),
        first_drafts=(count, total, squares),
        predicted=(
            MEMORY * learnt.predicted[0] + lesson.predicted[0],
            MEMORY * learnt.predicted[1] + lesson.predicted[1],
        ),
    )


def yardstick(seeds: range, caps: Sequence[int] = CAPS) -> Iterator[Spec]:
    """Yield the 81 rows that every release is measured by."""
    for reviser in REVISERS:
        for critic in CRITICS:
            worlds = partial(World, reviser=reviser, critic=critic)
            for cap in caps:
                yield Spec("yardstick", reviser.name, critic.name, cap, worlds, seeds)


def wider(seeds: range, caps: Sequence[int] = CAPS) -> Iterator[Spec]:
    """Yield rows with other revisers and other errors of critics."""
    known = {(reviser.name, critic.name) for reviser in REVISERS for critic in CRITICS}
    for reviser in WIDE_REVISERS:
        for critic in WIDE_CRITICS:
            worlds = partial(World, reviser=reviser, critic=critic)
            if (reviser.name, critic.name) not in known:
                for cap in caps:
                    yield Spec("wider", reviser.name, critic.name, cap, worlds, seeds)


def wrong(seeds: range, caps: Sequence[int] = CAPS) -> Iterator[Spec]:
    """Yield the rows of the yardstick with a history of each other reviser."""
    for reviser, other in permutations(REVISERS, 2):
        for critic in CRITICS:
            worlds = partial(World, reviser=reviser, critic=critic)
            past = partial(World, reviser=other, critic=critic)
            name = f"{reviser.name}, after {PAST} refinements by the {other.name} one"
            for cap in caps:
                yield Spec("wrong", name, critic.name, cap, worlds, seeds, taught_in=past)


def programs(
    seeds: range, caps: Sequence[int] = CAPS, *, is_masking: bool = False
) -> Iterator[Spec]:
    """Yield the rows of real artefacts: modules, or small functions."""
    world = "masked" if is_masking else "programs"
    for programmer in PROGRAMMERS:
        for tester in TESTERS:
            worlds = partial(ProgramWorld, reviser=programmer, critic=tester, is_masking=is_masking)
            for cap in caps:
                yield Spec(world, programmer.name, tester.name, cap, worlds, seeds)


def samples(seeds: range) -> Iterator[Spec]:
    """Yield the rows of drafts made side by side."""
    for critic in CRITICS:
        worlds = partial(World, reviser=REVISERS[0], critic=critic)
        for count in SAMPLES:
            yield Spec("samples", "-", critic.name, count, worlds, seeds, samples=True)


def played(spec: Spec) -> Cell:
    """Play one row."""
    return spec.played()


@dataclass(frozen=True)
class Calibration:
    """Estimates with a chance between two values, and what became of them."""

    low: float
    high: float
    count: int
    promised: float
    met: float


BINS = tuple(it / 10 for it in range(11))
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, THRESHOLD)
"""What the chance is that a returned draft truly meets each of them is what is calibrated."""


def calibrations(arms: Iterable[Arm], thresholds: Sequence[float]) -> list[Calibration]:
    """Return for each tenth of the chance how many drafts truly met the threshold."""
    given = [
        (it.estimate.chance_of(threshold), it.quality >= threshold)
        for arm in arms
        for it in arm.results
        if it.estimate is not None
        for threshold in thresholds
    ]
    found = []
    for low, high in pairwise(BINS):
        mine = [it for it in given if low <= it[0] < high or it[0] == high == 1]
        if mine:
            promised, met = (
                fmean(float(it) for it in values) for values in zip(*mine, strict=True)
            )
            found.append(Calibration(low, high, len(mine), promised, met))
    return found


@dataclass(frozen=True)
class Reported:
    """The estimates that were reported, and what became of them; `share` is that of the drafts."""

    share: float
    covered: float
    """The share of the drafts whose quality is within twice the error."""
    promised: float
    met: float
    chances: "Chances | None"

    @classmethod
    def of(cls, arms: Sequence[Arm]) -> "Reported | None":
        """Return the figures at the threshold; None if nothing was reported."""
        every = [it for arm in arms for it in arm.results]
        given = [(it.estimate, it.quality) for it in every if it.estimate is not None]
        if not given:
            return None
        return cls(
            share=len(given) / len(every),
            covered=fmean(abs(quality - it.value) <= 2 * it.error for it, quality in given),
            promised=fmean(it.chance_of(THRESHOLD) for it, _ in given),
            met=fmean(quality >= THRESHOLD for _, quality in given),
            chances=Chances.of(arms),
        )


@dataclass(frozen=True)
class Chances:
    """The chances that are reported where a person scored every earlier result of the row."""

    share: float
    promised: float
    met: float

    @classmethod
    def of(cls, arms: Iterable[Arm]) -> "Chances | None":
        """Return the figures of the results with an estimate, after the first `CALIBRATED_FROM`.

        Each result is predicted before it is known (prequential, Dawid 1984).
        """
        asked, shown = 0, []
        for arm in arms:
            rated: Rated = NONE_RATED
            for it in arm.results:
                if it.estimate is None:
                    continue
                chance, is_met = it.estimate.chance_of(THRESHOLD), it.quality >= THRESHOLD
                asked += rated[0] >= CALIBRATED_FROM
                if predictions_held(rated):
                    shown.append((chance, is_met))
                added = (1, is_met, chance, chance * (1 - chance))
                count, met, said, spread = (
                    MEMORY * old + new for old, new in zip(rated, added, strict=True)
                )
                rated = (count, met, said, spread)
        if not shown:
            return None
        promised, met = (fmean(float(it) for it in values) for values in zip(*shown, strict=True))
        return cls(len(shown) / asked, promised, met)
