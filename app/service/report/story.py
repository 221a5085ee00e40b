"""The story of a refinement: what a report tells, by its snapshot, request and journal."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from app.contract.drafts import draft_of
from app.contract.events import (
    Changed,
    Event,
    EventData,
    IterationCompleted,
    Queued,
    Resumed,
    Retried,
    StepCompleted,
    StepFailed,
    Stopping,
    TextReply,
    ToolReply,
)
from app.contract.limits import Limits
from app.contract.requests import RefinementRequest
from app.contract.reviews import Paused
from app.contract.sections import items_of
from app.contract.snapshot import Iteration, Snapshot
from app.contract.statistics import PARTS, search_of
from app.contract.strategies import STRATEGIES
from app.contract.waiting import Waiting
from app.service.iterations import GivenDraft, iterations_of

MOST_DRAFTS = 100
"""Drafts with a shown judgement; beyond them the report omits drafts of inner searches first."""

Data = TypeVar("Data", bound=EventData)


@dataclass(frozen=True, slots=True)
class ReportedStep:
    """A step of a plan, or a lookup; `arguments` are those of the tool that it calls."""

    instruction: str
    tool: str
    arguments: str
    needs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReportedPlan:
    """A plan in a reply: its steps, or what it looks up; neither if the reply is unreadable."""

    text: str
    steps: tuple[ReportedStep, ...] | None = None
    lookups: tuple[ReportedStep, ...] | None = None
    is_goal_met: bool = False


@dataclass(frozen=True, slots=True)
class Story:
    """One refinement; `events` are those up to the last one of the snapshot."""

    snapshot: Snapshot
    request: RefinementRequest
    events: tuple[Event, ...]
    iterations: tuple[Iteration, ...]

    @property
    def queued(self) -> Queued:
        """The data of its first event: strategy, models, limits."""
        [(_, queued)] = self.of(Queued)
        return queued

    def of(self, kind: type[Data]) -> tuple[tuple[datetime, Data], ...]:
        """Return time and data of the events of one kind."""
        return tuple(
            (event.at, event.data) for event in self.events if isinstance(event.data, kind)
        )

    def steps(self) -> Iterator[StepCompleted | StepFailed]:
        """Yield every step that was completed or failed."""
        for event in self.events:
            if isinstance(event.data, StepCompleted | StepFailed):
                yield event.data

    def outermost(self) -> tuple[Iteration, ...]:
        """Return the iterations of the outermost search."""
        return tuple(
            draft for draft in self.iterations if draft.path == f"iterations/{draft.iteration}"
        )

    def best(self) -> Iteration | None:
        """Return the iteration of the result, or of the best draft if there is no result."""
        best = self.snapshot.best
        judged = (draft for draft in self.iterations if best and draft.path == best.path)
        return next(judged, None)

    def first(self) -> Iteration | GivenDraft | None:
        """Return the draft that the best one is compared with: the given one with feedback."""
        given = self.request.draft
        if self.request.feedback is not None and given is not None:
            return GivenDraft(given)
        return next(iter(self.outermost() or self.iterations), None)

    def shown_drafts(self) -> list[Iteration]:
        """Return the drafts whose judgement is shown, in the order of judging."""
        first = sorted(self.iterations, key=lambda draft: draft.path.count("/"))[:MOST_DRAFTS]
        paths = {draft.path for draft in first}
        return [draft for draft in self.iterations if draft.path in paths]

    def validators(self) -> Iterator[tuple[str, Any]]:
        """Yield every validator with its path; validators of stages, passes and parts come last."""
        for index, validator in enumerate(self.request.validators):
            yield f"validators/{index}", validator
        for item in self.request.strategy.item_validators():
            for index, validator in enumerate(item.validators):
                yield item.source(index), validator

    def plans_and_tools(self) -> Iterator[tuple[StepCompleted, ReportedPlan | None]]:
        """Yield steps that planned, with the plan, and tool calls, in the order of the journal."""
        names = {name for part in self.request.strategy.every() for name in part.plan_steps}
        names |= set(STRATEGIES[self.snapshot.strategy].plan_steps)
        for step in self.steps():
            if not isinstance(step, StepCompleted):
                continue
            if name_of(step.key) in names:
                if step.kind == "ask":
                    yield step, plan_in(getattr(step.reply, "text", ""))
            elif isinstance(step.reply, ToolReply):
                yield step, None

    def happenings(self) -> Iterator[tuple[Event, Limits]]:
        """Yield the events that no other section tells, each with the limits before it."""
        limits = self.queued.limits
        for event in self.events:
            match event.data:
                case Resumed() if self._was_queued(event.event) and not self.has_waited(event):
                    pass
                case Changed() | Retried() | Stopping() | Waiting() | Resumed():
                    yield event, limits
            if isinstance(event.data, Changed | Retried):
                limits = event.data.limits

    def has_waited(self, claim: Event) -> bool:
        """Return whether a step waited for a model before a claim, as the journal says."""
        waits: set[str] = set()
        for event in self.events:
            match event.data:
                case Waiting(key=key) if event.event < claim.event:
                    waits.add(key)
                case StepCompleted(key=key) | StepFailed(key=key) if event.event < claim.event:
                    waits.discard(key)
        return bool(waits)

    def _was_queued(self, number: int) -> bool:
        """Return whether it was paused or had failed before this claim: no worker was lost."""
        before = [event.data for event in self.events if event.event < number]
        claims = [index for index, data in enumerate(before) if isinstance(data, Resumed)]
        since = before[claims[-1] :] if claims else before
        return any(isinstance(data, Paused | Retried) for data in since)


def story_of(snapshot: Snapshot, request: RefinementRequest, events: Sequence[Event]) -> Story:
    """Return the story up to the snapshot; later events are left out."""
    included = tuple(event for event in events if event.event <= snapshot.last_event)
    return Story(snapshot, request, included, iterations_of(included, request))


def name_of(key: str) -> str:
    """Return the last part of the key of a step, without the number of its repetition."""
    return key.partition("/again/")[0].rpartition("/")[2]


def plan_in(text: str) -> ReportedPlan:
    """Return the plan in a reply, as far as it is readable."""
    read = _object(text)
    if isinstance(picked := read.get("lookups"), dict):
        named = [(name, lookup) for name, lookup in picked.items() if isinstance(lookup, dict)]
        return ReportedPlan(text, lookups=tuple(_planned(lookup, name) for name, lookup in named))
    steps = read.get("steps")
    if isinstance(steps, dict) and isinstance(more := steps.get("more", []), list):
        steps = [steps.get("first"), *more]  # a first plan
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return ReportedPlan(text)
    verdict = read.get("goal_met")
    is_goal_met = isinstance(verdict, dict) and verdict.get("met") is True
    return ReportedPlan(text, tuple(map(_planned, steps)), is_goal_met=is_goal_met)


def _planned(step: dict[str, Any], name: str = "") -> ReportedStep:
    arguments, needs = step.get("arguments") or {}, step.get("needs")
    return ReportedStep(
        instruction=name or str(step.get("instruction", "")),
        tool=str(step.get("tool") or ""),
        arguments=arguments if isinstance(arguments, str) else as_json(arguments),
        needs=tuple(map(str, needs)) if isinstance(needs, list) else (),
    )


def as_json(value: Any) -> str:
    """Return a value as JSON, in which letters of all scripts stay readable."""
    return json.dumps(value, ensure_ascii=False)


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object in a reply; an empty one if it cannot be parsed."""
    text = draft_of(text)
    try:
        found = json.loads(text[text.find("{") : text.rfind("}") + 1])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


