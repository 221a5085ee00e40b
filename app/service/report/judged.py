"""Every draft and how it was judged, and how the result differs from the first of them."""

from collections.abc import Iterator

from app.contract.issues import Issue
from app.contract.judgement import Finding
from app.contract.snapshot import Iteration
from app.service.diffs import diff_of
from app.service.report import figures, words
from app.service.report.markdown import fenced, listed, path, plain, table, under
from app.service.report.story import Story

HEAD = (
    "iteration",
    "revised from",
    "score",
    "criteria",
    "passed",
    "findings",
    "untouched",
    "tokens",
    "cost (USD)",
    "seconds",
)


def iterations(story: Story) -> str:
    """Return a table of all drafts, and what was said about each."""
    if not story.iterations:
        return ""
    best = story.best()
    rows = (_row(it, is_best=best is not None and it.path == best.path) for it in story.iterations)
    return under(
        "## Iterations",
        table(HEAD, rows),
        *(_told(it) for it in story.iterations),
    )


def difference(story: Story) -> str:
    """Return what makes the result of the first draft, as a unified diff."""
    first, best = story.first(), story.best()
    if first is None or best is None:
        return ""
    heading = f"## From {path(first.path)} to {path(best.path)}"
    if first.sha256 == best.sha256:
        return under("## What has changed", "Nothing: the first draft is the best one.")
    return under(heading, fenced(diff_of(first, best).unified, "diff"))


def _row(it: Iteration, *, is_best: bool) -> tuple[str, ...]:
    return (
        f"{path(it.path)} (best)" if is_best else path(it.path),
        path(it.parent) if it.parent else "",
        figures.score(it.score),
        ", ".join(map(figures.criterion, it.scores)),
        figures.answer(it.passed),
        str(len(it.findings)),
        figures.share(it.edits.untouched) if it.edits else "",
        figures.tokens(it.usage),
        figures.cost(it.usage),
        figures.seconds(it.usage.seconds),
    )


def _told(it: Iteration) -> str:
    passed = "passed" if it.passed else "not passed"
    told = f"Score {figures.score(it.score)}, {passed}{_saved(it)}."
    return under(
        f"### {path(it.path)}",
        told,
        under("**Asked to change**", listed(map(plain, it.asked))),
        _criteria(it),
        under("**Findings**", listed(map(_finding, it.findings))),
        under("**Issues**", listed(map(_issue, it.issues))),
        under("**Strengths**", listed(map(plain, it.strengths))),
        under("**Weaknesses**", listed(map(plain, it.weaknesses))),
        under("**Suggestions**", listed(map(plain, it.suggestions))),
    )


def _saved(it: Iteration) -> str:
    if it.edits is None:
        return ""
    made = figures.counted(it.edits.applied, "edit")
    told = f"; made by {made} that left {figures.share(it.edits.untouched)} untouched"
    saved = it.edits.output_tokens_saved
    if saved is None:
        return told
    return f"{told} and {'saved' if saved >= 0 else 'cost'} {abs(saved):,} output tokens"


def _criteria(it: Iteration) -> str:
    rows = [
        (
            plain(found.criterion),
            figures.score(found.score),
            "" if found.spread is None else figures.score(found.spread),
            plain(found.reason),
            "; ".join(f"“{plain(quoted.quote, 300)}”" for quoted in found.evidence),
        )
        for found in it.scores
    ]
    return table(("criterion", "score", "spread", "why", "evidence"), rows) if rows else ""


def _finding(it: Finding) -> str:
    return "".join(_parts(it, f"{path(it.source)}, {plain(it.kind)} ({it.on_fail}): "))


def _issue(it: Issue) -> str:
    since = "" if it.state == "new" else f" since {path(it.since)}"
    return "".join(_parts(it, f"**{words.ISSUES[it.state]}**{since}, {plain(it.kind)}: "))


def _parts(it: Finding | Issue, before: str) -> Iterator[str]:
    yield f"{before}{plain(it.message)}"
    if it.quote:
        yield f" At “{plain(it.quote, 300)}”."
    if it.fix:
        yield f" To do: {plain(it.fix)}"
