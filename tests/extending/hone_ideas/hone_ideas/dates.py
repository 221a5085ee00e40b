"""Validators of dates."""

from typing import Literal

from pydantic import Field

from app.contract.validators import Validator


class WeekdaysValidator(Validator):
    """Each date that names a weekday, such as `Monday, 2026-11-23`, names the correct one."""

    kind: Literal["weekdays"]
    required: bool = Field(False, description="The draft must contain at least one such date.")

    def in_words(self) -> str:
        """Return how dates are written, for the model that writes the text."""
        return "writes dates as in `Monday, 2026-11-23`, each with the correct weekday"

    def is_quick(self, draft: str) -> bool:
        """Tell whether the check is fast: the pattern is simple, and a date is short."""
        return len(draft) <= 50_000
