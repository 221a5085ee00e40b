"""Violations of a draft, and the error of a validator that cannot run."""

import re
from dataclasses import dataclass, replace

from app.contract.drafts import BYTE_ORDER_MARK, draft_of

MAX_DEPTH = 100
"""Levels of nesting that a document may have."""


MAX_VIOLATIONS = 20
"""Violations that a validator reports at most; `first_findings` takes no more."""

HIDES_OTHERS = MAX_VIOLATIONS + 1
"""The weight of a violation that keeps the rest from being checked, such as a syntax error: more
than that of all others together."""


LONGEST = 4_000
"""Characters of a message, a fix or a reason at most."""

OTHER_FENCE = re.compile(
    r"\s*+(?P<fence>`{4,}+|~{3,}+)[^\n`]*\n(?P<body>.*?)\n?(?P=fence)\s*+", re.DOTALL
)
"""A code fence that a model's reply is not freed of: one of tildes, or one around other fences."""


class ValidatorUnavailable(Exception):
    """The validator cannot run, whatever the draft; `detail` says why and what to change."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class CheckFailed(Exception):
    """A check raised what no check may, or gave what none may; the text says what."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that the draft violates; `span` counts code points, its end is exclusive.

    `weight` is how much it counts against the draft when drafts are compared.
    """

    message: str
    fix: str
    span: tuple[int, int] | None = None
    quote: str | None = None
    weight: float = 1
    skipped: bool = False
    """Whether the validator did not run, so that the draft may have other violations."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The score of a draft, from 0 to 1, by a validator that the request lets give one."""

    score: float
    reason: str


def sound(found: object, draft: str) -> Violation | Measurement:
    """Return what a check has found in a draft, its texts in a length and form that can be kept.

    Raises TypeError or ValueError for what no check may give.
    """
    match found:
        case Measurement(score, reason) if 0 <= score <= 1:
            return replace(found, reason=_kept(reason))
        case Measurement(score):
            raise ValueError(f"a score is from 0 to 1, not {score!r}")
        case Violation(span=(start, end)) if not 0 <= start <= end <= len(draft):
            raise ValueError(f"the span {found.span} is not in the draft")
        case Violation(message, fix):
            return replace(found, message=_kept(message), fix=_kept(fix))
    raise TypeError(f"a check gives Violation and Measurement, not {found!r}")


def _kept(text: str) -> str:
    return abbreviated(text.encode("utf-8", "replace").decode(), LONGEST)


def abbreviated(text: str, most: int = 80) -> str:
    """Return the text, or its beginning and an ellipsis, in at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def spot(draft: str, at: int) -> str:
    """Return `line 3, column 8` for an offset."""
    return f"line {draft.count(chr(10), 0, at) + 1}, column {at - draft.rfind(chr(10), 0, at)}"


def offset_of(text: str, line: int, column: int) -> int:
    """Return the offset of a line and column, or the nearest one in the text."""
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1 or len(text)
    return max(0, min(start + column - 1, len(text)))


class Body:
    """The document of a draft, without a code fence around it; violations of it are the draft's.

    A byte order mark is no part of a document.
    """

    def __init__(self, draft: str) -> None:
        self.draft = draft
        bare = draft.removeprefix(BYTE_ORDER_MARK)
        fenced = OTHER_FENCE.fullmatch(bare)
        text = fenced["body"] if fenced else draft_of(bare)
        # A fence may leave half of a line end.
        self.text = text.removeprefix(BYTE_ORDER_MARK).removesuffix("\r")
        self.start = draft.find(self.text)

    def violation(
        self, at: int, message: str, fix: str, length: int = 1, weight: float = 1
    ) -> Violation:
        """Return a violation at an offset in the document, as `violation_at` does."""
        return violation_at(self.draft, self.start + at, message, fix, length, weight)


def excess(given: float, bound: float) -> float:
    """Return the weight of a bound that is not met: 1, and up to 1 more by the distance to it."""
    return 1 + round(min(1.0, abs(given - bound) / max(1.0, abs(bound))), 6)


def violation_at(
    draft: str, at: int, message: str, fix: str, length: int = 1, weight: float = 1
) -> Violation:
    """Return a violation whose message ends with line and column; its span has `length`."""
    start = max(0, min(at, len(draft)))
    end = min(start + length, len(draft))
    quote = draft[start:end]
    return Violation(
        f"{message} at {spot(draft, start)}",
        fix,
        span=(start, end),
        quote=quote if quote.strip() and len(quote) <= 200 else None,
        weight=weight,
    )
