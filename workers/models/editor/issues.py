"""What the rules report: one thing that is wrong with a text, and how to mend it."""

from dataclasses import dataclass
from enum import StrEnum

from workers.models.editor.edits import Edit


class Kind(StrEnum):
    """The classes of issues; a revision takes whole classes, the worst first."""

    SPELLING = "spelling"
    WORDINESS = "wordiness"
    SENTENCES = "sentences"
    VOICE = "voice"
    JARGON = "jargon"


@dataclass(frozen=True, slots=True)
class Issue:
    """Characters `start` to `end` (exclusive) and what is wrong with them.

    `edit` mends it without changing what the text says; without one a person has to. `cost` is its
    weight among issues of its kind.
    """

    kind: Kind
    start: int
    end: int
    message: str
    fix: str | None = None
    edit: Edit | None = None
    cost: float = 1.0
