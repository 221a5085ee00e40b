"""Validators of dates."""

from typing import Literal

from pydantic import Field

from app.contract.validators import Validator


class WeekdaysValidator(Validator):
    """Every date that names its weekday, such as `Monday, 2026-11-23`, names the right one."""

    kind: Literal["weekdays"]
    required: bool = Field(False, description="The draft must name at least one such date.")

    def is_quick(self, draft: str) -> bool:
        """Tell whether the dates are found soon: the pattern is simple, and a date is short."""
        return len(draft) <= 50_000
