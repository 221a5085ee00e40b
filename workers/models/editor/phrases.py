"""The table of wordy phrases: how a line is read, and where it matches."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from workers.models.editor.tables import lines, verb

BE = ("is", "are", "am", "was", "were", "be", "been", "being")
LETTER = r"[\w'’-]"


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase, what replaces it, and the words beside which it is left alone."""

    section: str
    source: str
    replacement: str
    starts_clause: bool
    after: frozenset[str]
    not_after: frozenset[str]
    before: frozenset[str]
    not_before: frozenset[str]

    @property
    def is_cut(self) -> bool:
        """Tell whether nothing takes the phrase's place."""
        return not self.replacement

    @property
    def pattern(self) -> re.Pattern[str]:
        """Return the compiled phrase; most phrases are never needed."""
        return _compiled(self.source)

    def fits(self, previous: str, following: str) -> bool:
        """Tell whether the phrase may stand between these words (lower case, or empty)."""
        if previous in self.not_after or following in self.not_before:
            return False
        if self.after and previous not in self.after:
            return False
        return not self.before or following in self.before or _plural(following, self.before)


@cache
def phrases() -> dict[str, tuple[Phrase, ...]]:
    """Return the table by the first word of each phrase, the longest phrase first."""
    table: dict[str, list[tuple[int, Phrase]]] = {}
    section = ""
    for line in lines("phrases.txt"):
        if line.startswith("["):
            section = line.strip("[]")
            continue
        for first, length, phrase in _read(section, line):
            table.setdefault(first, []).append((length, phrase))
    return {
        first: tuple(phrase for _, phrase in sorted(found, key=_by_precedence))
        for first, found in table.items()
    }


def _by_precedence(found: tuple[int, Phrase]) -> tuple[int, bool]:
    """Put the longest phrase first, and of two that are equal the one for the start of a clause."""
    length, phrase = found
    return (-length, not phrase.starts_clause)


def _read(section: str, line: str) -> Iterator[tuple[str, int, Phrase]]:
    """Give every phrase that one line stands for, with its first word and its length."""
    rule, *conditions = (part.strip() for part in line.split(";"))
    source, _, target = (part.strip() for part in rule.partition("=>"))
    words: dict[str, frozenset[str]] = {}
    for condition in conditions:
        name = re.match(r"not after|not before|after|before|start", condition)
        if name is None:
            raise ValueError(f"a condition that nobody knows: {line}")
        words[name[0]] = frozenset(condition[name.end() :].lower().split())
    for phrase, replacement in _inflected(source, target):
        is_clause = "start" in words or (not replacement and len(phrase.split()) > 2)
        yield (
            phrase.split()[0].strip(",").lower(),
            len(phrase),
            Phrase(
                section=section,
                source=_pattern(phrase),
                replacement=replacement,
                starts_clause=is_clause,
                after=words.get("after", frozenset()),
                not_after=words.get("not after", frozenset()),
                before=words.get("before", frozenset()),
                not_before=words.get("not before", frozenset()),
            ),
        )


def _inflected(source: str, target: str) -> Iterator[tuple[str, str]]:
    """Give the phrase in every form of its verb; a form that could mean two things is left out."""
    named = re.search(r"<(\w+)>", source)
    if named is None:
        yield source, target
        return
    into = re.search(r"<(\w+)>", target)
    new = _forms(into[1], named[1]) if into else (target,) * 8
    pairs: dict[str, set[str]] = {}
    for old_form, new_form in zip(_forms(named[1], named[1]), new, strict=False):
        replaced = re.sub(r"<\w+>", new_form, target) if into else target
        pairs.setdefault(source.replace(named[0], old_form), set()).add(replaced)
    yield from ((phrase, found.pop()) for phrase, found in pairs.items() if len(found) == 1)


def _forms(name: str, source: str) -> tuple[str, ...]:
    """Return the forms of a verb in the order of the source verb's forms."""
    if name == "be":
        return BE
    forms = verb(name)
    if source != "be":
        return forms.forms()
    return (
        *(forms.third, forms.base, forms.base, forms.past, forms.past),
        *(forms.base, forms.participle, forms.ing),
    )


@cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source, re.IGNORECASE)


def _pattern(phrase: str) -> str:
    words = "".join(
        part if part.startswith("(") else re.escape(part)
        for part in re.split(r"(\([^)]*\))", phrase)
    )
    words = re.sub(r"(?:\\ | )+", r"\\s+", words).replace("'", "['’]")
    end = rf"(?!{LETTER})" if not phrase.endswith(",") else ""
    return words + end


def _plural(word: str, before: frozenset[str]) -> bool:
    return "-s" in before and word.endswith("s") and not word.endswith(("ss", "us", "is"))
