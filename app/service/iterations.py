"""The iterations and the steps that a journal has."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any, Literal

from app.contract.drafts import EditsReport, draft_of, sha256_of
from app.contract.errors import NotFound
from app.contract.events import (
    Event,
    IterationCompleted,
    PromptRef,
    Step,
    StepCompleted,
    StepFailed,
    StepPrompt,
    TextReply,
    unvoided,
)
from app.contract.judgement import Finding, Issue, IssueNote, Usage
from app.contract.ratings import Rated, Rating
from app.contract.requests import RefinementRequest
from app.contract.snapshot import Diff, DiffOperation, Iteration
from app.contract.statistics import WRITERS
from app.service.ratings import rating_of
from app.store.prompts import KeptPrompt, step_name

IssueWording = Mapping[tuple[str | None, str], Finding]
"""The finding of an issue, by the path of an iteration and the id of the issue."""


def wording_of(judged: Sequence[IterationCompleted]) -> IssueWording:
    """Return the findings of the open issues of every iteration."""
    return {
        (one.path, note.id): one.findings[note.finding]
        for one in judged
        for note in one.issues
        if note.finding is not None
    }


def issues_of(judged: IterationCompleted, words: IssueWording) -> tuple[Issue, ...]:
    """Return the issues of an iteration; a resolved one has the finding of its parent."""
    return tuple(
        _issue(note, words[judged.path if note.state.is_open else judged.parent, note.id])
        for note in judged.issues
    )


def _issue(note: IssueNote, found: Finding) -> Issue:
    return Issue(
        id=note.id,
        state=note.state,
        since=note.id.rpartition("#")[0],
        span=found.span if note.state.is_open else None,
        kind=found.kind,
        source=found.source,
        message=found.message,
        fix=found.fix,
        quote=found.quote,
    )


class JournalContradiction(Exception):
    """A draft in the journal is not the text that was judged: a defect; it is not returned."""


def iterations_of(events: Sequence[Event], request: RefinementRequest) -> tuple[Iteration, ...]:
    """Return every judged draft in the order of judging, those of inner searches included.

    What a retry voided is left out, but its usage counts.
    """
    counting = unvoided(events)
    paid, steps = _steps(events), _steps(counting)
    found = [event.data for event in counting if isinstance(event.data, IterationCompleted)]
    judged = [*{one.path: one for one in found}.values()]  # a rated one is in the journal twice
    words = wording_of(judged)
    ratings = [rating_of(event) for event in events if isinstance(event.data, Rated)]
    return tuple(
        _iteration(one, paid, steps, request, words).model_copy(
            update={"ratings": tuple(rating for rating in ratings if _is_of(rating, one))}
        )
        for one in judged
    )


def _is_of(rating: Rating, judged: IterationCompleted) -> bool:
    """Return whether a rating is of this text; after a retry, another one may be at the path."""
    return (rating.path, rating.sha256) == (judged.path, judged.sha256)


def iterations_at(iterations: Sequence[Iteration], path: str) -> tuple[Iteration, ...]:
    """Return the iterations of the search at `path`, such as `stages/outline`; "" is the outermost.

    Raises NotFound if nothing was judged there.
    """
    prefix = f"{path}/iterations/" if path else "iterations/"
    found = tuple(one for one in iterations if one.path == f"{prefix}{one.iteration}")
    if path and not found:
        raise NotFound(f"no judged draft at {path}")
    return found


def numbered(iterations: Sequence[Iteration], number: int) -> Iteration:
    """Return one of a search's iterations by its number, else raise NotFound."""
    for one in iterations:
        if one.iteration == number:
            return one
    raise NotFound(f"iteration {number} does not exist or is not judged yet")


@dataclass(frozen=True, slots=True)
class GivenDraft:
    """The client's own draft, which is not judged if feedback on it is followed first."""

    draft: str
    iteration: int = 0
    path: str = "iterations/0"


def compared_at(
    iterations: Sequence[Iteration], request: RefinementRequest, path: str, number: int
) -> Iteration | GivenDraft:
    """Return one of a search's iterations by its number; 0 is the client's own draft.

    Raises NotFound.
    """
    if request.feedback is not None and request.draft is not None and (path, number) == ("", 0):
        return GivenDraft(request.draft)
    return numbered(iterations_at(iterations, path), number)


def both_at(
    iterations: Sequence[Iteration], request: RefinementRequest, *ends: tuple[str, int]
) -> list[Iteration | GivenDraft]:
    """Return the iterations to compare, each by search and number; NotFound names all missing."""
    found, missing = list[Iteration | GivenDraft](), list[str]()
    for path, number in ends:
        try:
            found.append(compared_at(iterations, request, path, number))
        except NotFound as error:
            missing.append(error.detail)
    if missing:
        raise NotFound("; ".join(dict.fromkeys(missing)))
    return found


def _steps(events: Sequence[Event]) -> list[StepCompleted | StepFailed]:
    return [event.data for event in events if isinstance(event.data, StepCompleted | StepFailed)]


