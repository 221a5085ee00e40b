"""What each draft of a refinement added to the score, and what it cost.

A draft is compared with the one that it came of: its parent; for one of several independent drafts
the first one of its search; for a text joined from parts the best draft of the whole before it.
Scores compare only if they are of one kind and on the same criteria. A difference of two scores is
not yet a difference in quality: critics do not give a text the same score twice.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from app.contract.events import IterationCompleted, StepCompleted, StepFailed
from app.contract.judgement import Usage
from app.contract.snapshot import Result
from app.contract.values import value

WRITERS = ("draft", "revise")
"""Steps whose reply is the draft of their iteration."""

MEASURED = ("critique", "validators")
"""Sources of scores that measure the quality of one text."""

PARTS = ("passes", "stages", "parts")
"""Where the texts that a whole is joined from are made."""

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
    given_up = (caveat.path for caveat in result.caveats if caveat.code == "stage_given_up")
    return frozenset((*result.missing, *given_up))


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
