"""The gains of score in a refinement and their costs, as a report shows them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from app.contract.editor import EDITOR
from app.contract.events import IterationCompleted, unvoided
from app.contract.gains import DraftGain, Gains, gains_of, iteration_of, lost_from
from app.contract.judgement import Usage
from app.service.report.story import Story

KEPT, NOT_KEPT = "drafts that went into the result", "drafts without gain: not kept"
FIRST, ELSE = "drafts that are not compared, such as first ones", "everything else"


@dataclass(frozen=True, slots=True)
class Group:
    """Drafts that have a search or a writer in common, and their gain together."""

    name: str
    drafts: Sequence[DraftGain]
    gain: float

    @property
    def usage(self) -> Usage:
        """The usage of all drafts together."""
        return sum((draft.usage for draft in self.drafts), Usage())


@dataclass(frozen=True, slots=True)
class GainsShown:
    """The gains of a story, by draft, search, criterion and model."""

    story: Story
    found: Gains

    @property
    def is_noisy(self) -> bool:
        """Whether a critic other than the editor, whose scores are exact, may have judged."""
        critics = [draft.critics for draft in self.found.drafts]
        return any(critic != EDITOR for of_draft in critics for critic in of_draft)

    @property
    def widest_spread(self) -> float:
        """The largest difference between judgements of one draft on one criterion."""
        scores = (score for draft in self.story.iterations for score in draft.scores)
        return max((score.spread or 0.0 for score in scores), default=0.0)

    def by_draft(self) -> list[DraftGain]:
        """Return the drafts, those that were kept and that changed most first."""
        drafts = self.found.drafts
        return sorted(drafts, key=lambda draft: (draft.is_kept, draft.change), reverse=True)

    def by_search(self) -> list[Group]:
        """Return the drafts by pass, stage or part; nothing if there are none of these."""
        groups = _grouped(self.found.drafts, lambda draft: draft.search, sum)
        return groups if any(group.name for group in groups) else []

    def by_model(self) -> list[Group]:
        """Return the drafts by the model that wrote them; nothing if one wrote them all."""
        written = [draft for draft in self.found.drafts if draft.writer is not None]
        groups = _grouped(written, lambda draft: draft.writer or "", _mean)
        return groups if len(groups) > 1 else []

    def by_criterion(self) -> list[tuple[float, str, float, float]]:
        """Return gain, name, first and final score of every criterion, if there are several."""
        start, final = self.found.start, self.found.final
        if self.found.change is None or start is None or final is None or start is final:
            return []
        before = {score.criterion: score.score for score in start.scores}
        gains = [
            (score.score - first, score.criterion, first, score.score)
            for score in final.scores
            if score.score is not None and (first := before[score.criterion]) is not None
        ]
        ordered = sorted(gains, key=lambda gain: gain[0], reverse=True)
        return ordered if len(before) > 1 else []

    def spent(self) -> list[tuple[str, Usage]]:
        """Return what kept drafts, other drafts and everything else consumed."""
        kinds = {draft.path: KEPT if draft.is_kept else NOT_KEPT for draft in self.found.drafts}
        usages = {KEPT: Usage(), NOT_KEPT: Usage(), FIRST: Usage(), ELSE: Usage()}
        for step in self.story.steps():
            at = iteration_of(step.key)
            usages[ELSE if at is None else kinds.get(at, FIRST)] += step.usage
        return [(kind, usage) for kind, usage in usages.items() if usage != Usage()]


def gains_in(story: Story) -> Gains:
    """Return the gains of a refinement so far."""
    result = story.snapshot.result
    counting = (event.data for event in unvoided(story.events))
    return gains_of(
        [data for data in counting if isinstance(data, IterationCompleted)],
        [*story.steps()],
        result.path if result else None,
        lost_from(result),
    )


def _grouped(
    drafts: Iterable[DraftGain],
    name_of: Callable[[DraftGain], str],
    of_all: Callable[[Sequence[float]], float],
) -> list[Group]:
    """Return the drafts by name, those with the largest gain first."""
    named: dict[str, list[DraftGain]] = {}
    for draft in drafts:
        named.setdefault(name_of(draft), []).append(draft)
    groups = (
        Group(name, found, of_all([draft.gain for draft in found])) for name, found in named.items()
    )
    return sorted(groups, key=lambda group: group.gain, reverse=True)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
