"""The stages, passes and parts of a text in a report: what each is, and what came of it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.contract.drafts import draft_of
from app.contract.events import IterationCompleted, StepCompleted, TextReply
from app.contract.gains import PARTS, search_of
from app.contract.sections import items_of
from app.contract.snapshot import Iteration
from app.service.report import wording
from app.service.report.markdown import escaped, path, table, under
from app.service.report.sections import Story

TITLE = 60
"""Characters of a title that are shown."""

NUMBER = re.compile(r"\d+$")
HEAD = ("part", "title", "state", "score", "drafts", "calls")


@dataclass(frozen=True, slots=True)
class Item:
    """A stage, pass or part; `best` is its best draft, None if none was judged."""

    path: str
    title: str
    best: Iteration | None
    drafts: int
    calls: int


def parts(story: Story) -> str:
    """Return a table of all stages, passes and parts at every depth, those not begun included."""
    rows = (
        (
            path(it.path),
            escaped(it.title, TITLE),
            _state(story, it),
            "" if it.best is None else wording.score(it.best.score),
            str(it.drafts),
            str(it.calls),
        )
        for it in story_items(story)
    )
    listed = list(rows)
    return under("## Parts", table(HEAD, listed) if listed else "")


def story_items(story: Story) -> Iterator[Item]:
    """Yield the items in the order of the text, each before those within it."""
    planned = _planned(story)
    others = sorted({*_begun(story)} - planned.keys(), key=_by_number)
    order = {at: number for number, at in enumerate((*planned, *others))}
    kept = {search_of(it.path): it.best.path for _, it in story.of(IterationCompleted)}
    judged = {it.path: it for it in story.iterations}
    for at in sorted(order, key=lambda at: [order[it] for it in _items_of(at)]):
        best = judged.get(kept.get(at, ""))
        first_line = best.draft.strip().partition("\n")[0] if best else ""
        yield Item(
            path=at,
            title=planned.get(at) or first_line.strip("#*- "),
            best=best,
            drafts=sum(search_of(it) == at for it in judged),
            calls=sum(it.usage.calls for it in story.steps() if it.key.startswith(f"{at}/")),
        )


def _planned(story: Story) -> dict[str, str]:
    """Return the title of every item that the request or an outline names."""
    titles = dict(story.request.strategy.titles())
    outlines = {"": getattr(story.request.strategy, "outline", None) or ""}
    for step in story.steps():
        first = step.key.partition("/again/")[0]
        is_outline = first.rpartition("/")[2] == "outline" and "iterations" not in first
        if is_outline and isinstance(step, StepCompleted) and isinstance(step.reply, TextReply):
            outlines[first.removesuffix("outline")] = draft_of(step.reply.text)
    for prefix, outline in outlines.items():
        for number, it in enumerate(items_of(outline) if outline else (), 1):
            titles[f"{prefix}parts/part-{number}"] = it.partition(":")[0]
    return titles


def _begun(story: Story) -> Iterator[str]:
    """Yield every item in which something was done, or whose text is missing."""
    keys = (it.key for it in story.steps())
    result = story.snapshot.result
    for key in (*keys, *story.snapshot.phase, *(result.missing if result else ())):
        yield from _items_of(key)


def _items_of(key: str) -> tuple[str, ...]:
    """Return the items that a step belongs to, the outermost first."""
    names = key.partition("iterations/")[0].rstrip("/").split("/")
    places = [n for n, it in enumerate(names[:-1]) if it in PARTS]
    return tuple("/".join(names[: n + 2]) for n in places)


def _by_number(at: str) -> tuple[str, int]:
    """Return what orders `section-2` before `section-10`."""
    found = NUMBER.search(at)
    return (at[: found.start()], int(found[0])) if found else (at, 0)


def _state(story: Story, item: Item) -> str:
    """Return what came of an item."""
    snapshot = story.snapshot
    is_running = any(it.startswith(f"{item.path}/") for it in snapshot.phase)
    if is_running and not snapshot.status.is_terminal:
        return "in progress"
    result = snapshot.result
    if result is not None and item.path in result.missing:
        return "missing"
    given_up = result is not None and any(
        it.code == "stage_given_up" and it.path == item.path for it in result.caveats
    )
    if given_up:
        return "given up"
    if item.best is not None:
        return "passed" if item.best.passed else "not passed"
    return "nothing judged" if item.calls else "not begun"
