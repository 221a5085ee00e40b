"""Every step and what it consumed, and what all of them did together."""

from collections.abc import Iterator

from app.contract.events import StepCompleted, StepFailed
from app.service.report import figures
from app.service.report.markdown import joined, path, plain, table, under
from app.service.report.story import Story

HEAD = ("step", "kind", "model", "tokens", "cost (USD)", "seconds")
KINDS = {"ask": "model call", "check": "validation", "call": "tool call"}


def steps(story: Story) -> str:
    """Return a row for every step, and the totals of the snapshot."""
    rows = [_row(step) for step in story.steps()]
    return joined(
        (
            under("## Steps", table(HEAD, rows) if rows else "None was done."),
            under("## Totals", table(("what", "in all"), _totals(story))),
        )
    )


def _row(step: StepCompleted | StepFailed) -> tuple[str, ...]:
    figures_ = (
        figures.tokens(step.usage),
        figures.cost(step.usage),
        figures.seconds(step.usage.seconds),
    )
    if isinstance(step, StepFailed):
        return (path(step.key), "failed", "", *figures_)
    return (path(step.key), KINDS[step.kind], _model(step), *figures_)


def _model(step: StepCompleted) -> str:
    """Who answered, and whom it stood in for."""
    name = plain(step.model or "")
    if not step.tried:
        return name
    failed = ", ".join(f"{plain(it.model)} ({path(it.code)})" for it in step.tried)
    return f"{name}, in place of {failed}"


def _totals(story: Story) -> Iterator[tuple[str, str]]:
    usage = story.snapshot.usage
    yield "calls of models", f"{usage.calls:,}"
    yield "input tokens", f"{usage.input_tokens:,}"
    yield "output tokens", f"{usage.output_tokens:,}"
    yield "cost (USD)", figures.cost(usage)
    yield "seconds waiting for steps", figures.seconds(usage.seconds)
