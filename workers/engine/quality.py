"""The quality of drafts: estimated from noisy scores, and which draft is best and is revised next.

The estimate is a bank of Kalman filters. Each hypothesis of the bank says what a revision adds on
average, how much that varies, how noisy the critic is, and how the gain fades as texts get better.
Under one hypothesis the qualities of a draft and of its revision are jointly normal, and a score
updates both (Kalman 1960), unless it is a stray one that says nothing (Gaussian sums, Sorenson and
Alspach 1971). The hypotheses are weighed by how well they predicted the scores (multiple-model
estimation, Magill 1965); what ended refinements taught is the prior of the next one (empirical
Bayes).
"""

from collections.abc import Iterable, Sequence
from copy import copy
from itertools import compress, product
from math import exp, log, pi, sqrt

from app.contract.judgement import QualityEstimate
from app.contract.limits import Limits
from app.contract.statistics import Learnt
from app.contract.values import value
from workers.engine.moves import NO_ISSUES, IssueTracker, Judgement, Scored
from workers.engine.replies.likeness import is_same_text, likeness

BANK = 2
"""Version of the hypotheses: evidence about others is not read."""
MOST_FALL = 0.4
"""A revision that scores more than this below its parent is not revised next."""
WITHIN = 0.2
"""How far the score of a returned draft may lie below the highest score."""
AS_GOOD = 0.04
"""How far the expected quality of the draft that is revised next may lie below another's for it to
be returned: it is the latest, and what a revision harms is mostly too little to be seen."""
HISTORY = 0.5
"""The probability, before any score, that this refinement is like those before it."""
SURE_SD = 2.0
"""A score is predicted if it lies within so many standard deviations of what was expected."""
PREDICTED = 0.92
"""Share of the scores of revisions that must have been predicted for a kind to have estimates; of
normal errors it is 0.95."""
AS_WELL = 0.99
"""How likely the scores of this refinement have to be by what was learnt, of what they are without
it, for it to have an estimate."""
PREDICTIONS = 30
"""Predicted revisions from which that share is known."""
DOUBT = 0.2
"""How far a revision's expected quality may fall below its parent's for the revision to be kept, in
standard deviations of that difference."""
STRAY = 0.03
"""Share of the scores that are unrelated to the text, uniform on [0, 1]."""
TRUST = 0.5
"""Share of an apparent change of score that is believed: an error that stays with a text looks like
quality."""
STAYS = 0.5
"""Share of the variance of a critic's error that is the same when the text is judged again."""
NEGLIGIBLE = 0.01
"""Hypotheses whose weight is below this share of the highest are not updated any more."""
FIRST_DRAFT = (0.5, 0.25)
"""Mean and variance of the quality of a text without a parent, until they are learnt."""
LEAST_VARIANCE = 0.005
CALIBRATED_FROM = 26
"""Refinements of a kind from which its estimates are calibrated, and results that people scored
from which its chances are: what decay leaves of 30."""
ENOUGH = 10
"""First drafts from which their mean and variance are those of the kind."""
USUAL = 0.55
"""The quality of first drafts of a kind of which too little is known."""
OVERSTATED, FADED, LASTING, FROM_NOISE = 0.03, 0.1, 0.1, 0.1
"""How an estimate allows for what no score shows: by how much it is less in any case, and by how
much of its distance from the mean score of first drafts; and its standard deviation beside that of
the filter: the least, for critics that are lenient or strict, and how it grows with the noise."""
MIDDLE = 0.5
"""The quality at which a hypothesis states its gain."""


Rated = tuple[float, float, float, float]
"""How many results people scored, how many of those met, the chances of that, the variances."""
NONE_RATED: Rated = (0, 0, 0, 0)
Rates = tuple[float, float, float, float]
"""What a revision keeps of a quality, what it adds, its variance, and the variance of a score."""


