"""Dates and their weekdays."""

import pytest

from app.contract.validators.dates import WeekdaysValidator
from workers.validators.dates import check_weekdays


def messages(draft: str, *, required: bool = False) -> list[str]:
    validator = WeekdaysValidator(kind="weekdays", required=required)
    return [it.message for it in check_weekdays(validator, draft)]


@pytest.mark.parametrize("draft", ["Monday, 2026-11-23", "2026-11-23", "No date."])
def test_a_correct_weekday_or_none_passes(draft: str) -> None:
    assert messages(draft) == []


def test_a_wrong_weekday_is_found_where_it_stands() -> None:
    assert messages("On Friday, 2026-11-23.") == ["2026-11-23 is a Monday at line 1, column 4"]


def test_a_date_that_does_not_exist_is_found() -> None:
    assert messages("Monday, 2026-02-30") == ["2026-02-30 does not exist at line 1, column 9"]


def test_a_date_may_be_required() -> None:
    assert messages("Soon.", required=True) == ["the draft contains no date with a weekday"]
