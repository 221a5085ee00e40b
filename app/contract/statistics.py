"""What the drafts of a refinement added, and sums over ended refinements.

A draft is compared with the one that it came of: its parent; for one of several independent drafts
the first one of its search; for a text joined from parts the best draft of the whole before it.
Scores compare only if they are of one kind and on the same criteria. A difference of two scores is
not yet a difference in quality: critics do not give a text the same score twice.

The sums say what refinements consumed, what was worth it, and what scores have taught.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from enum import StrEnum
from itertools import islice
from math import sqrt
from typing import NamedTuple, Self

from pydantic import ConfigDict, Field

from app.contract import Contract
from app.contract.events import IterationCompleted, StepCompleted, StepFailed
from app.contract.judgement import Score, Usage
from app.contract.snapshot import Result
from app.contract.status import TEXT_MISSING, RefinementOutcome
from app.contract.values import value

WRITERS = ("draft", "revise")
"""Steps whose reply is the draft of their iteration."""

MEASURED = ("critique", "validators")
"""Sources of scores that measure the quality of one text."""

PARTS = ("passes", "stages", "parts")
"""Where the texts that a whole is joined from are made."""

LOST = frozenset({"stage_given_up", TEXT_MISSING})
"""Codes of the caveats about texts that are not in the result."""

_STEP = re.compile(r"(?P<path>(?:.*/)?iterations/\d+)/(?P<kind>[^/]*)")

NOTHING = Usage()

PaidStep = StepCompleted | StepFailed


@value(slots=True)
class DraftGain:
    """What one draft changed compared with its `base`, and what its steps consumed.

    `criteria` are the changes of the criteria that both drafts have a score for; `writer` is None
    if no model wrote the draft itself.
    """

    path: str
    base: str
    step: str
    """How it was made, after the place: `revision`, `edits`, `sample`, `joined`, `reviewer`, or the
    way out of a standstill."""
    score: float
    change: float
    is_kept: bool
    """Whether the result was made from it; what other drafts cost brought nothing."""
    criteria: Mapping[str, float]
    writer: str | None
    critics: tuple[str, ...]
    usage: Usage
    parts: Usage = NOTHING
    """What the parts consumed that it was joined from."""

    @property
    def gain(self) -> float:
        """The change of the score if the draft was kept, else 0."""
        return self.change if self.is_kept else 0.0

    @property
    def search(self) -> str:
        """The path of its search; empty for the outermost one."""
        return search_of(self.path)


@value(slots=True)
class Gains:
    """The gains of a refinement, in the order in which its drafts were judged.

    `start` is the draft that the line of the kept ones begins with, None if that is a text joined
    from parts; `final` is the one that it ends with, None if nothing was judged.
    """

    drafts: tuple[DraftGain, ...]
    start: IterationCompleted | None = None
    final: IterationCompleted | None = None
    is_written: bool = False
    """Whether a model wrote any draft."""

    @property
    def change(self) -> float | None:
        """The final score minus the first one; None if they do not compare."""
        if not self.is_written or self.start is None or self.final is None:
            return None
        return _change(self.start, self.final)


def search_of(path: str) -> str:
    """Return the path of the search of an iteration; the outermost has an empty one."""
    return path.rpartition("iterations/")[0].rstrip("/")


def lost_from(result: Result | None) -> frozenset[str]:
    """Return the paths of searches whose texts are not in the result: missing, or given up."""
    if result is None:
        return frozenset()
    return frozenset(caveat.path for caveat in result.caveats if caveat.code in LOST)


def iteration_of(key: str) -> str | None:
    """Return the path of the iteration that a step belongs to, if it belongs to one."""
    found = _STEP.match(key)
    return found["path"] if found else None


def gains_of(
    judged: Sequence[IterationCompleted],
    paid: Sequence[PaidStep],
    result: str | None,
    missing: Collection[str] = frozenset(),
) -> Gains:
    """Return what the drafts of a refinement added; `result` is the path of the one returned.

    `judged` are the judgements that stand, `paid` all steps, those voided by a retry included.
    Parts that are `missing` from the result brought nothing.
    """
    return _Lineage(judged, paid).gains(result, missing)


def score_gain(stage: str, judged: Sequence[IterationCompleted], paid: Sequence[PaidStep]) -> float:
    """Return the score that the search of a stage reached, minus that of a text it was given.

    `stage` is its path, empty for the whole. 0 if it is lower, or if nothing was judged.
    """
    scored = [
        entry for entry in judged if search_of(entry.path) == stage and entry.score is not None
    ]
    if not scored:
        return 0.0
    best, (first, *_) = scored[-1].best, scored
    steps = [found for step in paid if (found := _STEP.match(step.key))]
    is_written = any(step["path"] == first.path and step["kind"] in WRITERS for step in steps)
    start = 0.0 if is_written or first.score is None else first.score
    return max(0.0, (best.score or 0.0) - start)


class _Lineage:
    """Which draft came of which, who wrote and judged it, and what that cost."""

    def __init__(self, judged: Sequence[IterationCompleted], paid: Sequence[PaidStep]) -> None:
        self._drafts: dict[str, IterationCompleted] = {}
        self._best: dict[str, str] = {}
        self._bases: dict[str, str | None] = {}
        self._usage: dict[str, Usage] = {}
        self._models: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        self._writing: set[str] = set()
        self._paid = paid
        for step in paid:
            self._count(step)
        for entry in judged:
            self._add(entry)

    def gains(self, result: str | None, missing: Collection[str]) -> Gains:
        finals = self._finals(result, missing)
        kept = {path for final in finals for path in self._line(final)}
        drafts = tuple(self._gains(kept))
        final = result or self._best.get("")
        if final not in self._drafts:
            return Gains(drafts)
        *_, first = self._line(final)
        start = self._drafts[first]
        return Gains(
            drafts,
            None if self._is_joined(start) else start,
            self._drafts[final],
            bool(self._writing),
        )

    def _count(self, step: PaidStep) -> None:
        found = _STEP.match(step.key)
        if found is None:
            return
        path, kind = found["path"], found["kind"]
        before = self._usage.get(path)
        self._usage[path] = step.usage if before is None else before + step.usage
        if kind in WRITERS:
            self._writing.add(path)
        if isinstance(step, StepCompleted) and step.model:
            self._models[path, kind][step.model] = None

    def _add(self, entry: IterationCompleted) -> None:
        search = search_of(entry.path)
        if entry.path not in self._drafts:  # later, with a reviewer's score
            base = self._base(entry, search)
            # Only an earlier draft: a line of drafts has an end, whatever a journal says.
            self._bases[entry.path] = base if base in self._drafts else None
            self._drafts[entry.path] = entry
        self._best[search] = entry.best.path

    def _base(self, entry: IterationCompleted, search: str) -> str | None:
        if entry.parent is not None or search not in self._best:
            return entry.parent
        if self._is_joined(entry):
            return self._best[search]
        return next(path for path in self._drafts if search_of(path) == search)

    def _is_joined(self, entry: IterationCompleted) -> bool:
        """Return whether it was neither written by a model or reviewer nor given to its search."""
        is_made = entry.path not in self._writing and entry.iteration > 0
        return is_made and entry.parent is None

    def _finals(self, result: str | None, missing: Collection[str]) -> Iterator[str]:
        """Yield the draft that every search ended with, as far as it is part of the result.

        The outermost search and a reviewer's rounds after it make one line.
        """
        is_of_whole = result is not None and is_whole(search_of(result))
        for search, best in self._best.items():
            if result is not None and search == search_of(result):
                yield result
            elif not (is_of_whole and is_whole(search)) and self._is_used(best, result, missing):
                yield best

    def _is_used(self, best: str, result: str | None, missing: Collection[str]) -> bool:
        """Return whether the result has the text of an inner search, also if it was given up."""
        final, draft = self._drafts.get(result or ""), self._drafts.get(best)
        is_same = final is not None and draft is not None and final.sha256 == draft.sha256
        return is_same or search_of(best) not in missing

    def _line(self, path: str) -> Iterator[str]:
        """Yield a draft, the one that it came of, and so on."""
        at: str | None = path
        while at is not None and at in self._drafts:
            yield at
            at = self._bases[at]

    def _gains(self, kept: Collection[str]) -> Iterator[DraftGain]:
        """Yield the gain of every draft that compares with its base."""
        for path, entry in self._drafts.items():
            base = self._drafts.get(self._bases[path] or "")
            change = None if base is None else _change(base, entry)
            if base is not None and change is not None:
                yield self._gain(entry, base, change, is_kept=path in kept)

    def _gain(
        self, entry: IterationCompleted, base: IterationCompleted, change: float, *, is_kept: bool
    ) -> DraftGain:
        assert entry.score is not None  # it was compared
        writers = [writer for kind in WRITERS for writer in self._models[entry.path, kind]]
        return DraftGain(
            path=entry.path,
            base=base.path,
            step=self._step(entry),
            score=entry.score,
            change=change,
            is_kept=is_kept,
            criteria=_criteria(base, entry),
            writer=writers[-1] if writers else None,
            critics=tuple(self._models[entry.path, "critique"]),
            usage=self._usage.get(entry.path, NOTHING),
            parts=self._of_parts(entry),
        )

    def _step(self, entry: IterationCompleted) -> str:
        made = "sample" if entry.parent is None else "edits" if entry.edits else "revision"
        if entry.escape is not None:
            made = entry.escape
        elif entry.path not in self._writing:
            made = "joined" if entry.parent is None else "reviewer"
        kind, _, name = search_of(entry.path).rpartition("/")
        place = kind.rpartition("/")[2]
        if place == "passes":  # their names are ours
            place = f"{place}/{name}"
        return f"{place}/{made}" if place else made

    def _of_parts(self, entry: IterationCompleted) -> Usage:
        """Return the usage of the parts that a text was joined from."""
        if not self._is_joined(entry):
            return NOTHING
        search = search_of(entry.path)
        below = f"{search}/" if search else ""
        inside = tuple(f"{below}{part}/" for part in PARTS)
        return sum((step.usage for step in self._paid if step.key.startswith(inside)), Usage())


def is_whole(search: str) -> bool:
    """Return whether a search is the outermost one, or a reviewer's round after it."""
    return search == "" or search.startswith("reviews/")