@value(slots=True)
class Hypothesis:
    """What may hold for a reviser and a critic, in units of the score.

    A revision of a text of quality q has the quality q + gain - fading * (q - 0.5) with a standard
    deviation of `spread`; a score has one of `noise`.
    """

    gain: float
    spread: float
    noise: float
    fading: float

    @property
    def prior(self) -> float:
        """Its weight while nothing is learnt, up to a factor."""
        return exp(4 * self.noise - 4 * self.spread)

    def as_rates(self) -> Rates:
        """Return what a revision keeps of a quality and adds, its variance, and the score's."""
        rise = self.gain + self.fading * MIDDLE
        return (1 - self.fading, rise, self.spread**2, self.noise**2)


HYPOTHESES = tuple(
    Hypothesis(*values)
    for values in product((0.0, 0.04, 0.08), (0.04, 0.08, 0.16), (0.03, 0.1, 0.2), (0.15,))
)
NOISES = frozenset(hypothesis.noise for hypothesis in HYPOTHESES)
REVISIONS = tuple(hypothesis.as_rates() for hypothesis in HYPOTHESES)
UNKNOWN_FIRST = tuple((0.0, *FIRST_DRAFT, hypothesis.noise**2) for hypothesis in HYPOTHESES)
NO_PARENT = ((0.0, 0.0, 0.0),) * len(HYPOTHESES)


def weights_of(learnt: Learnt | None) -> list[float]:
    """Return the weight of each hypothesis after what was learnt; they add up to 1."""
    if learnt is None or not is_readable(learnt):
        return [*PRIOR]
    most = max(learnt.evidence)
    pairs = zip(PRIOR, learnt.evidence, strict=True)
    return _normalized([prior * exp(said - most) for prior, said in pairs])


def is_readable(learnt: Learnt) -> bool:
    """Return whether it is about the hypotheses of this bank."""
    return learnt.bank == BANK and len(learnt.evidence) == len(HYPOTHESES)


def predictions_held(rated: Rated) -> bool:
    """Return whether enough results were scored by people, and as many met as was predicted.

    Calibration in the large: the difference is within the 95 % interval of the normal
    approximation to the Poisson binomial distribution.
    """
    count, met, predicted, variance = rated
    return count >= CALIBRATED_FROM and abs(met - predicted) <= 1.96 * sqrt(variance)


def _normalized(weights: Sequence[float]) -> list[float]:
    total = sum(weights)
    return [weight / total for weight in weights]


PRIOR = tuple(_normalized([hypothesis.prior for hypothesis in HYPOTHESES]))
"""The weight of each hypothesis while nothing is learnt."""


def _first_rates(moments: tuple[float, float, float] | None) -> tuple[float, Sequence[Rates]]:
    """Return the usual score of first drafts, and their rates under each hypothesis."""
    count, total, squares = moments or (0, 0, 0)
    if count < ENOUGH:
        return USUAL, UNKNOWN_FIRST
    mean = total / count
    spread = squares / count - mean * mean
    own = {noise: (max(LEAST_VARIANCE, spread - noise**2), noise**2) for noise in NOISES}
    return mean, [(0.0, mean, *own[hypothesis.noise]) for hypothesis in HYPOTHESES]


Belief = tuple[float, float, float]
"""The mean and the variance of a quality, and the variance of its difference from the parent's."""
UNIFORM = sqrt(2 * pi)
"""The density of a stray score in units of that of a standard normal at 0."""


Updated = tuple[list[float], list[Belief], list[Belief], float]


