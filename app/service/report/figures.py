"""Scores, costs and times as a person reads them. What is unknown is said to be, never 0."""

from datetime import datetime

from app.contract.judgement import CriterionScore, Usage
from app.service.report.markdown import NOTHING, plain

NOT_MEASURED = "not measured"


def score(value: float | None) -> str:
    """Two to four decimals, cut off: never rounded up to a threshold that was missed."""
    if value is None:
        return NOT_MEASURED
    whole, _, rest = f"{int(value * 10_000 + 1e-6) / 10_000:.4f}".partition(".")
    return f"{whole}.{rest.rstrip('0').ljust(2, '0')}"


def criterion(found: CriterionScore) -> str:
    """Name and score, and the spread where there were several opinions."""
    spread = f" (spread {score(found.spread)})" if found.spread is not None else ""
    return f"{plain(found.criterion)} {score(found.score)}{spread}"


def cost(usage: Usage) -> str:
    """US dollars."""
    return "unknown" if usage.cost_usd is None else f"{usage.cost_usd:.4f}"


def tokens(usage: Usage) -> str:
    """Input and output together."""
    return f"{usage.input_tokens + usage.output_tokens:,}"


def seconds(value: float) -> str:
    """One decimal."""
    return f"{value:,.1f}"


def duration(value: float) -> str:
    """The largest of days, hours, minutes and seconds that counts it whole."""
    for noun, unit in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if value % unit == 0:
            return counted(int(value // unit), noun)
    return f"{value:g} s"


def share(value: float) -> str:
    """Whole percent, cut off: what was touched is never called untouched."""
    return f"{int(value * 100 + 1e-6)} %"


def moment(value: datetime | None) -> str:
    """Date and time to the second, in UTC."""
    return NOTHING if value is None else f"{value:%Y-%m-%d %H:%M:%S} UTC"


def answer(value: bool | None) -> str:
    """Yes, no, or a dash while nobody knows."""
    return NOTHING if value is None else "yes" if value else "no"


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural where it has one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
