"""Ranks the judged drafts of a search: which is the best, and which is revised next."""

from app.contract.calibration import Learnt
from app.contract.judgement import QualityEstimate
from app.contract.limits import Limits
from workers.engine.issue_tracker import NO_ISSUES, IssueTracker
from workers.engine.matching import is_same_text, likeness
from workers.engine.moves import (
    Judgement,
    Scored,
)
from workers.engine.quality_filter import QualityFilter

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
        self._judged: list[Judgement] = []
        self._beside: set[str] = set()
        self._has_joined = False
        """Whether a text that was worked on in parts was added: no one revision made it."""

    def add(
        self, judgement: Judgement, goal: float | None = None, *, is_beside: bool = False
    ) -> float:
        """Rank one more draft; return by how much it raised the highest rank.

        One that passes at `goal` is the best of its kind; one that `is_beside` others was made at
        the same time as they.
        """
        self._judged.append(judgement)
        if is_beside:
            self._beside.add(judgement.path)
        return self._placed(judgement, goal)

    def change(self, judgement: Judgement, rated: Judgement, goal: float | None = None) -> float:
        """Rank all drafts again, one with another score; return the gain of the last one."""
        self._judged = [rated if it is judgement else it for it in self._judged]
        self.best = self.base = self._top = None
        self.quality = self.quality and self.quality.anew()
        return [self._placed(it, goal) for it in self._judged][-1]

    def issues_of(self, path: str | None) -> IssueTracker:
        """Return the issues of the draft judged at `path`; none when there was none."""
        judged = self.judged_at(path)
        return NO_ISSUES if judged is None else judged.issues

    def revisions_of(self, path: str) -> tuple[Judgement, ...]:
        """Return the revisions of the draft judged at `path`, in the order of judging."""
        return tuple([it for it in self._judged if it.scored.draft.parent == path])

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
        return gain

    def prefer_passing(self, last: Judgement, goal: float) -> None:
        """Make the last draft the best if only it passes, at a goal that has changed since."""
        best = self.best
        if best is None or best.kind != last.kind or self.quality is None:
            return
        if last.scored.passes(goal) and not best.scored.passes(goal):
            self.best = self.base = last

    def highest_above(self, best: Judgement) -> Judgement | None:
        """Return the draft that scores most, of whatever kind, if that is more than the best."""
        known = [it for it in self._judged if it.scored.score is not None]
        top = max(known, key=lambda it: it.scored.score or 0.0, default=None)
        return top if top is not None and scores_more(top, best) else None

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
        if self._has_joined:
            return None
        is_said = judgement.scored.score_from == "critique"
        return quality.estimate(judgement.path, goal) if is_said else None

    def lesson(self) -> Learnt | None:
        """Return what the scores teach; None if they have no noise or there are none."""
        if self.quality is None or not self.quality.has_scores or self._has_joined:
            return None
        return self.quality.lesson()

    def _measured(self, judgement: Judgement) -> str | None:
        """Take in the score of a draft; return the path of what it was made of, "" for nothing.

        None if the score is none of a noisy critic.
        """
        scored = judgement.scored
        if self.quality is None or scored.score is None or scored.score_from not in NOISY:
            return None
        draft, is_beside = scored.draft, judgement.path in self._beside
        is_own = draft.is_reply or bool(draft.fixes) or draft.parent is not None
        self._has_joined |= judgement.iteration > 0 and not is_own and not is_beside
        parent = self._origin(scored, is_beside=is_beside)
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
            it.path: it for it in self._judged if it.kind == base.kind and quality.knows(it.path)
        }
        passing = [
            path for path, it in alike.items() if goal is not None and it.scored.passes(goal)
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
        for it in self._judged:
            if it.path == path:
                return it
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
