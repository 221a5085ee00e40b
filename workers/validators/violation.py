"""What a validator says about a draft, before it is known which validator of the request it was."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that the draft breaks; `span` counts code points, its end exclusive."""

    message: str
    fix: str
    span: tuple[int, int] | None = None
    quote: str | None = None


def shortened(text: str, most: int = 80) -> str:
    """Return the text, or its beginning and an ellipsis, in at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
