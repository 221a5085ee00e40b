"""How it ended, or stands, and what it came to."""

from collections.abc import Iterator

from app.contract.comparisons import Comparison
from app.contract.snapshot import Snapshot
from app.contract.status import Status
from app.service.report import figures, words
from app.service.report.markdown import fenced, joined, listed, path, plain, table, under
from app.service.report.story import Story


def ending(story: Story) -> str:
    """Return how it ended and why, in words, with the facts in a table."""
    it = story.snapshot
    told = f"**{it.status.value.capitalize()}.** {words.STATUSES[it.status]}"
    if it.stop_reason:
        told += f" {words.reason_of(it.stop_reason)}"
    return joined((told, _error(it), _asked(it), table(("fact", "value"), _facts(it))))


def result(story: Story) -> str:
    """Return the result with what its score means, or the best draft of one that goes on."""
    snapshot, best = story.snapshot, story.best()
    if snapshot.result is not None:
        it = snapshot.result
        facts = (
            f"{_measured(it.score, it.score_from)} It is the draft at {path(it.path)}.",
            f"Missing: {', '.join(map(path, it.missing))}." if it.missing else "",
            fenced(it.draft),
            _compared(it.comparison),
            *(f"### Output: {path(name)}\n\n{fenced(text)}" for name, text in it.outputs.items()),
        )
        return under("## The result", *facts)
    if best is not None:
        told = f"{_measured(best.score, best.score_from)} It is the draft at {path(best.path)}."
        return under("## The best draft so far", told, fenced(best.draft))
    what = "No draft was judged." if snapshot.status.is_terminal else "No draft is judged yet."
    return under("## The result", what)


def _measured(score: float | None, score_from: str) -> str:
    meaning = words.SCORES_FROM[score_from]
    if score is None:
        return f"Its score was not measured (it would be {meaning})."
    return f"Its score is **{figures.score(score)}**: {meaning}."


def _error(it: Snapshot) -> str:
    if it.error is None:
        return ""
    told = words.error_of(it.error.code)
    return f"{told} ({path(it.error.code)}: {plain(it.error.detail)})"


def _asked(it: Snapshot) -> str:
    if it.review is None or it.status is not Status.PAUSED:
        return ""
    until = figures.moment(it.review.deadline)
    otherwise = words.TIMEOUTS[it.review.on_timeout]
    return (
        f"What is asked: {plain(it.review.question)} Without an answer until {until}, {otherwise}."
    )


def _facts(it: Snapshot) -> Iterator[tuple[str, str]]:
    yield "status", path(it.status)
    if it.stop_reason:
        yield "stop reason", path(it.stop_reason)
    if it.status.is_terminal:
        yield "passed", figures.answer(it.passed)
    if it.best is not None:
        yield "best score", f"{figures.score(it.best.score)}; threshold {it.threshold:g}"
    yield "strategy", path(it.strategy)
    if it.phase and not it.status.is_terminal:
        yield "under way", ", ".join(map(path, it.phase))
    if it.parent:
        yield "continues", path(it.parent)
    yield "submitted", figures.moment(it.created_at)
    yield "started", figures.moment(it.started_at)
    if it.ended_at:
        yield "ended", figures.moment(it.ended_at)
    for name, value in it.metadata.items():
        yield f"metadata {plain(name)}", plain(value)


def _compared(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    names = {"earlier": "the earlier draft", "result": "the result", "tie": "neither"}
    said = (
        f"With {names[it.first]} first, {names[it.better]} was better: {plain(it.reason)}"
        for it in comparison.orders
    )
    told = words.VERDICTS[comparison.verdict]
    if not comparison.orders:
        told = "The result is the very draft it started from: nobody was asked which is better."
    told = f"{told} (Compared with {path(comparison.against)}.)"
    return under("### Compared with where it started", told, listed(said))