def _iteration(
    judged: IterationCompleted,
    paid: Sequence[StepCompleted | StepFailed],
    steps: Sequence[StepCompleted | StepFailed],
    request: RefinementRequest,
    words: IssueWording,
) -> Iteration:
    below = f"{judged.path}/"
    writing = [step for step in steps if step.key.startswith(below) and _writes(judged.path, step)]
    draft = _draft(writing, request) if judged.draft is None else judged.draft
    if sha256_of(draft) != judged.sha256:
        raise JournalContradiction(f"the draft at {judged.path} is not {judged.sha256}")
    models = [step.model for step in writing if isinstance(step, StepCompleted)]
    return Iteration(
        draft=draft,
        writer=models[-1] if models else None,
        usage=sum((step.usage for step in paid if step.key.startswith(below)), Usage()),
        issues=issues_of(judged, words),
        edits=_report(judged, draft, writing),
        **{name: getattr(judged, name) for name in _SHARED},
    )


def _draft(writing: Sequence[StepCompleted | StepFailed], request: RefinementRequest) -> str:
    replies = _replies(writing)
    return draft_of(replies[-1]) if replies else request.draft or ""  # the last: a re-ask's


def _report(
    judged: IterationCompleted, draft: str, writing: Sequence[StepCompleted | StepFailed]
) -> EditsReport | None:
    """Return the effect of the edits on the parent, and the tokens that they saved."""
    if judged.edits is None:
        return None
    replied = sum(len(reply.encode()) for reply in _replies(writing))
    spent = sum(step.usage.output_tokens for step in writing)
    whole = round(spent / replied * len(draft.encode())) if spent and replied else None
    saved = None if whole is None else whole - spent
    return EditsReport(**judged.edits.model_dump(), output_tokens_saved=saved)


def _replies(steps: Sequence[StepCompleted | StepFailed]) -> list[str]:
    completed = (step for step in steps if isinstance(step, StepCompleted))
    return [step.reply.text for step in completed if isinstance(step.reply, TextReply)]


def _writes(path: str, step: StepCompleted | StepFailed) -> bool:
    return step.key.removeprefix(f"{path}/").partition("/")[0] in WRITERS


_SHARED = sorted(
    Iteration.model_fields.keys()
    & IterationCompleted.model_fields.keys() - {"draft", "issues", "edits"}
)


MAX_PAIRS = 500_000
"""Maximum pairs of changed lines to compare, in about a second; above it, all are one change."""

CONTEXT_LINES = 3

Lines = list[str]
Operation = tuple[Literal["equal", "replace", "delete", "insert"], int, int, int, int]


class _Known(SequenceMatcher[str]):
    """A matcher with known operations, for difflib to group."""

    def __init__(self, operations: list[Operation]) -> None:
        super().__init__()
        self._operations = operations

    def get_opcodes(self) -> list[Operation]:
        return self._operations


def diff_of(before: Iteration | GivenDraft, after: Iteration | GivenDraft) -> Diff:
    """Return the difference; the joined texts of its operations are the two drafts."""
    old, new = _lines(before.draft), _lines(after.draft)
    operations = _operations(old, new)
    return Diff(
        from_iteration=before.iteration,
        to_iteration=after.iteration,
        operations=tuple(_described(operation, old, new) for operation in operations),
        unified="".join(_unified(operations, old, new, before.path, after.path)),
    )


def _lines(text: str) -> Lines:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _operations(old: Lines, new: Lines) -> list[Operation]:
    """Return the operations; between lines that stand once in both drafts each part by itself."""
    operations: list[Operation] = []
    i1 = j1 = pairs = 0
    for i2, j2 in (*_anchors(old, new), (len(old), len(new))):
        head = _shared(old[i1:i2], new[j1:j2])
        tail = _shared(old[i1 + head : i2][::-1], new[j1 + head : j2][::-1])
        start, end, to, until = i1 + head, i2 - tail, j1 + head, j2 - tail
        size = (end - start) * (until - to)
        operations.append(("equal", i1, start, j1, to))
        if not size:
            operations.append(("delete" if start < end else "insert", start, end, to, until))
        elif pairs + size > MAX_PAIRS:
            operations.append(("replace", start, end, to, until))
        else:
            pairs += size
            changed = SequenceMatcher(None, old[start:end], new[to:until])
            operations += [
                (tag, start + a1, start + a2, to + b1, to + b2)
                for tag, a1, a2, b1, b2 in changed.get_opcodes()
            ]
        operations.append(("equal", end, i2, until, j2))
        i1, j1 = i2, j2
    return _merged(operations)


def _merged(operations: Iterable[Operation]) -> list[Operation]:
    """Return operations without empty ones; neighbours of one kind are one."""
    merged: list[Operation] = []
    for tag, i1, i2, j1, j2 in operations:
        if i1 == i2 and j1 == j2:
            continue
        begins = (i1, j1)
        if merged and merged[-1][0] == tag:
            _, *(begun, _, to, _) = merged.pop()
            begins = (begun, to)
        merged.append((tag, begins[0], i2, begins[1], j2))
    return merged