def _updated(
    weights: Sequence[float],
    bases: Sequence[Belief],
    rates: Sequence[Rates],
    score: float,
    less: float,
    stray: float,
) -> Updated:
    """Return how well a score fits, and what is believed of its draft and now of its parent.

    They are those of each hypothesis, as are `bases`, what was believed of the parent, and `rates`.
    `less` is the share of the noise that it has; with a probability of `stray` it says nothing, and
    the two normal distributions after it are taken as one of their mean and variance. The last
    value is the error of the prediction, squared and divided by its variance (normalized innovation
    squared, Bar-Shalom and Li 1993).
    """
    fits, drafts, parents = [0.0] * len(bases), [*bases], [*bases]
    predicted = square = 0.0
    for number, (kept, rise, spread, noise) in enumerate(rates):
        weight, (mean, variance, apart) = weights[number], bases[number]
        expected = kept * mean + rise
        common = kept * variance
        variation = kept * common + spread
        total = variation + less * noise
        predicted += weight * expected
        square += weight * (total + expected * expected)
        error = score - expected
        said = (1 - stray) * exp(-0.5 * error * error / total) / total**0.5
        fit = said + stray * UNIFORM
        sound = said / fit
        gain, back, moved = variation / total, common / total, sound * error
        learnt = sound * total - (1 - sound) * moved * error
        between = variation + variance - 2 * common - learnt * (gain - back) ** 2
        fits[number] = fit
        drafts[number] = (expected + gain * moved, variation - learnt * gain * gain, between)
        parents[number] = (mean + back * moved, variance - learnt * back * back, apart)
    return fits, drafts, parents, (score - predicted) ** 2 / (square - predicted * predicted)


