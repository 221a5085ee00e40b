"""What happened on the way: reviews, plans and tools, failures, changed limits, lost workers."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from app.contract.drafts import draft_of
from app.contract.events import Changed, Resumed, StepCompleted, StepFailed, Stopping, ToolReply
from app.contract.limits import Limits
from app.contract.reviews import Paused, Reviewed
from app.service.report import figures, words
from app.service.report.asked import RULES, rule
from app.service.report.markdown import fenced, joined, listed, path, plain, shortened, under
from app.service.report.story import Story


def course(story: Story) -> str:
    """Return all of it, in sections; nothing for a refinement that none of it befell."""
    return joined(
        (
            under("## Reviews", *_reviews(story)),
            under("## The plan", *_plans(story)),
            under("## Steps that failed", listed(_failures(story))),
            under("## What happened on the way", listed(_happenings(story))),
        )
    )


def _reviews(story: Story) -> Iterator[str]:
    said = {word.key: (at, word) for at, word in story.of(Reviewed)}
    for at, asked in story.of(Paused):
        answer = said.get(asked.key)
        heading = f"### {path(asked.key)}"
        told = f"{figures.moment(at)}: {plain(asked.question)}"
        yield joined((heading, told, _word(*answer) if answer else "No answer yet."))


def _word(at: datetime, word: Reviewed) -> str:
    who = "A reviewer" if word.by == "reviewer" else "Nobody answered in time; it counts as if one"
    if word.by == "timeout" and word.action == "approve":
        who = "Nobody answered in time, so it counts as if a reviewer"
    told = f"{figures.moment(at)}: {who} {words.ACTIONS[word.action]}"
    told += f", with a score of {figures.score(word.score)}." if word.score is not None else "."
    if word.draft is not None:
        told += f" Their text has {figures.counted(len(word.draft), 'character')}."
    return joined((told, fenced(word.feedback) if word.feedback else ""))


def _plans(story: Story) -> Iterator[str]:
    """Give plans, calls of tools and what they answered, in the order of the journal."""
    for step in story.steps():
        if not isinstance(step, StepCompleted):
            continue
        first, _, again = step.key.partition("/again/")
        retry = f", asked again ({again})" if again else ""
        if story.snapshot.strategy == "plan_execute" and first.split("/")[-1] in {"plan", "replan"}:
            if step.kind == "ask":
                what = "The plan" if first == "plan" else "The plan, changed"
                yield joined((f"**{what}** at {path(step.key)}{retry}:", _plan(step)))
        elif isinstance(step.reply, ToolReply):
            what = "answered" if step.reply.ok else "failed"
            told = f"**The tool {what}** at {path(step.key)}:"
            yield joined((told, fenced(shortened(step.reply.text))))


def _plan(step: StepCompleted) -> str:
    text = getattr(step.reply, "text", "")
    read = _object(text)
    steps = read.get("steps") if read else None
    if not isinstance(steps, list) or not all(isinstance(it, dict) for it in steps):
        return fenced(shortened(text))
    verdict = read.get("goal_met") if read else None
    is_met = isinstance(verdict, dict) and verdict.get("met") is True
    told = "It says that the goal is met." if is_met else ""
    return joined((told, _steps(steps))) or "No step remains."


def _steps(steps: Sequence[dict[str, Any]]) -> str:
    return listed(plain(str(it.get("instruction", ""))) + _tool(it) for it in steps)


def _tool(step: dict[str, Any]) -> str:
    if not step.get("tool"):
        return ""
    arguments = json.dumps(step.get("arguments") or {}, ensure_ascii=False)
    return f" (tool {plain(str(step['tool']))}: {plain(arguments)})"


def _object(text: str) -> dict[str, Any] | None:
    """Return the JSON object in a reply, if one can be read."""
    text = draft_of(text)
    try:
        found = json.loads(text[text.find("{") : text.rfind("}") + 1])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _failures(story: Story) -> Iterator[str]:
    for step in story.steps():
        if isinstance(step, StepFailed):
            meaning = words.error_of(step.code)
            yield f"{path(step.key)}: {meaning} ({path(step.code)}: {plain(step.detail)})"


def _happenings(story: Story) -> Iterator[str]:
    limits = story.queued.limits
    for event in story.events:
        at = figures.moment(event.at)
        match event.data:
            case Changed(limits=changed):
                yield f"{at}: limits changed: {_changes(limits, changed)}."
                limits = changed
            case Stopping(reason=reason):
                yield f"{at}: told to stop. {words.reason_of(reason)}"
            case Resumed() as resumed if not _after_a_review(story, event.event):
                replayed = figures.counted(resumed.replayed, "step")
                yield (
                    f"{at}: a worker was lost or left, and another one went on;"
                    f" {replayed} came from the journal."
                )


def _after_a_review(story: Story, number: int) -> bool:
    """Whether what was resumed then had been paused: no worker was lost."""
    before = [it.data for it in story.events if it.event < number]
    claims = [index for index, it in enumerate(before) if isinstance(it, Resumed)]
    since = before[claims[-1] :] if claims else before
    return any(isinstance(it, Paused) for it in since)


def _changes(before: Limits, after: Limits) -> str:
    told = [
        f"{words_} from {rule(name, before)} to {rule(name, after)}"
        for name, words_ in RULES.items()
        if getattr(before, name) != getattr(after, name)
    ]
    return ", ".join(told) or "to what they were"
