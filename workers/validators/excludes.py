"""The `excludes` validator: texts that must not stand in a draft."""

from collections.abc import Iterator
from itertools import islice

from app.contract.validators import ExcludesValidator
from workers.validators.violation import Violation, shortened

MAX_VIOLATIONS = 20


def check_excludes(validator: ExcludesValidator, draft: str) -> Iterator[Violation]:
    """Yield a violation for each of the first places where one of the texts stands."""
    return islice(_everywhere(validator, draft), MAX_VIOLATIONS)


def _everywhere(validator: ExcludesValidator, draft: str) -> Iterator[Violation]:
    searched = draft if validator.case_sensitive else draft.casefold()
    starts = None if len(searched) == len(draft) else _starts(draft)
    for text in validator.texts:
        wanted = text if validator.case_sensitive else text.casefold()
        for at in _found(wanted, searched, whole_words=validator.whole_words):
            last = at + len(wanted) - 1
            start, end = (starts[at], starts[last] + 1) if starts else (at, last + 1)
            yield Violation(
                f"the draft contains {shortened(text)!r}, which it must not",
                "remove or reword it",
                span=(start, end),
                quote=draft[start:end] if end - start <= 200 else None,
            )


def _found(wanted: str, text: str, *, whole_words: bool) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        is_hit = not whole_words or not (
            _joined(text[at - 1 : at], wanted[0]) or _joined(wanted[-1], text[end : end + 1])
        )
        if is_hit:
            yield at
        at = text.find(wanted, end if is_hit else at + 1)


def _joined(left: str, right: str) -> bool:
    return left.isalnum() and right.isalnum()


def _starts(draft: str) -> list[int]:
    """Return which character of the draft each character of its case-folded form comes from."""
    return [index for index, each in enumerate(draft) for _ in each.casefold()]
