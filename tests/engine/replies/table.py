"""The corpus as a table: how many replies of each family are read, asked for again, refused."""

from collections.abc import Sequence

from tests.engine.replies import objects, texts
from tests.engine.replies.case import (
    Again,
    Case,
    Doubted,
    Dropped,
    Refuses,
    is_as_expected,
    outcome_of,
)

CASES = [*objects.CASES, *texts.CASES]
HEAD = ("replies", "read", "items dropped", "asked again", "refusals", "wrong")


def table(cases: Sequence[Case]) -> str:
    """Return the table in Markdown; a reply with dropped items counts as read too."""
    families = list(dict.fromkeys(it.family for it in cases))
    rows = [_row(family, [it for it in cases if it.family == family]) for family in families]
    rows.append(_row("all", cases))
    lines = [("family", *HEAD), ("---", *["---:"] * len(HEAD)), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _row(family: str, cases: Sequence[Case]) -> tuple[str | int, ...]:
    outcomes = [outcome_of(it) for it in cases]
    again = sum(isinstance(it, Again | Doubted) for it in outcomes)
    refused = sum(isinstance(it, Refuses) for it in outcomes)
    dropped = sum(it.items for it in outcomes if isinstance(it, Dropped))
    wrong = sum(not is_as_expected(*each) for each in zip(cases, outcomes, strict=True))
    return (family, len(cases), len(cases) - again - refused, dropped, again, refused, wrong)
