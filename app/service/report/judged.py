"""Every draft and how it was judged, and how the result differs from the first of them."""

from app.contract.issues import Issue, IssueState
from app.contract.judgement import Finding
from app.contract.snapshot import Iteration
from app.service.diffs import diff_of
from app.service.report import figures, words
from app.service.report.markdown import fenced, joined, listed, path, plain, table, under
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
        _issues(it),
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
    told = f"{path(it.source)}, {plain(it.kind)} ({it.on_fail}): {plain(it.message)}"
    quote = f" At “{plain(it.quote, 300)}”." if it.quote else ""
    fix = f" To do: {plain(it.fix)}" if it.fix else ""
    return f"{told}{quote}{fix}"


def _issues(judged: Iteration) -> str:
    """Count them; those that are new stand among the findings, the others are told."""
    states = [issue.state for issue in judged.issues]
    counts = [f"{states.count(it)} {told}" for it, told in words.ISSUES.items() if it in states]
    told = [_issue(issue) for issue in judged.issues if issue.state is not IssueState.NEW]
    if not counts:
        return ""
    return joined((f"**Issues**: {', '.join(counts)}.", listed(told)))


def _issue(it: Issue) -> str:
    told = f"**{words.ISSUES[it.state]}**, since {path(it.since)}, {plain(it.kind)}"
    return f"{told}: {plain(it.message)}"
