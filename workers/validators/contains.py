"""The `contains` validator: texts that must stand in a draft."""

from collections.abc import Iterator

from app.contract.validators import ContainsValidator
from workers.validators.violation import Violation, shortened


def check_contains(validator: ContainsValidator, draft: str) -> Iterator[Violation]:
    """Yield a violation for every text that the draft does not hold, letter by letter."""
    folded = draft.casefold()
    for text in validator.texts:
        if validator.case_sensitive and text in draft:
            continue
        in_any_case = text.casefold() in folded
        if in_any_case and not validator.case_sensitive:
            continue
        yield Violation(
            f"the draft does not contain {shortened(text)!r}"
            + (" in this case" if in_any_case else ""),
            f"put in, letter by letter: {text}",
        )