class QualityFilter:
    """What the scores of one search say about its drafts, which are named by their paths.

    `learnt` is what ended refinements of the same kind taught. A draft costs about 0.03 ms.
    """

    def __init__(self, learnt: Learnt | None = None) -> None:
        self._learnt = learnt
        is_known = learnt is not None and learnt.is_own and is_readable(learnt)
        known = learnt.refinements if learnt and is_known else 0.0
        count, met = learnt.predicted if learnt and is_known else (0.0, 0.0)
        self._bore_out = count >= PREDICTIONS and met >= PREDICTED * count
        self._is_known = known >= CALIBRATED_FROM
        self._rated = learnt.rated if learnt and is_known else NONE_RATED
        self._trust = learnt.trust if learnt else TRUST
        self._usual, self._first = _first_rates(
            learnt.first_drafts if learnt and is_known else None
        )
        history = weights_of(learnt)
        self._history = history
        """What ended refinements say alone; it is right with a probability of `HISTORY`."""
        self._prior = [
            HISTORY * said + (1 - HISTORY) * built_in
            for said, built_in in zip(history, PRIOR, strict=True)
        ]
        self._predicted = (0.0, 0.0)
        self._weights: Sequence[float] = self._prior
        self._live: Sequence[int] = range(len(HYPOTHESES))
        self._evidence = [0.0] * len(HYPOTHESES)
        self._revisions: Sequence[Rates] = REVISIONS
        self._beliefs: dict[str, Sequence[Belief]] = {}
        self._scores: dict[str, float] = {}
        self._first_drafts: tuple[float, ...] = ()
        self._drop_negligible()

    def anew(self) -> "QualityFilter":
        """Return one without drafts that has learnt the same."""
        return QualityFilter(self._learnt)

    def copy(self) -> "QualityFilter":
        """Return one that knows the same and changes independently."""
        other = copy(self)
        other._evidence = [*self._evidence]
        other._beliefs, other._scores = dict(self._beliefs), dict(self._scores)
        return other

    def knows(self, path: str) -> bool:
        """Return whether a draft with a score was added under this path."""
        return path in self._beliefs

    @property
    def has_scores(self) -> bool:
        """Return whether the score of any draft was added."""
        return bool(self._beliefs)

    @property
    def is_calibrated(self) -> bool:
        """Whether enough was learnt for an estimate, and its predictions bore out.

        The predictions of the kind did, and those of the scores of this refinement at least as well
        as without what was learnt.
        """
        if not self._is_known or not self._bore_out:
            return False
        return self._history_fit() >= AS_WELL

    def _history_fit(self) -> float:
        """Return how much likelier the scores are by what was learnt than without it."""
        said = built_in = 0.0
        for number, weight in zip(self._live, self._weights, strict=True):
            likelihood = weight / self._prior[number]
            said += self._history[number] * likelihood
            built_in += PRIOR[number] * likelihood
        return said / built_in

    def add(
        self,
        path: str,
        score: float,
        parent: str = "",
        *,
        times: int = 1,
        is_certain: bool = False,
    ) -> None:
        """Take in the score of a new draft; `parent` is the draft that it was made of, if any.

        A score may be the mean of several `times`. One that `is_certain` has no noise and says
        nothing about the critic.
        """
        less = 0.0 if is_certain else STAYS + (1 - STAYS) / times
        stray = 0.0 if is_certain else STRAY
        base = self._beliefs.get(parent)
        rates, bases = self._revisions, base
        if bases is None:
            self._first_drafts = (*self._first_drafts, score)
            rates, bases = self._first, NO_PARENT[: len(self._live)]
        weights = self._weights
        fits, drafts, parents, surprise = _updated(weights, bases, rates, score, less, stray)
        self._scores[path], self._beliefs[path] = score, drafts
        if base is not None:
            self._beliefs[parent] = parents
        if not is_certain:
            weights = [weight * fit for weight, fit in zip(weights, fits, strict=True)]
            if base is not None:
                count, met = self._predicted
                self._predicted = (count + 1, met + (surprise <= SURE_SD * SURE_SD))
        self._weights = _normalized(weights)
        self._drop_negligible()

    def keeps(self, path: str, parent: str) -> bool:
        """Return whether a revision is kept: it is not clearly worse than its parent.

        Of the difference from what a revision adds on average only a share is believed. `trust` is
        a share of what scores differ by, and noise, for which the filter allows, makes it small as
        well: of what is left after the filter its square root is believed.
        """
        if self._scores[path] < self._scores[parent] - MOST_FALL:
            return False
        share = sqrt(self._trust)
        rise = square = 0.0
        for (kept, added, _, _), weight, (mean, _, apart), (base, _, _) in zip(
            self._revisions, self._weights, self._beliefs[path], self._beliefs[parent], strict=True
        ):
            expected = kept * base + added - base
            change = expected + share * (mean - base - expected)
            rise += weight * change
            square += weight * (apart + change * change)
        return rise >= -DOUBT * sqrt(max(0.0, square - rise * rise))

    def best_of(self, paths: Sequence[str], latest: str) -> str:
        """Return which of these drafts to return: `latest`, unless another one is clearly better.

        Only those count whose score is at most `WITHIN` below the highest.
        """
        least = max([self._scores[path] for path in paths]) - WITHIN
        worth = {path: self.of(path) for path in paths if self._scores[path] >= least}
        best = max(worth, key=worth.__getitem__)
        is_as_good = latest in worth and worth[latest] >= worth[best] - AS_GOOD
        return latest if is_as_good else best

    def of(self, path: str) -> float:
        """Return the expected quality of a draft."""
        pairs = zip(self._weights, self._beliefs[path], strict=True)
        return sum([weight * mean for weight, (mean, _, _) in pairs])

    def chance(self, path: str, threshold: float) -> float:
        """Return how probably a draft truly meets the threshold, reported or not."""
        return self._worth(path).chance_of(threshold)

    def estimate(self, path: str, threshold: float) -> QualityEstimate:
        """Return what a draft is probably worth.

        The estimate says how probably the draft meets the threshold if such predictions bore out.
        """
        found = self._worth(path)
        if not predictions_held(self._rated):
            return found
        return found.model_copy(update={"chance": found.chance_of(threshold)})

    def _worth(self, path: str) -> QualityEstimate:
        mean = self.of(path)
        variance = noise = 0.0
        for number, weight, (own, its_variance, _) in zip(
            self._live, self._weights, self._beliefs[path], strict=True
        ):
            variance += weight * (its_variance + (own - mean) ** 2)
            noise += weight * HYPOTHESES[number].noise
        value = mean - OVERSTATED - FADED * (mean - self._usual)
        error = sqrt(0.5 * variance + (LASTING + FROM_NOISE * noise) ** 2)
        return QualityEstimate.of(value, error)

    def lesson(self) -> Learnt:
        """Return what the scores add to what was learnt.

        Hypotheses that were dropped have the evidence they had then, and none since.
        """
        self._note_evidence(range(len(self._live)))
        scores = self._first_drafts
        return Learnt(
            bank=BANK,
            refinements=1,
            evidence=tuple(self._evidence),
            first_drafts=(len(scores), sum(scores), sum([score * score for score in scores])),
            predicted=self._predicted,
        )

    def _drop_negligible(self) -> None:
        least = NEGLIGIBLE * max(self._weights)
        if min(self._weights) >= least:
            return
        kept = [weight >= least for weight in self._weights]
        self._note_evidence([place for place, is_kept in enumerate(kept) if not is_kept])
        self._live = [*compress(self._live, kept)]
        self._first = [*compress(self._first, kept)]
        self._revisions = [*compress(self._revisions, kept)]
        self._weights = _normalized([*compress(self._weights, kept)])
        self._beliefs = {path: [*compress(belief, kept)] for path, belief in self._beliefs.items()}

    def _note_evidence(self, places: Iterable[int]) -> None:
        """Note how much likelier hypotheses have become than they were in the beginning."""
        for place in places:
            number, weight = self._live[place], self._weights[place]
            before = self._prior[number]
            is_likelier = weight and before and weight != before
            self._evidence[number] = round(log(weight / before), 6) if is_likelier else 0.0


