"""Wordy phrases by a table, and what proselint finds: jargon, clichés, slips of usage.

proselint's checks are called on the text alone; its command line, the only part that reads a
configuration, is not imported. It reports and never edits: most replacements need a person's eye.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from workers.text.document import Document, Word
from workers.text.edits import NEGATIONS, Edit, IssueKind, TextIssue, cut, substitute
from workers.text.tables import lines, listed, verb

BE = ("is", "are", "am", "was", "were", "be", "been", "being")
ANY = ""
LETTER = r"[\w'\u2019-]"


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase, its replacement, and the words that must or must not stand beside it."""

    section: str
    source: str
    replacement: str
    starts_clause: bool
    after: frozenset[str]
    not_after: frozenset[str]
    before: frozenset[str]
    not_before: frozenset[str]
    unless: frozenset[str]
    """Words that must not stand elsewhere in the sentence."""
    is_reported_only: bool
    """Whether it is left to a person, because the replacement can change what is said."""

    @property
    def is_cut(self) -> bool:
        """Return whether the phrase is removed without a replacement."""
        return not self.replacement

    @property
    def pattern(self) -> re.Pattern[str]:
        """Return the compiled phrase; it is compiled at first use, since most are never needed."""
        return _compiled(self.source)

    def fits(self, previous: str, following: str) -> bool:
        """Return whether the phrase may stand between these words (lower case, or empty)."""
        if previous in self.not_after or following in self.not_before:
            return False
        if self.after and previous not in self.after:
            return False
        return not self.before or following in self.before or _plural(following, self.before)


def beginning_with(first: str, second: str) -> tuple[Phrase, ...]:
    """Return the phrases that may begin with these two words (lower case), the longest first."""
    found = phrases().get(first, {})
    return found.get(second) or found.get(ANY, ())


@cache
def phrases() -> dict[str, dict[str, tuple[Phrase, ...]]]:
    """Return the table by the first and the second word of each phrase, the longest phrase first.

    `ANY` holds the phrases of one word, and those whose second word is a choice.
    """
    table: dict[str, dict[str, list[tuple[int, Phrase]]]] = {}
    section = ""
    for line in lines("phrases.txt"):
        if line.startswith("["):
            section = line.strip("[]")
            continue
        for words, length, phrase in _read(section, line):
            first, second = [*words, ANY][:2]
            by_second = table.setdefault(first, {ANY: []})
            by_second.setdefault(ANY if "(" in second else second, []).append((length, phrase))
    return {first: _ordered(by_second) for first, by_second in table.items()}


def _ordered(by_second: dict[str, list[tuple[int, Phrase]]]) -> dict[str, tuple[Phrase, ...]]:
    return {
        second: tuple(
            phrase
            for _, phrase in sorted(
                found if second == ANY else found + by_second[ANY], key=_by_precedence
            )
        )
        for second, found in by_second.items()
    }


def _by_precedence(found: tuple[int, Phrase]) -> tuple[int, bool]:
    """Put the longest phrase first, and of two that are equal the one for the start of a clause."""
    length, phrase = found
    return (-length, not phrase.starts_clause)


def _read(section: str, line: str) -> Iterator[tuple[list[str], int, Phrase]]:
    """Yield every phrase that one line defines, with its words and its length."""
    rule, *conditions = (part.strip() for part in line.split(";"))
    source, _, target = (part.strip() for part in rule.partition("=>"))
    words: dict[str, frozenset[str]] = {}
    for condition in conditions:
        name = re.match(r"not after|not before|after|before|unless|start|report", condition)
        if name is None:
            raise ValueError(f"unknown condition: {line}")
        words[name[0]] = frozenset(condition[name.end() :].lower().split())
    for phrase, replacement in _inflected(source, target):
        is_clause = "start" in words or (not replacement and len(phrase.split()) > 2)
        yield (
            [word.strip(",").lower() for word in phrase.split()],
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
                unless=words.get("unless", frozenset()),
                is_reported_only="report" in words,
            ),
        )


def _inflected(source: str, target: str) -> Iterator[tuple[str, str]]:
    """Yield the phrase in every form of its verb; an ambiguous form is left out."""
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
    words = re.sub(r"(?:\\ | )+", r"\\s+", words).replace("'", "['\u2019]")
    end = rf"(?!{LETTER})" if not phrase.endswith(",") else ""
    return words + end


def _plural(word: str, before: frozenset[str]) -> bool:
    return "-s" in before and word.endswith("s") and not word.endswith(("ss", "us", "is"))


_CLAUSE_START = re.compile(r"(?:[;:—\u2013(]|,\s+(?:and|but|so))\s*\Z")
_KIND = {"plain": IssueKind.JARGON}
_COST = {"wordy": 1.0, "verb": 1.0, "redundant": 0.8, "filler": 0.8, "plain": 0.6}
_SAY = {
    "wordy": '"{old}" says no more than "{new}".',
    "verb": '"{old}" hides the verb "{new}".',
    "redundant": '"{old}" says the same thing twice.',
    "filler": '"{old}" is filler.',
    "plain": '"{old}" has a plainer word: "{new}".',
}