def _anchors(old: Lines, new: Lines) -> list[tuple[int, int]]:
    """Return where lines stand that are unique in both drafts, in an order that both have.

    There are none for drafts that are compared as a whole. Patience diff (Cohen, 2010).
    """
    head = _shared(old, new)
    tail = _shared(old[head:][::-1], new[head:][::-1])
    if (len(old) - head - tail) * (len(new) - head - tail) <= MAX_PAIRS:
        return []
    counts = Counter(old), Counter(new)
    places = {line: place for place, line in enumerate(new) if counts[1][line] == 1}
    found = [
        (place, places[line])
        for place, line in enumerate(old)
        if line in places and counts[0][line] == 1
    ]
    return _longest_rising(found)


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the most pairs, in their order, whose second numbers rise."""
    tops: list[int] = []
    piles: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        pile = bisect_left(tops, place)
        before.append(piles[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [place]
        piles[pile : pile + 1] = [number]
    rising = []
    number = piles[-1] if piles else -1
    while number >= 0:
        rising.append(pairs[number])
        number = before[number]
    return rising[::-1]


def _shared(old: Lines, new: Lines) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _described(operation: Operation, old: Lines, new: Lines) -> DiffOperation:
    tag, i1, i2, j1, j2 = operation
    return DiffOperation(
        op=tag,
        from_start=i1,
        from_end=i2,
        to_start=j1,
        to_end=j2,
        from_text="".join(old[i1:i2]),
        to_text="".join(new[j1:j2]),
    )


def _unified(
    operations: list[Operation], old: Lines, new: Lines, old_name: str, new_name: str
) -> Iterator[str]:
    """Yield the format of `diff -u`, which `patch` reads; nothing for equal drafts."""
    hunks = _Known(operations).get_grouped_opcodes(CONTEXT_LINES)
    for number, hunk in enumerate(hunks):
        if number == 0:
            yield f"--- {old_name}\n+++ {new_name}\n"
        (_, i1, _, j1, _), (_, _, i2, _, j2) = hunk[0], hunk[-1]
        yield f"@@ -{_range(i1, i2)} +{_range(j1, j2)} @@\n"
        for tag, a1, a2, b1, b2 in hunk:
            if tag == "equal":
                yield from (_marked(" ", line) for line in old[a1:a2])
            else:
                yield from (_marked("-", line) for line in old[a1:a2])
                yield from (_marked("+", line) for line in new[b1:b2])


def _marked(mark: str, line: str) -> str:
    end = "" if line.endswith("\n") else "\n\\ No newline at end of file\n"
    return f"{mark}{line}{end}"


def _range(start: int, end: int) -> str:
    """Return a range as `diff -u` counts lines: from 1, an empty one from the line before."""
    length = end - start
    return f"{start + 1 if length else start},{length}"


@dataclass(frozen=True, slots=True)
class EndedStep:
    """A step with the event that recorded it; `is_voided` if a retry has voided it since."""

    event: int
    at: datetime
    data: StepCompleted | StepFailed
    is_voided: bool

    name: str
    """The name under which its prompt is kept."""

    def is_below(self, path: str) -> bool:
        """Return whether it is the step at a path, or one below it."""
        return f"{self.data.key}/".startswith(f"{path.rstrip('/')}/")


def ended_steps(journal: Sequence[Event]) -> Iterator[EndedStep]:
    """Yield the steps in the order in which they ended."""
    counting = {event.event for event in unvoided(journal)}
    ended = Counter[str]()
    for event in journal:
        match event.data:
            case StepCompleted(key=key) | StepFailed(key=key) as data:
                is_voided, name = event.event not in counting, step_name(key, ended[key])
                yield EndedStep(event.event, event.at, data, is_voided, name)
                ended[key] += 1


def replies_of(steps: Iterable[EndedStep]) -> dict[str, str]:
    """Return what models have said by the names of the steps."""
    return {
        step.name: step.data.reply.text
        for step in steps
        if isinstance(step.data, StepCompleted) and isinstance(step.data.reply, TextReply)
    }


def step_of(ended: EndedStep, prompts: Mapping[str, KeptPrompt]) -> Step:
    """Return a step with its prompt, if that was kept under its name."""
    data = ended.data
    shared: dict[str, Any] = {
        "event": ended.event,
        "key": data.key,
        "at": ended.at,
        "is_voided": ended.is_voided,
        "prompt": _prompt(data.prompt, prompts.get(ended.name)) if data.prompt else None,
        "usage": data.usage,
        "seconds": data.usage.seconds,
    }
    if isinstance(data, StepCompleted):
        return Step(**shared, kind=data.kind, model=data.model, tried=data.tried, reply=data.reply)
    return Step(**shared, kind="ask" if data.prompt else None, code=data.code, detail=data.detail)


def _prompt(prompt: PromptRef, kept: KeptPrompt | None) -> StepPrompt:
    named = StepPrompt(name=prompt.name, version=prompt.version)
    if kept is None:
        return named
    texts = {"system": kept.system, "user": kept.user, "schema_": kept.schema}
    return named.model_copy(update=texts)
