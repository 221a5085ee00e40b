"""What people, and critics again, said of refinements that a preset made; and which texts to play.

People's remarks are reviewers' edits and words, ratings, and feedback of continuations.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import unified_diff
from hashlib import sha256
from typing import Any

from app.contract.errors import NotStored, RefinementNotFound
from app.contract.events import Event
from app.contract.judgement import IssueState
from app.contract.overlays import Preset
from app.contract.ratings import Rated
from app.contract.requests import RefinementRequest
from app.contract.reviews import Paused, Reviewed
from app.contract.snapshot import Iteration, Selected
from app.contract.status import TERMINAL
from app.service.iterations import iterations_of
from app.store import Store
from hone_extras.compare.comparison import FEWEST_TEXTS
from hone_extras.learn.proposal import LearnedSetting, RemarkKind

FEWEST_WRITTEN_FROM = 4
FEWEST_TEXTS_IN_ALL = FEWEST_TEXTS + FEWEST_WRITTEN_FROM
MOST_LOOKED_AT = 2_000
"""Refinements of the tenant, the newest, among which those of the preset are looked for."""

MOST_FOUND = 400
FEWEST_RETURNED = 2
"""Drafts among which no finding can have come back."""

PAGE = 100
MARK = "proposal"
"""In the metadata of what a proposal plays: the id of the proposal."""

LONG, HEAD, TAIL = 1_500, 1_000, 400
OF_TEXT = {"task", "draft", "context", "grounding", "locked"}
"""Fields of a request that belong to its text; the others are of the setting."""


@dataclass(frozen=True)
class Remark:
    """One remark: its words, and the draft that it is about."""

    refinement: str
    kind: RemarkKind
    path: str | None
    words: str

    @property
    def is_of_a_person(self) -> bool:
        """Whether a person said it."""
        return self.kind != "returned_issue"


@dataclass(frozen=True)
class RemarkedText:
    """A text with all remarks on what was made of it; continuations are of the same text."""

    ids: tuple[str, ...]
    fields: Mapping[str, Any]
    remarks: tuple[Remark, ...] = ()

    @property
    def has_a_person(self) -> bool:
        """Whether a person said something of it."""
        return any(remark.is_of_a_person for remark in self.remarks)

    @property
    def size(self) -> int:
        """Characters of its task, draft and documents."""
        return len(str(self.fields))


@dataclass
class RemarkedTexts:
    """Collects the refinements of a preset into texts; the oldest first."""

    roots: dict[str, str] = field(default_factory=dict)
    texts: dict[str, RemarkedText] = field(default_factory=dict)

    def add(self, refinement_id: str, parent: str | None, found: RemarkedText) -> None:
        """Add a refinement to the text that it continues or repeats, or as a new one."""
        told = (found.fields.get("task"), found.fields.get("draft"))
        repeated = sha256(repr(told).encode()).hexdigest()
        root = self.roots.get(parent or "", self.roots.get(repeated, refinement_id))
        self.roots[refinement_id] = root
        self.roots.setdefault(repeated, root)
        known = self.texts.get(root, replace(found, ids=(), remarks=()))
        ids, remarks = (*known.ids, refinement_id), (*known.remarks, *found.remarks)
        self.texts[root] = replace(known, ids=ids, remarks=remarks)


async def remarked_texts(store: Store, tenant: str, preset: Preset) -> list[RemarkedText]:
    """Return the texts that the present setting of a preset refined and that have remarks."""
    before, collected = setting_of(preset.request), RemarkedTexts()
    found: list[tuple[str, str | None, RemarkedText]] = []
    async for refinement_id, parent in _ended(store, tenant):
        read = await _read(store, tenant, refinement_id)
        if read and read[0].preset == preset.name and setting_of(read[0]) == before:
            found.append((refinement_id, parent, remarked(refinement_id, *read)))
        if len(found) == MOST_FOUND:
            break
    for each in reversed(found):
        collected.add(*each)
    return [text for text in collected.texts.values() if text.remarks]


async def text_again(
    store: Store, tenant: str, ids: Sequence[str], until: datetime
) -> RemarkedText | None:
    """Return a text as it was at a time; None if its refinements were erased since."""
    texts = RemarkedTexts()
    for refinement_id in ids:
        if read := await _read(store, tenant, refinement_id):
            request, journal = read
            journal = [event for event in journal if event.at <= until]
            found = remarked(refinement_id, request, journal)
            texts.add(refinement_id, ids[0], found)
    return next(iter(texts.texts.values()), None)


async def _ended(store: Store, tenant: str) -> AsyncIterator[tuple[str, str | None]]:
    """Yield the ids of ended refinements that may have remarks, newest first, and their parents."""
    ended = Selected(statuses=frozenset(TERMINAL))
    cursor, left = None, MOST_LOOKED_AT
    while left > 0:
        page = await store.page(tenant, selected=ended, limit=PAGE, cursor=cursor)
        rated = await store.rated([shown.id for shown in page.data])
        for shown in page.data:
            has_told = shown.id in rated or shown.reviewed or shown.parent or shown.archived
            if MARK not in shown.metadata and (has_told or len(shown.scores) > FEWEST_RETURNED):
                yield shown.id, shown.parent
        cursor, left = page.next_cursor, left - PAGE
        if not page.has_more:
            return


async def _read(
    store: Store, tenant: str, refinement_id: str
) -> tuple[RefinementRequest, list[Event]] | None:
    """Return request and journal; None if they are gone, or not to be learnt from."""
    try:
        request = await store.request(tenant, refinement_id)
        if request.preset is None or not (request.learn and request.store):
            return None
        return request, await store.journal(tenant, refinement_id)
    except (NotStored, RefinementNotFound):
        return None


def setting_of(request: RefinementRequest) -> LearnedSetting:
    """Return the part of a request, or of a preset, that a proposal may change."""
    return LearnedSetting(criteria=request.criteria, instructions=request.instructions)


def remarked(
    refinement_id: str, request: RefinementRequest, journal: Sequence[Event]
) -> RemarkedText:
    """Return the text of a refinement with the remarks in its journal."""
    iterations = iterations_of(journal, request)
    told = [*_asked(request), *_by_people(journal, iterations), *_returned(iterations)]
    fields = request.model_dump(mode="json", include=OF_TEXT)
    remarks = tuple(Remark(refinement_id, *each) for each in told)
    return RemarkedText((refinement_id,), fields, remarks)


Told = tuple[RemarkKind, str | None, str]


def _asked(request: RefinementRequest) -> Iterator[Told]:
    if request.feedback is not None and request.draft is not None:
        said = f"A person asked for a change of a draft: {request.feedback}"
        yield "feedback", None, f"{said}\n{_shown(request.draft)}"


def _by_people(journal: Sequence[Event], iterations: Sequence[Iteration]) -> Iterator[Told]:
    """Yield what reviewers and raters said, in the order of the journal."""
    drafts = {iteration.path: iteration.draft for iteration in iterations}
    asked: dict[str, str | None] = {}
    for event in journal:
        match event.data:
            case Paused(key=key, path=path):
                asked[key] = path
            case Reviewed(by="reviewer") as review if (path := asked.get(review.key)) in drafts:
                yield from _decided(review, path, drafts[path or ""])
            case Rated(path=path) as rated if path in drafts:
                yield _rated(rated, drafts)


def _decided(review: Reviewed, path: str | None, draft: str) -> Iterator[Told]:
    words = "" if review.feedback is None else f": {review.feedback}"
    if review.action == "replace" and review.draft is not None:
        yield "edit", path, f"A reviewer changed a draft{words}\n{_edited(draft, review.draft)}"
    elif review.action == "reject":
        yield "rejection", path, f"A reviewer rejected a draft{words}\n{_shown(draft)}"
    elif review.score is not None:
        said = f"A reviewer scored a draft {review.score:g} of 1{words}"
        yield "rating", path, f"{said}\n{_shown(draft)}"
    elif words:
        yield "feedback", path, f"A reviewer said of a draft{words}\n{_shown(draft)}"


def _rated(rated: Rated, drafts: Mapping[str, str]) -> Told:
    words = "" if rated.note is None else f": {rated.note}"
    if rated.score is not None:
        said = f"A person scored a draft {rated.score:g} of 1{words}"
        return "rating", rated.path, f"{said}\n{_shown(drafts[rated.path])}"
    worse = drafts.get(rated.better_than or "", "")
    said = f"A person prefers the second of two drafts{words}"
    return "preference", rated.path, f"{said}\n{_edited(worse, drafts[rated.path])}"


def _returned(iterations: Sequence[Iteration]) -> Iterator[Told]:
    """Yield findings of critics that came back after they had been mended, each once."""
    seen: set[str] = set()
    for iteration in iterations:
        for issue in iteration.issues:
            if issue.state is IssueState.RETURNED and issue.id not in seen:
                seen.add(issue.id)
                quoted = "" if issue.quote is None else f" (about: {issue.quote})"
                said = f"A critic's finding came back after it was mended: {issue.message}{quoted}"
                yield "returned_issue", iteration.path, said


def _shown(draft: str) -> str:
    whole = draft if len(draft) <= LONG else f"{draft[:HEAD]}\n[...]\n{draft[-TAIL:]}"
    return f"The draft:\n{whole}"


def _edited(before: str, after: str) -> str:
    if len(before) + len(after) <= 2 * LONG:
        return f"Before:\n{before}\nAfter:\n{after}"
    lines = unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")
    return "\n".join(lines)[: 2 * LONG]


def divided(
    texts: Iterable[RemarkedText], most: int
) -> tuple[list[RemarkedText], list[RemarkedText]]:
    """Return the texts to write a proposal from, and those to play, of which people spoke.

    Half of the latter are played, at least `FEWEST_TEXTS` and at most `most`. The ids decide which
    ones, so that most texts stay on their side while others are added.
    """
    by_lot = sorted(texts, key=lambda text: sha256(text.ids[0].encode()).digest())
    spoken = [text for text in by_lot if text.has_a_person]
    played = spoken[: min(most, max(FEWEST_TEXTS, len(spoken) // 2))]
    held = {text.ids[0] for text in played}
    return [text for text in by_lot if text.ids[0] not in held], played
