"""What a reviser is told: what failed and for how long, and what may not break again."""

from app.contract.issues import IssueState
from app.contract.judgement import Finding, OnFail
from workers.engine.briefs import Task
from workers.engine.ledger import NO_ISSUES, Ledger, Tracked
from workers.engine.moves import Scored
from workers.engine.verdicts import below_floor

MOST_MENDED = 20
"""Lines about what was mended; the latest go first."""


def failures(
    task: Task, scored: Scored, threshold: float, issues: Ledger = NO_ISSUES
) -> tuple[str, ...]:
    """Return what failed, in words for the reviser: validators, floors, then weak criteria."""
    known = {it.finding: it for it in issues.open}
    demanded = [it for it in scored.findings if it.on_fail is not OnFail.WARN]
    lines = [_line(it) + _history(known.get(it)) for it in demanded]
    below = below_floor(scored.scores, task.criteria)
    weak = {it.criterion for it in scored.scores if it.score is not None and it.score < threshold}
    weak |= {criterion.name for criterion in below}
    for given in scored.scores:
        if given.criterion in weak:
            said = ": ".join(part for part in (given.criterion, given.reason) if part)
            lines.append(f"{said} (not met yet)")
    lines += [_line(it) + _history(known.get(it)) for it in scored.critique.findings]
    return tuple(lines)


def mended_in(issues: Ledger) -> tuple[str, ...]:
    """Return what earlier drafts of this line had wrong and this one has not."""
    mended = [it.finding for it in issues.mended if it.finding.on_fail is not OnFail.WARN]
    return tuple(f"{it.kind}: {it.message}" for it in mended[:MOST_MENDED])


def _line(finding: Finding) -> str:
    quoted = f' at "{finding.quote}"' if finding.quote else ""
    fix = f" Fix: {finding.fix}" if finding.fix else ""
    return f"{finding.kind}{quoted}: {finding.message}{fix}"


def _history(issue: Tracked | None) -> str:
    if issue is None or issue.state is IssueState.NEW:
        return ""
    since = issue.path.removeprefix("/")
    if issue.state is IssueState.CARRIED:
        return f" (carried since {since}: earlier attempts did not mend it)"
    return f" (came back: found first in {since}, mended, and undone again)"