NUMBER = re.compile(r"\d+$")


@dataclass(frozen=True, slots=True)
class ReportedPart:
    """A stage, pass or part; `best` is its best draft, None if none was judged."""

    path: str
    title: str
    state: str
    best: Iteration | None
    drafts: int
    calls: int


def parts_in(story: Story) -> Iterator[ReportedPart]:
    """Yield the parts at every depth in the order of the text, each before those within it.

    Parts without any step are included.
    """
    planned = _titles_of(story)
    others = sorted({*_started(story)} - planned.keys(), key=_by_number)
    order = {path: number for number, path in enumerate((*planned, *others))}
    kept = {search_of(done.path): done.best.path for _, done in story.of(IterationCompleted)}
    judged = {draft.path: draft for draft in story.iterations}
    drafts, calls = Counter(map(search_of, judged)), Counter[str]()
    for step in story.steps():
        calls.update(dict.fromkeys(_parts_of(step.key), step.usage.calls))
    for path in sorted(order, key=lambda path: [order[outer] for outer in _parts_of(path)]):
        best = judged.get(kept.get(path, ""))
        first_line = best.draft.strip().partition("\n")[0] if best else ""
        yield ReportedPart(
            path=path,
            title=planned.get(path) or first_line.strip("#*- "),
            state=_state(story, path, best, calls[path]),
            best=best,
            drafts=drafts[path],
            calls=calls[path],
        )


def _titles_of(story: Story) -> dict[str, str]:
    """Return the title of every part that the request or an outline names."""
    titles = dict(story.request.strategy.titles())
    outlines = {"": getattr(story.request.strategy, "outline", None) or ""}
    for step in story.steps():
        first = step.key.partition("/again/")[0]
        is_outline = first.rpartition("/")[2] == "outline" and "iterations" not in first
        if is_outline and isinstance(step, StepCompleted) and isinstance(step.reply, TextReply):
            outlines[first.removesuffix("outline")] = draft_of(step.reply.text)
    for prefix, outline in outlines.items():
        for number, item in enumerate(items_of(outline) if outline else (), 1):
            titles[f"{prefix}parts/part-{number}"] = item.partition(":")[0]
    return titles


def _started(story: Story) -> Iterator[str]:
    """Yield every part with a step, and every part whose text is missing."""
    keys = (step.key for step in story.steps())
    result = story.snapshot.result
    for key in (*keys, *story.snapshot.phase, *(result.missing if result else ())):
        yield from _parts_of(key)


def _parts_of(key: str) -> tuple[str, ...]:
    """Return the parts that a step belongs to, the outermost first."""
    names = key.partition("iterations/")[0].rstrip("/").split("/")
    places = [number for number, name in enumerate(names[:-1]) if name in PARTS]
    return tuple("/".join(names[: number + 2]) for number in places)


def _by_number(path: str) -> tuple[str, int]:
    """Return what orders `section-2` before `section-10`."""
    found = NUMBER.search(path)
    return (path[: found.start()], int(found[0])) if found else (path, 0)


def _state(story: Story, path: str, best: Iteration | None, calls: int) -> str:
    """Return the state of a part in words."""
    snapshot, result = story.snapshot, story.snapshot.result
    is_running = any(key.startswith(f"{path}/") for key in snapshot.phase)
    if is_running and not snapshot.status.is_terminal:
        return "in progress"
    if result is not None and path in result.missing:
        return "missing"
    caveats = result.caveats if result is not None else ()
    if any(caveat.code == "stage_given_up" and caveat.path == path for caveat in caveats):
        return "given up"
    if best is not None:
        return "passed" if best.passed else "not passed"
    return "nothing judged" if calls else "not begun"
