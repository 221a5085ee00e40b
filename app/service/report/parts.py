"""The stages, passes and parts of a text in a report: their titles, states and best drafts."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.contract.drafts import draft_of
from app.contract.events import IterationCompleted, StepCompleted, TextReply
from app.contract.gains import PARTS, search_of
from app.contract.sections import items_of
from app.contract.snapshot import Iteration
from app.service.report.story import Story

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
    planned = _planned(story)
    others = sorted({*_started(story)} - planned.keys(), key=_by_number)
    order = {path: number for number, path in enumerate((*planned, *others))}
    kept = {search_of(done.path): done.best.path for _, done in story.of(IterationCompleted)}
    judged = {draft.path: draft for draft in story.iterations}
    for path in sorted(order, key=lambda path: [order[outer] for outer in _parts_of(path)]):
        best = judged.get(kept.get(path, ""))
        first_line = best.draft.strip().partition("\n")[0] if best else ""
        calls = sum(step.usage.calls for step in story.steps() if step.key.startswith(f"{path}/"))
        yield ReportedPart(
            path=path,
            title=planned.get(path) or first_line.strip("#*- "),
            state=_state(story, path, best, calls),
            best=best,
            drafts=sum(search_of(draft) == path for draft in judged),
            calls=calls,
        )


def _planned(story: Story) -> dict[str, str]:
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
