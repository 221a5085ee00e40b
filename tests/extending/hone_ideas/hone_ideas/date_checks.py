"""The validators of dates."""

import re
from collections.abc import Iterator
from datetime import date

from hone_ideas.dates import WeekdaysValidator
from workers.validators.violation import Violation, violation_at

DATED = re.compile(
    r"\b(?P<weekday>(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day),? (?P<date>\d{4}-\d{2}-\d{2})\b"
)


def check_weekdays(validator: WeekdaysValidator, draft: str) -> Iterator[Violation]:
    """Yield the dates that have a wrong weekday or do not exist."""
    if validator.required and not DATED.search(draft):
        yield Violation("the draft contains no date with a weekday", "write: Monday, 2026-11-23")
    yield from _wrong(draft)


def _wrong(draft: str) -> Iterator[Violation]:
    for found in DATED.finditer(draft):
        try:
            weekday = f"{date.fromisoformat(found['date']):%A}"
        except ValueError:
            yield violation_at(
                draft,
                found.start("date"),
                f"{found['date']} does not exist",
                "use a date that exists",
                len(found["date"]),
            )
            continue
        if weekday != found["weekday"]:
            yield violation_at(
                draft,
                found.start("weekday"),
                f"{found['date']} is a {weekday}",
                f"write {weekday}, or correct the date",
                len(found["weekday"]),
            )
