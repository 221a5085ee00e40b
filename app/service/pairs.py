"""The preference pairs that a journal has."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from app.contract.events import Event, IterationCompleted, StepCompleted, unvoided
from app.contract.pairs import (
    ChatMessage,
    PairForm,
    PairSource,
    PairText,
    PreferencePair,
    WantedPairs,
)
from app.contract.ratings import Rated
from app.contract.requests import RefinementRequest
from app.contract.reviews import Paused, Reviewed
from app.contract.snapshot import Iteration, Snapshot
from app.contract.statistics import is_whole, search_of
from app.service.iterations import iterations_of

IMPROVE = "Make the draft better, and keep what it says."
"""The task of a request that has only a draft."""


class Preference(NamedTuple):
    """That one text is better than another one, who said so, and in which event."""

    event: int
    source: PairSource
    by: str
    chosen: str
    rejected: str


class PersonScore(NamedTuple):
    """That a person gave a draft a score."""

    event: int
    source: PairSource
    by: str
    path: str
    score: float


def pairs_of(
    refinement_id: str, request: RefinementRequest, journal: Sequence[Event], wanted: WantedPairs
) -> tuple[PreferencePair, ...]:
    """Return the pairs of whole drafts, in the order in which they were said.

    Of what the same person said of the same two texts the last word counts.
    """
    said = sorted(_Opinions(request, journal).preferences())
    last = {(one.source, one.by, frozenset((one.chosen, one.rejected))): one for one in said}
    prompt = _prompt(request, wanted.form)
    return tuple(
        PreferencePair(
            prompt=prompt,
            chosen=_reply(one.chosen, wanted.form),
            rejected=_reply(one.rejected, wanted.form),
            source=one.source,
            by=one.by,
            refinement=refinement_id,
            event=one.event,
        )
        for one in sorted(last.values())
        if one.source in wanted.sources and one.chosen != one.rejected
    )


def may_have_pairs(found: Snapshot) -> bool:
    """Return whether a refinement was reviewed or compared, or may have been: in a list an archived
    one does not say so."""
    compared = found.result is not None and found.result.comparison is not None
    return compared or found.reviewed is not None or found.archived


class _Opinions:
    """What people and the blind comparison said of the whole drafts of a refinement."""

    def __init__(self, request: RefinementRequest, journal: Sequence[Event]) -> None:
        self._journal = unvoided(journal)
        self._judged = [
            (event.event, event.data.path, event.data.sha256)
            for event in journal
            if isinstance(event.data, IterationCompleted)
        ]
        self._drafts: dict[str, Iteration] = {
            draft.path: draft
            for draft in iterations_of(journal, request)
            if is_whole(search_of(draft.path))
        }
        self._texts = {path: draft.draft for path, draft in self._drafts.items()}
        if request.draft is not None:
            self._texts.setdefault("iterations/0", request.draft)
        self._seen: dict[str, str] = {}
        """The path of the draft that was under review, by the key of the review."""
        for event in journal:
            if isinstance(event.data, Paused) and event.data.path in self._texts:
                self._seen[event.data.key] = event.data.path

    def preferences(self) -> Iterator[Preference]:
        """Yield every preference between two texts."""
        for event in self._journal:
            match event.data:
                case Rated() as rated:
                    yield from self._rated(event, rated)
                case Reviewed(by="reviewer") as review if self._saw(event, review):
                    yield from self._reviewed(event.event, review)
                case Snapshot() as ended:
                    yield from self._compared(event.event, ended)
        yield from self._scored(list(self._scores().values()))

    def _scores(self) -> dict[tuple[str, str, str], PersonScore]:
        """Return the last score that each person gave each draft."""
        last: dict[tuple[str, str, str], PersonScore] = {}
        for event in self._journal:
            match event.data:
                case Rated(score=float(score), by=by, path=path) if self._has(path, event):
                    given = PersonScore(event.event, "rating", by or "", path, score)
                case Reviewed(by="reviewer", score=float(score)) as review if self._saw(
                    event, review
                ):
                    by, path = review.reviewer or "", self._seen[review.key]
                    given = PersonScore(event.event, "review", by, path, score)
                case _:
                    continue
            last[given[1:4]] = given
        return last

    def _has(self, path: str | None, event: Event) -> bool:
        """Whether the draft at a path is that of the time of an event: a retry may replace it."""
        texts = [sha256 for at, of, sha256 in self._judged if at < event.event and of == path]
        draft = self._drafts.get(path or "")
        return draft is not None and texts[-1:] == [draft.sha256]

    def _saw(self, event: Event, review: Reviewed) -> bool:
        """Whether the draft that was under review is still there."""
        return self._has(self._seen.get(review.key), event)

    def _rated(self, event: Event, rated: Rated) -> Iterator[Preference]:
        worse = rated.better_than
        if worse is not None and self._has(worse, event) and self._has(rated.path, event):
            texts = self._texts[rated.path], self._texts[worse]
            yield Preference(event.event, "rating", rated.by or "", *texts)

    def _reviewed(self, event: int, review: Reviewed) -> Iterator[Preference]:
        """Yield that a person's own text is better than the draft they saw, and that an approved
        draft is better than those it came of that were sent back."""
        path, by = self._seen[review.key], review.reviewer or ""
        if review.draft is not None:
            yield Preference(event, "review", by, review.draft, self._texts[path])
        if review.action == "approve":
            line = self._line(path)
            for earlier in self._journal:
                if earlier.event < event and isinstance(earlier.data, Reviewed):
                    sent_back = self._seen.get(earlier.data.key)
                    is_asked = earlier.data.action == "revise" and earlier.data.by == "reviewer"
                    if is_asked and sent_back in line and self._saw(earlier, earlier.data):
                        yield Preference(event, "review", by, self._texts[path], line[sent_back])

    def _line(self, path: str) -> dict[str, str]:
        """Return the drafts that a draft came of, by their paths."""
        found: dict[str, str] = {}
        draft = self._drafts.get(path)
        while draft is not None and draft.parent is not None and draft.parent not in found:
            found[draft.parent] = self._texts.get(draft.parent, "")
            draft = self._drafts.get(draft.parent)
        return found

    def _compared(self, event: int, ended: Snapshot) -> Iterator[Preference]:
        result = ended.result
        if result is None or result.comparison is None:
            return
        earlier = self._texts.get(result.comparison.against)
        pairs = {"better": (result.draft, earlier), "worse": (earlier, result.draft)}
        chosen, rejected = pairs.get(result.comparison.verdict, (None, None))
        if chosen is not None and rejected is not None:
            yield Preference(event, "comparison", self._judge(), chosen, rejected)

    def _judge(self) -> str:
        """Return the model that compared."""
        steps = (event.data for event in self._journal if isinstance(event.data, StepCompleted))
        return next((step.model or "" for step in steps if step.key.startswith("compare/")), "")

    def _scored(self, scores: Sequence[PersonScore]) -> Iterator[Preference]:
        """Yield that of two drafts the one is better that the same person scored higher."""
        for one, other in combinations(scores, 2):
            if one[1:3] == other[1:3] and one.score != other.score:
                low, high = sorted((one, other), key=lambda given: given.score)
                event = max(one.event, other.event)
                texts = self._texts[high.path], self._texts[low.path]
                yield Preference(event, one.source, one.by, *texts)


def _reply(text: str, form: PairForm) -> PairText:
    return text if form == "plain" else (ChatMessage(role="assistant", content=text),)


def _prompt(request: RefinementRequest, form: PairForm) -> PairText:
    """Return what a draft answers: instructions, and task, context and draft."""
    system = request.instructions.generator
    parts = [request.task or IMPROVE]
    parts += [
        f'<document name="{document.name}">\n{document.text}\n</document>'
        for document in request.context
    ]
    if request.draft is not None:
        parts.append(f"<draft>\n{request.draft}\n</draft>")
    if request.feedback is not None:
        parts.append(f"What is to change: {request.feedback}")
    user = "\n\n".join(parts)
    if form == "plain":
        # A trainer puts the text right behind it.
        return "\n\n".join([*([system] if system else []), user, ""])
    told = (ChatMessage(role="system", content=system),) if system else ()
    return (*told, ChatMessage(role="user", content=user))