def _change(base: IterationCompleted, entry: IterationCompleted) -> float | None:
    """Return the difference of two scores; None if they do not compare."""
    if entry.score is None or base.score is None or entry.score_from not in MEASURED:
        return None
    if entry.score_from != base.score_from:
        return None
    if [score.criterion for score in entry.scores] != [score.criterion for score in base.scores]:
        return None
    return round(entry.score - base.score, 9)


def _criteria(base: IterationCompleted, entry: IterationCompleted) -> dict[str, float]:
    before = {score.criterion: score.score for score in base.scores}
    return {
        score.criterion: round(score.score - known, 9)
        for score in entry.scores
        if score.score is not None and (known := before[score.criterion]) is not None
    }


NANO = 1_000_000_000
"""Costs are added up in whole billionths of a dollar, so that sums do not depend on the order."""

UNKNOWN_MODEL = "unknown"
"""Stands for a model that the journal does not name: of a failed step."""

OTHER = "other"
"""Stands for the keys and models of a day for which there was no room any more."""


class ModelUse(NamedTuple):
    """What calls have consumed; `unpriced_calls` are those whose cost is unknown."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    nano_usd: int = 0
    unpriced_calls: int = 0

    def plus(self, other: Sequence[int]) -> Self:
        """Add another use, by name."""
        return type(self)(*[a + b for a, b in zip(self, other, strict=True)])

    @classmethod
    def of(cls, usage: Usage) -> Self:
        """Return what the usage of one step counts for."""
        cost_usd = usage.cost_usd
        return cls(
            usage.calls,
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            round((cost_usd or 0) * NANO),
            usage.calls if cost_usd is None else 0,
        )


NO_USE = ModelUse()


class UsageGrouping(StrEnum):
    """What usage is added up by."""

    DAY = "day"
    TENANT = "tenant"
    KEY = "key"
    MODEL = "model"
    STRATEGY = "strategy"
    OUTCOME = "outcome"


class UsageCell(NamedTuple):
    """What the endings of one day have in common that are added up in the store.

    `model` is empty for the refinements themselves, which are counted whatever they called.
    """

    day: date
    tenant: str
    key: str
    model: str
    strategy: str
    outcome: str
    """That of the refinement, or `erased`: deleted while it ran."""


class UsageSums(Contract):
    """What was consumed."""

    refinements: int = Field(
        description="Endings of refinements: one that ended again after a retry counts twice, the"
        " second time with what it has consumed since. By model, those that called it."
    )
    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int = Field(description="Input tokens that a provider read from its cache.")
    cost_usd: float | None = Field(
        description="Dollars of the calls whose cost is known; null if there are calls, and that of"
        " none is known."
    )
    unpriced_calls: int = Field(description="Calls whose cost is unknown.")

    @classmethod
    def of(cls, refinements: int, use: ModelUse) -> Self:
        """Return the sums of a number of endings."""
        counted = use._asdict()
        cost_usd = counted.pop("nano_usd") / NANO
        is_unknown = use.calls > 0 and use.calls == use.unpriced_calls
        return cls(refinements=refinements, cost_usd=None if is_unknown else cost_usd, **counted)


class UsageTotal(UsageSums):
    """What was consumed, and which part of it by refinements that did not pass."""

    not_passed: UsageSums = Field(
        description="Of this, by refinements that missed a threshold, a floor or a validator, that"
        " failed, that were canceled, or that were erased before they ended."
    )


class UsageRow(UsageTotal):
    """The sums of one group."""

    group: dict[UsageGrouping, str | None] = Field(
        description="The value of each grouping; null for a key if there was none."
    )


class UsageReport(Contract):
    """What was consumed in some days, group by group."""

    model_config = ConfigDict(serialize_by_alias=True)

    from_: date = Field(alias="from", description="First day that counts, in UTC.")
    to: date = Field(description="Last day that counts, in UTC.")
    as_of: datetime = Field(
        description="Endings before this time are counted; later ones may follow. It is at most a"
        " few seconds ago while a worker runs."
    )
    data: tuple[UsageRow, ...] = Field(description="Groups, in the order of their values.")
    total: UsageTotal


class _Sums:
    """Endings and uses, of all refinements and of those that did not pass."""

    def __init__(self) -> None:
        self.refinements = [0, 0]
        self.use = [NO_USE, NO_USE]

    def add(self, outcome: str, refinements: int, use: ModelUse) -> None:
        for i in range(1 if outcome == RefinementOutcome.PASSED else 2):
            self.refinements[i] += refinements
            self.use[i] = self.use[i].plus(use)

    def shown(self) -> dict[str, object]:
        whole, part = map(UsageSums.of, self.refinements, self.use)
        return {**whole.model_dump(), "not_passed": part}


class UsageGroups:
    """Adds up cells by some groupings.

    A group of a model counts the refinements that called it; the cells that count refinements
    whatever they called belong to no model.
    """

    def __init__(self, by: Sequence[UsageGrouping]) -> None:
        self._by = by
        self._groups = defaultdict[tuple[str, ...], _Sums](_Sums)
        self._total = _Sums()

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, cells: Iterable[tuple[UsageCell, int, ModelUse]]) -> None:
        """Add cells, each with the number of endings."""
        is_by_model = UsageGrouping.MODEL in self._by
        for cell, endings, use in cells:
            is_of_model = bool(cell.model)
            self._total.add(cell.outcome, 0 if is_of_model else endings, use)
            if is_of_model or not is_by_model:
                values = tuple(str(getattr(cell, grouping)) for grouping in self._by)
                counted = endings if is_of_model == is_by_model else 0
                self._groups[values].add(cell.outcome, counted, use)

    def rows(self) -> tuple[UsageRow, ...]:
        """Return the sums of each group, in the order of their values."""
        return tuple(
            UsageRow.model_validate({"group": self._named(values)} | self._groups[values].shown())
            for values in sorted(self._groups)
        )

    def _named(self, values: Sequence[str]) -> dict[UsageGrouping, str | None]:
        return {name: value or None for name, value in zip(self._by, values, strict=True)}

    def total(self) -> UsageTotal:
        """Return the sums of all cells."""
        return UsageTotal.model_validate(self._total.shown())


LONGEST_VALUE = 100
"""Characters of a model's or a criterion's name that are kept."""

KEPT_DAYS = 90
"""For how many days sums are kept, today included."""


class Dimension(StrEnum):
    """What cases are grouped by."""

    STRATEGY = "strategy"
    MODEL = "model"
    CRITIC = "critic"
    CRITERION = "criterion"
    STEP = "step"


class Sums(NamedTuple):
    """Sums over cases, added up per day: a mean and its error can be computed from them.

    Cases of one refinement depend on each other, so the second moments are those of its totals.
    `change` is how much the scores changed, `gain` the same with 0 for drafts that were not kept.
    """

    refinements: float = 0
    cases: float = 0
    cases_squared: float = 0
    change: float = 0
    change_squared: float = 0
    change_by_cases: float = 0
    gain: float = 0
    gain_squared: float = 0
    gain_by_cases: float = 0
    kept: float = 0
    calls: float = 0
    tokens: float = 0
    seconds: float = 0
    priced: float = 0
    """Cases whose cost is known."""
    cost_usd: float = 0

    def __add__(self, other: Sequence[float]) -> Self:  # type: ignore[override]
        """Add other sums, by name."""
        return type(self)(*(a + b for a, b in zip(self, other, strict=True)))


Key = tuple[Dimension, str]


@value(slots=True)
class _Case:
    change: float
    is_kept: bool
    usage: Usage


def insights_of(
    gains: Gains, strategy: str, usage: Usage, named: Collection[str]
) -> Mapping[Key, Sums]:
    """Return what one ended refinement adds to the sums of its tenant.

    A case is a draft that compares with the one it came of; by strategy it is the whole refinement,
    whose `usage` is its cost. Criteria count only if the request has `named` them: the names that a
    critic lists say what the text is about, and sums outlive an erased refinement.
    """
    cases: defaultdict[Key, list[_Case]] = defaultdict(list)
    if (change := gains.change) is not None:
        is_kept = gains.start is not gains.final
        cases[Dimension.STRATEGY, strategy].append(_Case(change, is_kept, usage))
    for draft in gains.drafts:
        spent = draft.usage if draft.parts is NOTHING else draft.usage + draft.parts
        case = _Case(draft.change, draft.is_kept, spent)
        cases[Dimension.STEP, draft.step[:LONGEST_VALUE]].append(case)
        if draft.writer is not None:
            cases[Dimension.MODEL, draft.writer[:LONGEST_VALUE]].append(case)
        for critic in draft.critics:
            cases[Dimension.CRITIC, critic[:LONGEST_VALUE]].append(case)
        for criterion, change in draft.criteria.items():
            if criterion in named:
                of_criterion = _Case(change, draft.is_kept, spent)
                cases[Dimension.CRITERION, criterion[:LONGEST_VALUE]].append(of_criterion)
    return {key: _sums(of) for key, of in cases.items()}


def _sums(cases: Sequence[_Case]) -> Sums:
    count = len(cases)
    change = gain = seconds = cost_usd = 0.0
    kept = calls = tokens = priced = 0
    for case in cases:
        used = case.usage
        change += case.change
        if case.is_kept:
            kept, gain = kept + 1, gain + case.change
        calls += used.calls
        tokens += used.input_tokens + used.output_tokens
        seconds += used.seconds
        if used.cost_usd is not None:
            priced, cost_usd = priced + 1, cost_usd + used.cost_usd
    return Sums(
        refinements=1,
        cases=count,
        cases_squared=count**2,
        change=change,
        change_squared=change**2,
        change_by_cases=change * count,
        gain=gain,
        gain_squared=gain**2,
        gain_by_cases=gain * count,
        kept=kept,
        calls=calls,
        tokens=tokens,
        seconds=seconds,
        priced=priced,
        cost_usd=cost_usd,
    )


class MeanGain(Contract):
    """A mean with its confidence interval, of 95 % unless a `confidence` is beside it.

    The interval is null where it is unknown: with fewer than two refinements, or without a spread.
    """

    mean: float
    low: float | None
    high: float | None


class MeanUsage(Contract):
    """What a case consumed on average; `cost_usd` is null if no case has a known cost."""

    calls: float
    tokens: float
    cost_usd: float | None
    seconds: float


class Insight(Contract):
    """What the cases with one value have brought, and cost."""

    by: Dimension
    value: str = Field(
        description="Strategy, model, criterion or kind of step; a model that writes is in `model`,"
        " one that judges in `critic`."
    )
    refinements: int = Field(ge=1, description="Refinements with such a case.")
    cases: int = Field(
        ge=1,
        description="Drafts compared with the one that they came of; by strategy, refinements.",
    )
    gain: MeanGain = Field(
        description="What a case added to the score of the result: 0 if the draft was not kept."
    )
    change: MeanGain = Field(
        description="How much the score changed, whether the draft was kept or not. A `gain`"
        " without a `change` is the selection of lucky scores."
    )
    kept: float = Field(ge=0, le=1, description="Share of cases whose draft was kept.")
    mean_usage: MeanUsage

    @classmethod
    def of(cls, by: Dimension, value: str, sums: Sums) -> Self:
        """Return what the sums of at least one case say."""
        cases, priced = sums.cases, sums.priced
        return cls(
            by=by,
            value=value,
            refinements=round(sums.refinements),
            cases=round(cases),
            gain=_mean(sums, sums.gain, sums.gain_squared, sums.gain_by_cases),
            change=_mean(sums, sums.change, sums.change_squared, sums.change_by_cases),
            kept=round(sums.kept / cases, 4),
            mean_usage=MeanUsage(
                calls=round(sums.calls / cases, 3),
                tokens=round(sums.tokens / cases, 1),
                cost_usd=round(sums.cost_usd / priced, 9) if priced else None,
                seconds=round(sums.seconds / cases, 3),
            ),
        )


class InsightList(Contract):
    """Insights, grouping by grouping; in each those with the highest mean gain first."""

    since: date = Field(description="First day that counts, in UTC.")
    data: tuple[Insight, ...]


class ModelAchievement(Contract):
    """What a model has achieved where it was drawn, in refinements that succeeded or failed."""

    kind: str = Field(description="Hash of strategy, criteria and preset: what is compared.")
    seat: str = Field(description="What it was drawn for, such as `generator` or `critic`.")
    model: str
    ended: int
    passed: int
    mean_gain: float | None = Field(
        description="Mean score reached, minus the score of the client's draft if it had one."
    )
    mean_cost_usd: float | None = Field(description="Null if no cost is known.")


class ModelAchievementList(Contract):
    """What drawn models have achieved in 30 days, by kind and seat."""

    data: tuple[ModelAchievement, ...]


def ranked(sums: Mapping[Key, Sums], limit: int) -> tuple[Insight, ...]:
    """Return the insights of every dimension, at most `limit` of each, the highest gain first."""
    found = [Insight.of(by, value, total) for (by, value), total in sums.items()]
    found.sort(key=lambda insight: (-insight.gain.mean, -insight.cases, insight.value))
    return tuple(
        insight
        for dimension in Dimension
        for insight in islice(
            (candidate for candidate in found if candidate.by is dimension), limit
        )
    )


def _mean(sums: Sums, total: float, squared: float, by_cases: float) -> MeanGain:
    """Return the mean per case and its interval.

    The refinement is what was sampled, since its cases depend on each other: the mean is a ratio of
    totals, with the error of a ratio estimate (Cochran, Sampling Techniques, 1977, section 6.4).
    """
    count, cases = round(sums.refinements), sums.cases
    mean = total / cases
    if count < 2:
        return MeanGain(mean=round(mean, 4), low=None, high=None)
    spread = max(squared - 2 * mean * by_cases + mean**2 * sums.cases_squared, 0.0)
    error = t_95(count - 1) * sqrt(spread * count / (count - 1)) / cases
    return MeanGain(mean=round(mean, 4), low=round(mean - error, 4), high=round(mean + error, 4))


NORMAL_95 = 1.959963984540054
FEW = (12.7062, 4.3027, 3.1824, 2.7764)


def t_95(freedom: int) -> float:
    """Return the two-sided 95 % quantile of Student's t, for at least one degree of freedom.

    Correct to 0.0003 (Abramowitz and Stegun 26.7.5).
    """
    if freedom <= len(FEW):
        return FEW[freedom - 1]
    z = NORMAL_95
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return z + sum(term / float(freedom) ** power for power, term in enumerate(terms, 1))


class FirstDrafts(Contract):
    """The scores of drafts without a parent."""

    mean: Score
    sd: float | None = Field(ge=0, description="Standard deviation; null for less than two.")


class CalibratedKind(Contract):
    """What is known of a kind of refinements; null in a name stands for all."""

    generator: str | None
    critic: str = Field(description="Models of the critics, and how often each is asked.")
    strategy: str | None
    criteria: str | None = Field(
        description="Hash of the criteria: the same for the same names, descriptions and weights."
    )
    refinements: float = Field(
        ge=0, description="How many are known: the latest count as 1, older ones as less."
    )
    noise: float | None = Field(
        description="Expected standard deviation of a critic's score of one text; null if unknown."
    )
    gain: float | None = Field(
        description="Expected gain of a revision of a text of quality 0.5; null if unknown."
    )
    first_drafts: FirstDrafts | None
    trust: Score = Field(
        description="Share of an apparent change of quality that is believed; 0.5 at first."
    )
    pairs: float = Field(ge=0, description="Pairs of drafts that the trust was learnt from.")
    ratings: int = Field(ge=0, description="Ratings by people of drafts of this critic.")


class CalibrationList(Contract):
    """What was learnt, by kind: those that were added to last come first."""

    data: tuple[CalibratedKind, ...]


class Learnt(Contract):
    """Sums over refinements of one kind; a refinement adds its own at its end.

    Each addition first multiplies what is there by 0.99, so that about the latest 100 count.
    """

    bank: int = Field(ge=1, description="Version of the hypotheses; others' sums are not read.")
    refinements: float = Field(0, ge=0, description="How many refinements, decayed.")
    evidence: tuple[float, ...] = Field(
        (),
        description="Log-likelihood of the scores under each hypothesis, relative to what was"
        " expected before.",
    )
    is_own: bool = Field(
        True, description="Whether they are of its kind alone, not of all kinds with its models."
    )
    trust: float = Field(
        0.5,
        ge=0,
        le=1,
        description="Share of an apparent change of quality that is believed; no sum, never added.",
    )
    first_drafts: tuple[float, float, float] = Field(
        (0, 0, 0), description="Number, sum and sum of squares of the scores of first drafts."
    )
    predicted: tuple[float, float] = Field(
        (0, 0),
        description="Number of scores of revisions, and of those within two standard deviations of"
        " what was expected before.",
    )
    rated: tuple[float, float, float, float] = Field(
        (0, 0, 0, 0),
        description="Number of results that people scored, of those that met their threshold by"
        " that; and sums of the chances predicted, and of the variances of such an outcome.",
    )