def wordiness(document: Document) -> Iterator[TextIssue]:
    """Report the phrases of `phrases.txt`, the longest that fits at each word."""
    reached = 0
    for word, following in zip(document.words, [*document.words[1:], None], strict=False):
        if word.start < reached or not word.is_free:
            continue
        for phrase in beginning_with(word.lower, following.lower if following else ""):
            match = phrase.pattern.match(document.masked, word.start)
            if match is None or not _fits(document, phrase, match, word):
                continue
            edit = _edit(document, phrase, match)
            if edit is not None or phrase.is_reported_only:
                yield _issue(document, phrase, match, edit)
                reached = match.end()
                break


def _fits(document: Document, phrase: Phrase, match: re.Match[str], word: Word) -> bool:
    previous = _neighbour(document, document.word_before(word.start), match.start())
    after = document.word_after(match.end())
    following = (
        after.lower if after and not document.masked[match.end() : after.start].strip() else ""
    )
    if not phrase.fits(previous, following):
        return False
    if previous in listed("determiners") and match[0].lower().endswith("ing"):
        return False  # "the initiating socket" is no socket that starts
    if phrase.unless and not phrase.unless.isdisjoint(_others(document, *match.span())):
        return False
    if phrase.starts_clause and not _starts_clause(document, match.start()):
        return False
    return not (phrase.is_cut and len(match[0].split()) == 1 and _is_negated(document, word))


def _others(document: Document, start: int, end: int) -> Iterator[str]:
    """Yield the other words of a sentence."""
    sentence = document.sentence_at(start)
    for word in sentence.words if sentence else ():
        if word.end <= start or word.start >= end:
            yield word.lower


def _neighbour(document: Document, before: Word | None, start: int) -> str:
    is_next = before is not None and not document.masked[before.end : start].strip()
    return before.lower if before is not None and is_next else ""


def _starts_clause(document: Document, start: int) -> bool:
    sentence = document.sentence_at(start)
    if sentence is None:
        return False
    opening = min(start, sentence.words[0].start)
    before = document.masked[max(opening, start - 20) : start]
    return start == opening or _CLAUSE_START.search(before) is not None


def _is_negated(document: Document, word: Word) -> bool:
    """Return whether one of the four words before negates it: "not very good" needs "very"."""
    before = [it.lower for it in document.words_before(word.start, 4)]
    return any(it in NEGATIONS or it.endswith("n't") for it in before)


def _edit(document: Document, phrase: Phrase, match: re.Match[str]) -> Edit | None:
    if phrase.is_reported_only:
        return None
    if phrase.is_cut:
        return cut(document, *match.span())
    return substitute(document, *match.span(), match.expand(phrase.replacement))


def _issue(
    document: Document, phrase: Phrase, match: re.Match[str], edit: Edit | None
) -> TextIssue:
    new = match.expand(phrase.replacement)
    old = " ".join(match[0].split())
    fix = f'Write "{new}"' if new else f'Cut "{old}"'
    return TextIssue(
        _KIND.get(phrase.section, IssueKind.WORDINESS),
        *match.span(),
        _SAY[phrase.section].format(old=old, new=new),
        f"{fix}." if edit else f"{fix}, if that says the same here.",
        edit,
        _COST[phrase.section],
    )


_KINDS = {
    "archaism": IssueKind.JARGON,
    "cliches": IssueKind.JARGON,
    "hedging": IssueKind.WORDINESS,
    "industrial_language": IssueKind.JARGON,
    "malapropisms": IssueKind.SPELLING,
    "misc.illogic": IssueKind.JARGON,
    "misc.latin": IssueKind.JARGON,
    "misc.pretension": IssueKind.JARGON,
    "misc.tense_present": IssueKind.JARGON,
    "mixed_metaphors": IssueKind.JARGON,
    "mondegreens": IssueKind.SPELLING,
    "nonwords": IssueKind.SPELLING,
    "oxymorons": IssueKind.JARGON,
    "redundancy": IssueKind.WORDINESS,
}
"""Checks in use, by the beginning of their path.

Left out are matters of taste (typography, cell phone or cellphone) and the two slow ones
(uncomparables, restricted vocabularies), which take eight of nine milliseconds.
"""


class _Result(Protocol):
    span: tuple[int, int]
    message: str
    replacements: str | None


def linted(document: Document) -> Iterator[TextIssue]:
    """Report what the chosen checks of proselint find outside protected spans."""
    text = f"\n{document.masked}\n"
    for kind, check in _checks():
        for result in check.check_with_flags(text):
            yield from _lint_issue(document, kind, result)


def _lint_issue(document: Document, kind: IssueKind, result: _Result) -> Iterator[TextIssue]:
    start, end = result.span[0] - 1, result.span[1] - 1
    quote = document.text[start:end] if start >= 0 else ""
    if quote.strip() and document.is_free(start, end) and not quote[:1].isspace():
        new = (result.replacements or "").replace("\\", "")
        fix = f'Write "{new}".' if new else "Say it in plain words, or leave it out."
        message = f'"{" ".join(quote.split())}" is {_WHAT[kind]}.'
        yield TextIssue(kind, start, end, message, fix, cost=0.7)


_WHAT = {
    IssueKind.JARGON: "jargon or a cliché",
    IssueKind.WORDINESS: "redundant or hedging",
    IssueKind.SPELLING: "not a word, or not the word that was meant",
}


@cache
def _checks() -> tuple[tuple[IssueKind, Any], ...]:
    """Return the checks in use; importing them takes 0.2 s, once."""
    register = import_module("proselint.checks").__register__
    return tuple(
        (kind, check)
        for check in register
        for path, kind in _KINDS.items()
        if check.matches_partial(path)
    )
