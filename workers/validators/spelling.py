"""The `spelling` validator: the misspellings that the editor corrects."""

from collections.abc import Iterator
from itertools import islice

from app.contract.validators import SpellingValidator
from workers.models.editor.document import Document
from workers.models.editor.rules.spelling import repetitions, spelling
from workers.validators.places import violation_at
from workers.validators.violation import Violation

MAX_VIOLATIONS = 20


def check_spelling(validator: SpellingValidator, draft: str) -> Iterator[Violation]:
    """Yield the first words that are misspelled, or there twice in a row, in their order."""
    allowed = {word.casefold() for word in validator.allow}
    document = Document(draft)
    issues = sorted((*spelling(document), *repetitions(document)), key=lambda issue: issue.start)
    wrong = (it for it in issues if not _is_allowed(draft[it.start : it.end], allowed))
    for issue in islice(wrong, MAX_VIOLATIONS):
        yield violation_at(
            draft,
            issue.start,
            issue.message.removesuffix("."),
            issue.fix or "correct it",
            issue.end - issue.start,
        )


def _is_allowed(text: str, allowed: set[str]) -> bool:
    return text.casefold() in allowed or text.casefold().split()[0] in allowed
