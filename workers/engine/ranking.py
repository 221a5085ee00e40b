"""Judged drafts of one search: which is the best, and what follows from which."""

from workers.engine.ledger import NO_ISSUES, Ledger
from workers.engine.moves import Judgement
from workers.engine.similarity import similarity

SAME_SCORE = 1e-6


class Ranking:
    """Keeps judged drafts in their order; scores compare only within one rubric."""

    def __init__(self, tolerance: float = 0.0) -> None:
        self.best: Judgement | None = None
        self.base: Judgement | None = None
        """What is revised next: of several that rank as the best, the latest."""
        self._tolerance = tolerance
        self._top: Judgement | None = None
        """The highest rank so far: the best, unless a revision within tolerance took its place."""
        self._judged: list[Judgement] = []

    def add(self, judgement: Judgement) -> float:
        """Rank one more draft; return by how much it raised the best."""
        self._judged.append(judgement)
        return self._placed(judgement)

    def change(self, judgement: Judgement, rated: Judgement) -> float:
        """Rank all drafts anew, one of them with another score; return what the last one raised."""
        self._judged = [rated if it is judgement else it for it in self._judged]
        self.best = self.base = self._top = None
        return [self._placed(it) for it in self._judged][-1]

    def issues_of(self, path: str | None) -> Ledger:
        """Return the issues of the draft judged at `path`; none when there was none."""
        return next((it.issues for it in self._judged if it.path == path), NO_ISSUES)

    def is_stable(self, max_similarity: float) -> bool:
        """Return whether the last draft is as good as its parent, word for word."""
        last = self._judged[-1]
        parent = self._parent_of(last)
        if parent is None:
            return False
        alike = similarity(parent.scored.draft.text, last.scored.draft.text)
        return alike >= max_similarity

    def oscillates(self) -> bool:
        """Return whether the last draft was seen before, or scores go a, b, a, b."""
        last = self._judged[-1]
        parent = self._parent_of(last)
        seen = {it.scored.draft.sha256 for it in self._judged[:-1] if it is not parent}
        if last.scored.draft.sha256 in seen:
            return True
        scores = [it.scored.score for it in self._judged[-4:]]
        if len(scores) < 4 or None in scores:
            return False
        a, b, c, d = (score for score in scores if score is not None)
        return abs(a - c) <= SAME_SCORE and abs(b - d) <= SAME_SCORE and abs(a - b) > SAME_SCORE

    def _placed(self, judgement: Judgement) -> float:
        gain = self._gain(judgement)
        if self._top is None or judgement.rank > self._top.rank:
            self._top = self.best = self.base = judgement
        elif self._is_tolerable(judgement, self._top):
            self.best = self.base = judgement
        elif judgement.rank == self._top.rank:
            self.base = judgement
        return gain

    def _is_tolerable(self, judgement: Judgement, top: Judgement) -> bool:
        """Return whether a revision may stand for the best though it scores less."""
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

    def _parent_of(self, last: Judgement) -> Judgement | None:
        path = last.scored.draft.parent
        return next((it for it in self._judged if it.path == path), None) if path else None
