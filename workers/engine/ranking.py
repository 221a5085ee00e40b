"""Ranks the judged drafts of a search: which is the best, and which is revised next."""

from collections.abc import Sequence

from app.contract.judgement import QualityEstimate
from app.contract.learnt import Learnt
from workers.engine.issue_tracker import NO_ISSUES, IssueTracker
from workers.engine.matching import is_similar
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

    Without `tolerance` and with `quality`, a draft with a critic's score replaces the one that it
    was made of unless it is probably worse; otherwise it has to score more, or less by at most
    `tolerance`.
    """

    def __init__(
        self, tolerance: float | None = None, quality: QualityFilter | None = None
    ) -> None:
        self.best: Judgement | None = None
        self.base: Judgement | None = None
        """The draft to revise next: of several that rank as the best, the latest."""
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
        judged = self._judged_at(path)
        return NO_ISSUES if judged is None else judged.issues

    def revisions_of(self, path: str) -> tuple[Judgement, ...]:
        """Return the revisions of the draft judged at `path`, in the order of judging."""
        return tuple([it for it in self._judged if it.scored.draft.parent == path])

    def is_stable(self, max_similarity: float) -> bool:
        """Return whether the last draft is as similar to its parent as `max_similarity`.

        One with fewer errors is not: a few characters may be all that has to change.
        """
        last = self._judged[-1]
        parent = self._judged_at(last.scored.draft.parent)
        if parent is None or last.errors < parent.errors:
            return False
        return is_similar(parent.scored.draft.text, last.scored.draft.text, max_similarity)

    def oscillates(self, *, spares_samples: bool = True) -> bool:
        """Return whether the last draft was seen before, or the last scores are a, b, a, b.

        With `spares_samples` a text that came of the same parent before does not count. Equal
        scores of a noisy critic are chance.
        """
        last = self._judged[-1]
        parent = self._judged_at(last.scored.draft.parent)
        seen = {
            it.scored.draft.sha256
            for it in self._judged[:-1]
            if it is not parent
            and not (spares_samples and parent and it.scored.draft.parent == parent.path)
        }
        if last.scored.draft.sha256 in seen:
            return True
        is_exact = self.quality is None or last.scored.score_from not in NOISY
        return is_exact and _swing(self._judged[-4:])

    def _placed(self, judgement: Judgement, goal: float | None) -> float:
        gain, top = self._gain(judgement), self._top
        if top is None or judgement.rank > top.rank:
            self._top = judgement
        parent = self._measured(judgement)
        is_compared = self.quality and (self.best is None or self.quality.knows(self.best.path))
        if parent is not None and self._tolerance is None and is_compared:
            if self._replaces_best(judgement, parent, goal):
                self.best = self.base = judgement
        elif top is None or judgement.rank > top.rank or self._is_tolerable(judgement, top):
            self.best = self.base = judgement
        elif judgement.rank == top.rank:
            self.base = judgement
        return gain

    def is_tie(self, last: Judgement, gain: float) -> bool:
        """Return whether the last draft has the kind and the score of the highest rank."""
        top = self._top
        return top is not None and top.kind == last.kind and abs(gain) <= SAME_SCORE

    def prefer_passing(self, last: Judgement, goal: float) -> None:
        """Make the last draft the best if only it passes, at a goal that has changed since."""
        best = self.best
        if best is None or best.kind != last.kind or self.quality is None:
            return
        if last.scored.passes(goal) and not best.scored.passes(goal):
            self.best = self.base = last

    def chance(self, scored: Scored, goal: float, *, is_beside: bool) -> float:
        """Return how probably a draft that was not added truly reaches the goal."""
        if self.quality is None or scored.score is None or scored.score_from != "critique":
            return 1.0
        trial = self.quality.copy()
        trial.add("", scored.score, self._origin(scored, is_beside=is_beside), times=scored.times)
        return trial.estimate("", goal).chance

    def chance_of(self, judgement: Judgement, goal: float) -> float:
        """Return how probably a draft truly reaches the goal; 1 if its score has no noise."""
        is_said = judgement.scored.score_from == "critique"
        if self.quality is None or not is_said or not self.quality.knows(judgement.path):
            return 1.0
        return self.quality.estimate(judgement.path, goal).chance

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

        A text that was worked on in parts was made of the best.
        """
        parent = scored.draft.parent
        if parent is None and self.best is not None and not is_beside:
            return self.best.path
        return parent or ""

    def _replaces_best(self, judgement: Judgement, parent: str, goal: float | None) -> bool:
        """Return whether a measured draft is of a better kind than the best, or no worse."""
        best, quality = self.best, self.quality
        if best is None or quality is None or judgement.kind != best.kind:
            return best is None or judgement.kind > best.kind
        if goal is not None and judgement.scored.passes(goal) > best.scored.passes(goal):
            return True
        if parent == best.path:
            return quality.keeps(judgement.path, parent)
        return quality.of(judgement.path) > quality.of(best.path)

    def _is_tolerable(self, judgement: Judgement, top: Judgement) -> bool:
        """Return whether a revision may replace the best although it scores less."""
        if not self._tolerance or judgement.scored.draft.parent is None:
            return False
        *kind, score = judgement.rank
        *top_kind, top_score = top.rank
        return kind == top_kind and score >= top_score - self._tolerance

    def _gain(self, judgement: Judgement) -> float:
        """Return by how much a draft raises the highest rank; a better kind counts as 1."""
        if self._top is None:
            return 1.0
        *kind, score = judgement.rank
        *top_kind, top_score = self._top.rank
        return score - top_score if kind == top_kind else float(kind > top_kind)

    def _judged_at(self, path: str | None) -> Judgement | None:
        for it in self._judged:
            if it.path == path:
                return it
        return None


def _swing(latest: Sequence[Judgement]) -> bool:
    """Return whether four drafts have the scores a, b, a, b and errors of validators to match."""
    scores = [it.scored.score for it in latest]
    if len(scores) < 4 or None in scores:
        return False
    if latest[0].errors != latest[2].errors or latest[1].errors != latest[3].errors:
        return False
    a, b, c, d = (score for score in scores if score is not None)
    return abs(a - c) <= SAME_SCORE and abs(b - d) <= SAME_SCORE and abs(a - b) > SAME_SCORE