SAME_SCORE = 1e-6
NOISY = ("critique", "review")
"""What a score is from that a critic gave, or a person in the place of a critic."""


class Ranking:
    """Ranks judged drafts; scores compare only within one rubric.

    Without `tolerance` and with `quality`, a draft with a critic's score is revised next, instead
    of the one that it was made of, unless it is probably worse. The best is the draft that is
    revised next unless another one is clearly better, whichever that is. Otherwise a draft has to
    score more, or less by at most `tolerance`.
    """

    def __init__(
        self, tolerance: float | None = None, quality: QualityFilter | None = None
    ) -> None:
        self.best: Judgement | None = None
        self.base: Judgement | None = None
        """The draft to revise next: of several that rank as the best, the latest. A chain may go on
        from a draft that is not the best: faults that mask each other are mended in turn."""
        self.quality = quality
        self._tolerance = tolerance
        self._top: Judgement | None = None
        """The highest rank so far, whichever is the best."""
        self._highest: Judgement | None = None
        """The highest score so far, of whatever kind."""
        self._judged: list[Judgement] = []
        self._beside: set[str] = set()
        self.prefers_latest = False
        """Whether the later one of two drafts of equal rank is the best."""
        self.has_joined = False
        """Whether a text that was worked on in parts was added: no one revision made it."""

    def add(
        self, judgement: Judgement, goal: float | None = None, *, is_beside: bool = False
    ) -> float:
        """Rank one more draft; return by how much it raised the highest rank.

        A draft that passes at `goal` is the best of its kind; a draft that `is_beside` others was
        made at the same time as they.
        """
        self._judged.append(judgement)
        if is_beside:
            self._beside.add(judgement.path)
        return self._placed(judgement, goal)

    def change(self, judgement: Judgement, rated: Judgement, goal: float | None = None) -> float:
        """Rank all drafts again, one with another score; return the gain of the last one."""
        self._judged = [rated if judged is judgement else judged for judged in self._judged]
        self.best = self.base = self._top = self._highest = None
        self.quality = self.quality and self.quality.anew()
        return [self._placed(judged, goal) for judged in self._judged][-1]

    def issues_of(self, path: str | None) -> IssueTracker:
        """Return the issues of the draft judged at `path`; none when there was none."""
        judged = self.judged_at(path)
        return NO_ISSUES if judged is None else judged.issues

    def revisions_of(self, path: str) -> tuple[Judgement, ...]:
        """Return the revisions of the draft judged at `path`, in the order of judging."""
        return tuple([judged for judged in self._judged if judged.scored.draft.parent == path])

    def is_stable(self, limits: Limits) -> bool:
        """Return whether the last draft is its parent again, or as good and nearly the same."""
        last = self._judged[-1]
        parent = self.judged_at(last.scored.draft.parent)
        return parent is not None and _stands_still(last, parent, limits)

    def oscillates(self, limits: Limits) -> bool:
        """Return whether the last draft is an earlier one again, or its parent's parent nearly.

        A text that came of the same parent before is another sample, and does not count.
        """
        last = self._judged[-1]
        parent = self.judged_at(last.scored.draft.parent)
        before = self.judged_at(parent.scored.draft.parent) if parent else None
        if before is not None and _stands_still(last, before, limits):
            return True
        return any(
            is_same_text(earlier.scored.draft.text, last.scored.draft.text)
            for earlier in self._judged[:-1]
            if parent is None or parent.path not in (earlier.path, earlier.scored.draft.parent)
        )

    def _placed(self, judgement: Judgement, goal: float | None) -> float:
        gain, top = self._gain(judgement), self._top
        if top is None or judgement.rank > top.rank:
            self._top = judgement
        self._note_highest(judgement)
        parent = self._measured(judgement)
        is_compared = self.quality and (self.base is None or self.quality.knows(self.base.path))
        if parent is not None and self._tolerance is None and is_compared:
            if self._replaces_base(judgement, parent, goal):
                self.base = judgement
            self.best = self._best_of_all(goal)
        elif top is None or judgement.rank > top.rank:
            self.best = self.base = judgement
        elif self._is_tolerable(judgement, top):
            self.base = judgement
            if not self._gives_up(judgement, goal):
                self.best = judgement
        elif judgement.rank == top.rank:
            self.base = judgement
            if self.prefers_latest:
                self.best = judgement
        return gain

    def prefer_passing(self, goal: float) -> None:
        """Make a draft that passes the best, at a goal that has changed since it was ranked."""
        best = self.best
        if best is None or self.quality is None or best.scored.passes(goal):
            return
        alike = [judged for judged in self._judged if judged.kind == best.kind]
        passing = [judged for judged in alike if judged.scored.passes(goal)]
        if passing:
            self.best = self.base = max(passing, key=lambda judged: judged.rank)

    def highest_above(self, best: Judgement) -> Judgement | None:
        """Return the draft that scores most, of whatever kind, if that is more than the best."""
        highest = self._highest
        return highest if highest is not None and scores_more(highest, best) else None

    def chance(self, scored: Scored, goal: float, *, is_beside: bool) -> float:
        """Return how probably a draft that was not added truly reaches the goal."""
        if self.quality is None or scored.score is None or scored.score_from != "critique":
            return 1.0
        trial = self.quality.copy()
        trial.add("", scored.score, self._origin(scored, is_beside=is_beside), times=scored.times)
        return trial.chance("", goal)

    def chance_of(self, judgement: Judgement, goal: float) -> float:
        """Return how probably a draft truly reaches the goal; 1 if its score has no noise."""
        is_said = judgement.scored.score_from == "critique"
        if self.quality is None or not is_said or not self.quality.knows(judgement.path):
            return 1.0
        return self.quality.chance(judgement.path, goal)

    def estimate(self, judgement: Judgement, goal: float) -> QualityEstimate | None:
        """Return what a draft is probably worth; None unless enough is known to be calibrated."""
        quality = self.quality
        if quality is None or not quality.is_calibrated or not quality.knows(judgement.path):
            return None
        if self.has_joined:
            return None
        is_said = judgement.scored.score_from == "critique"
        return quality.estimate(judgement.path, goal) if is_said else None

    def lesson(self) -> Learnt | None:
        """Return what the scores teach; None if they have no noise or there are none."""
        if self.quality is None or not self.quality.has_scores or self.has_joined:
            return None
        return self.quality.lesson()

    def _note_highest(self, judgement: Judgement) -> None:
        score, before = judgement.scored.score, self._highest
        most = None if before is None else before.scored.score
        if score is not None and (most is None or score > most):
            self._highest = judgement

    def _measured(self, judgement: Judgement) -> str | None:
        """Take in the score of a draft; return the path of what it was made of, "" for nothing.

        None if the score is none of a noisy critic.
        """
        scored = judgement.scored
        if self.quality is None or scored.score is None or scored.score_from not in NOISY:
            return None
        parent = self._origin(scored, is_beside=judgement.path in self._beside)
        is_certain = scored.score_from == "review"
        self.quality.add(
            judgement.path, scored.score, parent, times=scored.times, is_certain=is_certain
        )
        return parent

    def _origin(self, scored: Scored, *, is_beside: bool) -> str:
        """Return the path of what a draft was made of; "" for nothing.

        A text that was worked on in parts was made of the base.
        """
        parent = scored.draft.parent
        if parent is None and self.base is not None and not is_beside:
            return self.base.path
        return parent or ""

    def _replaces_base(self, judgement: Judgement, parent: str, goal: float | None) -> bool:
        """Return whether a measured draft is of a better kind than the base, or no worse."""
        base, quality = self.base, self.quality
        if base is None or quality is None or judgement.kind != base.kind:
            return base is None or judgement.kind > base.kind
        if goal is not None and judgement.scored.passes(goal) > base.scored.passes(goal):
            return True
        if parent == base.path:
            return quality.keeps(judgement.path, parent)
        return quality.of(judgement.path) > quality.of(base.path)

    def _best_of_all(self, goal: float | None) -> Judgement:
        """Return the base, unless another draft of its kind passes or is clearly better."""
        base, quality = self.base, self.quality
        assert base is not None
        assert quality is not None
        alike = {
            judged.path: judged
            for judged in self._judged
            if judged.kind == base.kind and quality.knows(judged.path)
        }
        passing = [
            path
            for path, judged in alike.items()
            if goal is not None and judged.scored.passes(goal)
        ]
        return alike[quality.best_of(passing or [*alike], base.path)]

    def _is_tolerable(self, judgement: Judgement, top: Judgement) -> bool:
        """Return whether a revision may replace the best although it scores less."""
        if not self._tolerance or judgement.scored.draft.parent is None:
            return False
        *kind, score = judgement.rank
        *top_kind, top_score = top.rank
        return kind == top_kind and score >= top_score - self._tolerance

    def _gives_up(self, judgement: Judgement, goal: float | None) -> bool:
        """Return whether the best draft passes at the goal and this one does not."""
        if goal is None or self.best is None or judgement.scored.passes(goal):
            return False
        return self.best.scored.passes(goal)

    def _gain(self, judgement: Judgement) -> float:
        """Return by how much a draft raises the highest rank; a better kind counts as 1."""
        if self._top is None:
            return 1.0
        *kind, score = judgement.rank
        *top_kind, top_score = self._top.rank
        return score - top_score if kind == top_kind else float(kind > top_kind)

    def judged_at(self, path: str | None) -> Judgement | None:
        """Return the draft that was judged at `path`; None if there is none."""
        for judged in self._judged:
            if judged.path == path:
                return judged
        return None


