"""What was asked: the request in words and tables."""

import json
from collections.abc import Iterator

from pydantic import BaseModel

from app.contract.criteria import AUTO
from app.contract.limits import Limits
from app.service.report import words
from app.service.report.figures import counted, duration
from app.service.report.markdown import fenced, joined, listed, path, plain, table, under
from app.service.report.story import Story

RULES = {
    "threshold": "threshold",
    "max_iterations": "drafts at most",
    "patience": "drafts in a row without improvement",
    "min_improvement": "what counts as improvement",
    "max_similarity": "similarity that counts as stable",
    "tolerance": "tolerance below the best score",
    "max_seconds": "seconds at most",
    "max_tokens": "tokens at most",
    "max_cost_usd": "US dollars at most",
}
"""How every limit is called."""


def asked(story: Story) -> str:
    """Return the whole request, without the texts of its context."""
    request = story.request
    task = fenced(request.task) if request.task else "No task: the draft was to be made better."
    draft = (
        f"A draft of {counted(len(request.draft), 'character')} was given."
        if (request.draft)
        else "No draft was given."
    )
    return under(
        "## What was asked",
        task,
        draft,
        under("### Judged on", _criteria(story), _critics(story), _validators(story)),
        under("### How", listed(_how(story))),
        under("### Limits at the start", table(("limit", "value"), _limits(story.queued.limits))),
        under("### Models", _models(story), _draw(story)),
    )


def rule(name: str, limits: Limits) -> str:
    """Return one limit as it is in force."""
    value = getattr(limits, name)
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else f"{value:,}"


def _limits(limits: Limits) -> Iterator[tuple[str, str]]:
    return ((told, rule(name, limits)) for name, told in RULES.items())


def _criteria(story: Story) -> str:
    if story.snapshot.strategy in {"self_correction", "self_consistency"}:
        return "No criteria: this strategy asks no critic for scores."
    if story.request.criteria == AUTO:
        return "A critic listed the criteria from the task first."
    rows = (
        (
            plain(it.name),
            plain(it.description),
            f"{it.weight:g}",
            "" if it.floor is None else f"{it.floor:g}",
        )
        for it in story.request.judged_on()
    )
    return table(("criterion", "what it means", "weight", "floor"), rows)


def _critics(story: Story) -> str:
    critics = story.request.critics
    lines = [
        f"Critic {path(it.name)}{', adversarial' if it.adversarial else ''}"
        f"{': ' + plain(it.perspective) if it.perspective else ''}"
        for it in critics.panel
    ]
    if critics.samples > 1:
        lines.append(f"Every critic is asked {critics.samples} times; the median counts.")
    return listed(lines)


def _validators(story: Story) -> str:
    rows = (
        (path(f"validators/{index}"), path(it.kind), path(it.on_fail), _settings(it))
        for index, it in enumerate(story.request.validators)
    )
    shown = [*rows]
    return table(("validator", "kind", "when it fails", "settings"), shown) if shown else ""


def _settings(it: BaseModel) -> str:
    """Return what was set, as JSON; an endpoint is the client's own business."""
    given = it.model_dump(mode="json", exclude_defaults=True, exclude={"kind", "on_fail", "url"})
    return plain(json.dumps(given, ensure_ascii=False), 300) if given else ""


def _how(story: Story) -> Iterator[str]:
    request = story.request
    yield f"Strategy {path(request.strategy.kind)}{_parameters(request.strategy)}."
    if request.edits != "full":
        yield f"Revised by edits: {path(request.edits)}."
    for text in request.locked:
        yield f"Locked: “{plain(text, 300)}”"
    for document in request.context:
        yield f"Context: {plain(document.name)}, {counted(len(document.text), 'character')}."
    for tool in request.tools:
        yield f"Tool {path(tool.name)}: {plain(tool.description, 300)}"
    if request.review is not None:
        otherwise = words.TIMEOUTS[request.review.on_timeout]
        yield (
            f"A person is asked {words.WHENS[request.review.when]}; after"
            f" {duration(request.review.timeout_s)} without an answer {otherwise}."
        )
    if request.compare:
        yield "The result is compared, blind, with the draft it started from."
    for output in request.outputs:
        yield f"Output {path(output.name)}: {plain(output.instructions, 300)}"


def _parameters(strategy: BaseModel) -> str:
    given = strategy.model_dump(mode="json", exclude_defaults=True, exclude={"kind"})
    return f" with {plain(json.dumps(given, ensure_ascii=False))}" if given else ""


def _models(story: Story) -> str:
    queued = story.queued
    rows = (
        (path(seat), plain(model), ", ".join(map(plain, queued.fallbacks.get(seat, ()))))
        for seat, model in queued.models.items()
    )
    return table(("role", "model", "stands in"), rows) if queued.models else ""


def _draw(story: Story) -> str:
    draw = story.queued.draw
    if draw is None:
        return ""
    rows = (
        (
            plain(it.model),
            f"{it.passed} of {it.ended}",
            f"{it.mean_cost_usd:.4f}",
            f"{it.sampled:.3f}",
            "picked" if it.model == draw.picked else "",
        )
        for it in draw.candidates
    )
    head = ("candidate", "passed", "expected cost (USD)", "share drawn", "")
    return joined(
        ("The generator was drawn by what each candidate has achieved:", table(head, rows))
    )