def _stands_still(last: Judgement, earlier: Judgement, limits: Limits) -> bool:
    """Return whether a draft is an earlier one again, or as good and nearly the same."""
    one, other = earlier.scored.draft.text, last.scored.draft.text
    if last.kind <= earlier.kind and is_same_text(one, other):
        return True
    if _is_progress(last, earlier, limits.min_improvement):
        return False
    return likeness(one, other) >= limits.max_similarity


def _is_progress(last: Judgement, earlier: Judgement, least: float) -> bool:
    """Return whether a draft has fewer errors, a higher score, or lacks an issue of an earlier one.

    The same text has other scores and issues whenever a noisy critic judges it again.
    """
    if last.kind != earlier.kind:
        return last.kind > earlier.kind
    if is_improvement(last.rank[-1] - earlier.rank[-1], least):
        return True
    remaining = {issue.id for issue in last.issues.open}
    return any(issue.id not in remaining for issue in earlier.issues.open)


def scores_more(one: Judgement, other: Judgement) -> bool:
    """Return whether one of two drafts has a higher score; one without a score has none."""
    score, least = one.scored.score, other.scored.score
    return score is not None and least is not None and score > least + SAME_SCORE


def is_improvement(gain: float, least: float) -> bool:
    """Return whether a score is higher, and by at least `least`; floats are rounded."""
    return gain > SAME_SCORE and gain >= least - SAME_SCORE
