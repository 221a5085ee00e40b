"""The editor's rules applied to a text, and the scores that follow.

The rules are long sentences, passive voice, punctuation, wordy phrases, and proselint's, whose
checks are called on the text alone. Its command line, the only part that reads a configuration, is
not imported. It reports jargon, clichés and slips of usage, and never edits: most replacements need
a person's eye.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from math import exp, log
from typing import Any, Protocol

from workers.text.document import Document, Sentence, Word
from workers.text.edits import Edit, IssueKind, TextIssue, checked, substitute
from workers.text.readability import TextCounts, flesch_reading_ease, grade
from workers.text.spelling import repetitions, spelling
from workers.text.tables import alternatives, known_words, lines, misspellings, word_list

SOON = 4
"""Words before a phrase that are near enough to make its replacement unclear."""

BE = ("is", "are", "am", "was", "were", "be", "been", "being")
LETTER = r"[\w'\u2019-]"


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase, its replacement, and the words that must not stand beside it."""

    kind: IssueKind
    source: str
    replacement: str
    not_after: frozenset[str]
    not_soon_after: frozenset[str]
    """Words that must not be among the `SOON` before."""
    not_before: frozenset[str]
    unless: frozenset[str]
    """Words that must not stand elsewhere in the sentence."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """Return the compiled phrase; it is compiled at first use, since most are never needed."""
        return _compiled(self.source)

    def fits(self, previous: str, following: str) -> bool:
        """Return whether the phrase may stand between these words (lower case, or empty)."""
        return previous not in self.not_after and following not in self.not_before


@cache
def phrases() -> dict[str, tuple[Phrase, ...]]:
    """Return the phrases of `phrases.txt` by their first word."""
    table: dict[str, tuple[Phrase, ...]] = {}
    kind = IssueKind.WORDINESS
    for line in lines("phrases.txt"):
        if line.startswith("["):
            kind = IssueKind(line.strip("[]"))
            continue
        first = line.split()[0]
        table[first] = (*table.get(first, ()), _read(kind, line))
    return table


def _read(kind: IssueKind, line: str) -> Phrase:
    rule, *conditions = (part.strip() for part in line.split(";"))
    source, _, replacement = (part.strip() for part in rule.partition("=>"))
    words: dict[str, frozenset[str]] = {}
    for condition in conditions:
        name = re.match("not soon after|not after|not before|unless", condition)
        if name is None:
            raise ValueError(f"unknown condition: {line}")
        words[name[0]] = _condition(condition[name.end() :])
    return Phrase(
        kind=kind,
        source=_pattern(source),
        replacement=replacement,
        not_after=words.get("not after", frozenset()),
        not_soon_after=words.get("not soon after", frozenset()),
        not_before=words.get("not before", frozenset()),
        unless=words.get("unless", frozenset()),
    )


def _condition(words: str) -> frozenset[str]:
    """Return the words of a condition, "-determiner" replaced with what opens a noun phrase."""
    found = frozenset(words.lower().split())
    if "-determiner" not in found:
        return found
    return found - {"-determiner"} | word_list("determiners") | _OBJECTS


_OBJECTS = frozenset({"me", "you", "him", "us", "them", "it"})


@cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source, re.IGNORECASE)


def _pattern(phrase: str) -> str:
    return phrase.replace(" ", r"\s+") + f"(?!{LETTER})"


def wordiness(document: Document) -> Iterator[TextIssue]:
    """Report the phrases of `phrases.txt` that have a replacement where they stand."""
    for word in document.words:
        for phrase in phrases().get(word.lower, ()) if word.is_free else ():
            match = phrase.pattern.match(document.masked, word.start)
            if match is None or not _fits(document, phrase, match):
                continue
            new = phrase.replacement
            edit = substitute(document, *match.span(), new)
            if edit is not None:
                old = " ".join(match[0].split())
                message = f'"{old}" says no more than "{new}".'
                yield TextIssue(phrase.kind, *match.span(), message, f'Write "{new}".', edit)
                break


def _fits(document: Document, phrase: Phrase, match: re.Match[str]) -> bool:
    start, end = match.span()
    before, after = document.word_before(start), document.word_after(end)
    previous = before.lower if before and not document.masked[before.end : start].strip() else ""
    following = after.lower if after and not document.masked[end : after.start].strip() else ""
    soon = {word.lower for word in document.words_before(start, SOON)}
    return (
        phrase.fits(previous, following)
        and phrase.not_soon_after.isdisjoint(soon)
        and (not phrase.unless or phrase.unless.isdisjoint(_others(document, start, end)))
    )


def _others(document: Document, start: int, end: int) -> Iterator[str]:
    """Yield the other words of a sentence."""
    sentence = document.sentence_at(start)
    for word in sentence.words if sentence else ():
        if word.end <= start or word.start >= end:
            yield word.lower


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


LONG = 25
"""Words from which a sentence is long (the limit of the plain-language guides of gov.uk)."""

SHORTEST = 6
"""Words that each half of a divided sentence must have."""

LONGEST = 150
"""Words of the longest sentence that is looked into; a longer one is a list or a table."""

_AUX = alternatives("auxiliaries")
_VERB = re.compile(rf"\b(?:{alternatives('auxiliaries', 'finite')}|\w{{2,}}ed)\b", re.IGNORECASE)
_PRONOUN = (
    r"(?:(?:we|you|they|it|he|she|I)(?:['\u2019](?:re|ve|ll|s|d|m))?\b(?!\s+(?:and|or)\b)"
    rf"|(?:this|there)\s+(?:{_AUX}|means|makes)\b)"
)
_NOT_IN_IT = alternatives("auxiliaries", "ends a noun phrase")
_NOUN = (
    rf"(?:{alternatives('determiners')})\s+(?:(?!(?:{_NOT_IN_IT})\b)[a-z-]+\s+){{1,3}}(?:{_AUX})\b"
)
_SUBJECT = rf"(?:{_PRONOUN}|{_NOUN})"
_JOINTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(rf",(?P<gap>\s+)but(?=\s+{_SUBJECT})"), "But"),
)
"""Where a clause begins that can stand alone, and how it begins then."""
_DEPENDENT = re.compile(rf"\W*(?:{alternatives('dependent')})\b", re.IGNORECASE)
_HOLDS_ON = re.compile(rf"\b(?:{alternatives('holds on')})\b", re.IGNORECASE)
_CONDITIONAL = re.compile(rf"\b(?:{alternatives('conditional')})\b", re.IGNORECASE)


def long_sentences(document: Document) -> Iterator[TextIssue]:
    """Report sentences of more than `LONG` words, divided where an independent clause begins."""
    for sentence in document.sentences:
        count = len(sentence.words)
        if count > LONG:
            edit = _division(document, sentence)
            yield TextIssue(
                IssueKind.SENTENCES,
                sentence.start,
                sentence.end,
                f"This sentence has {count} words; the recommended limit is {LONG}.",
                "Divide it in two." if edit else "Divide it, or cut what the reader does not need.",
                edit,
                (count - LONG) / LONG,
            )


def _division(document: Document, sentence: Sentence) -> Edit | None:
    """Return the edit that divides the sentence nearest to its middle, if one is safe."""
    text = document.masked[sentence.start : sentence.end]
    if (
        document.is_lower_case
        or _BEGAN_BEFORE.search(document.masked[max(0, sentence.start - 80) : sentence.start])
        or len(sentence.words) > LONGEST
        or text.rstrip().endswith(("?", ":"))
    ):
        return None
    middle = (sentence.words[0].start + sentence.words[-1].end) / 2
    found = [
        edit
        for match, opening in _openings(document, sentence)
        if (edit := _checked(document, sentence, match, opening)) is not None
    ]
    return min(found, key=lambda edit: abs(edit.start - middle), default=None)


_BEGAN_BEFORE = re.compile(r"[a-z,][ \t]*\n[ \t]*\Z")
"""The line before a sentence that begins with code in the middle of a paragraph."""

_RUN_ON = re.compile(
    rf",\s+(?!(?:{alternatives('dependent')}|who|which|that)\b)(?:[\w'-]+\s+){{1,4}}(?:{_AUX})\b"
)


def _openings(document: Document, sentence: Sentence) -> Iterator[tuple[re.Match[str], str]]:
    for pattern, opening in _JOINTS:
        for match in pattern.finditer(document.masked, sentence.start, sentence.end):
            first = document.masked[sentence.start : match.start()]
            after = document.masked[sentence.end : sentence.end + 40].lstrip()
            repeats = after.startswith(opening)
            if not (repeats or _CONDITIONAL.search(first) or _is_list_of_clauses(first)):
                yield match, opening


def _is_list_of_clauses(first: str) -> bool:
    """Return whether clauses are joined by a comma alone: "A is x, B is y", before "and C is z"."""
    return any(_VERB.search(first[: comma.start()]) for comma in _RUN_ON.finditer(first))


def _checked(
    document: Document, sentence: Sentence, match: re.Match[str], opening: str
) -> Edit | None:
    """Return the edit that divides the sentence here, or None if a half would be incomplete."""
    first = document.masked[sentence.start : match.start()]
    left = sum(word.end <= match.start() for word in sentence.words)
    right = sum(word.start >= match.end() for word in sentence.words)
    if min(left, right) < SHORTEST or first[-1:].isspace() or not _stands_alone(first):
        return None
    gap = document.text[slice(*match.span("gap"))]
    return checked(document, Edit(match.start(), match.end(), f".{gap}{opening}"))


def _stands_alone(first: str) -> bool:
    """Return whether the words before a division are a complete clause with a verb."""
    if first.count("(") != first.count(")") or first.count("[") != first.count("]"):
        return False
    clause = first.rpartition(";")[2]
    if _DEPENDENT.match(clause):
        _, comma, clause = clause.partition(",")
        if not comma:
            return False
    return _VERB.search(clause) is not None and _HOLDS_ON.search(clause) is None


def passives(document: Document) -> Iterator[TextIssue]:
    """Report each sentence in the passive."""
    for sentence in document.sentences:
        found = _passive(sentence.words)
        if found is not None:
            first, last = found
            quote = " ".join(document.text[first.start : last.end].split())
            fix = "Use the active voice: say who does it."
            yield TextIssue(IssueKind.VOICE, first.start, last.end, f'"{quote}" is passive.', fix)


def _passive(words: tuple[Word, ...]) -> tuple[Word, Word] | None:
    """Return the first form of "be" with its participle, at most two adverbs between them."""
    for at, word in enumerate(words):
        if word.lower not in BE or not word.is_free:
            continue
        for following in words[at + 1 : at + 4]:
            if _is_participle(following.lower):
                return word, following
            if following.lower not in word_list("between") and not following.lower.endswith("ly"):
                break
    return None


def _is_participle(word: str) -> bool:
    if word in word_list("adjectives"):
        return False
    return (
        word.endswith("ed") and len(word) > 4 and not word.endswith("eed")
    ) or word in word_list("participles")


_SPEAKS_OF_MISSPELLINGS = re.compile(r"mis-?spel|\btypos?\b", re.IGNORECASE)


def misspelled(document: Document) -> Iterator[TextIssue]:
    """Report what `spelling` finds; a text that speaks of misspellings may show them."""
    if not _SPEAKS_OF_MISSPELLINGS.search(document.text):
        yield from spelling(document)


_COMMON = f"so|then|{alternatives('common')}"
_SLIPS = (
    (re.compile(r" (?<=[a-z]{3} ),(?=\s+[a-z])"), ",", "a space before a comma"),
    (re.compile(rf" (?<=[a-z]{{3}} ),(?=(?:{_COMMON})\s)"), ", ", "a space before a comma"),
    (
        re.compile(r" (?<=[a-z]{3} )(?P<x>[!?])(?=\s+[A-Z]|\s*\Z)"),
        r"\g<x>",
        "a space before a sign",
    ),
    (re.compile(rf",(?<=[a-z]{{3}},)(?=(?:{_COMMON})\s)"), ", ", "no space after a comma"),
    (re.compile(r",(?<=[^\W\d_],),+(?=\s)"), ",", "two commas"),
)


def punctuation(document: Document) -> Iterator[TextIssue]:
    """Report stray spaces and doubled commas; what a text does more than once is its manner."""
    for pattern, new, what in _SLIPS:
        found = list(pattern.finditer(document.masked))
        for match in found if len(found) == 1 else ():
            edit = checked(document, Edit(*match.span(), match.expand(new)))
            if edit is not None and "\n" not in match[0]:
                yield TextIssue(
                    IssueKind.SPELLING,
                    *match.span(),
                    f"There is {what}.",
                    "Correct it.",
                    edit,
                    cost=0.5,
                )


Rule = Callable[[Document], Iterator[TextIssue]]

_SPANNING = frozenset({IssueKind.SENTENCES, IssueKind.VOICE})
"""Kinds that concern a whole sentence, so that other issues may lie inside."""

RULES: tuple[Rule, ...] = (
    misspelled,
    repetitions,
    punctuation,
    wordiness,
    long_sentences,
    passives,
    linted,
)


def issues(document: Document) -> tuple[TextIssue, ...]:
    """Return every issue in the order of the text; where issues overlap, the earlier rule wins."""
    taken: list[TextIssue] = []
    marked: set[int] = set()
    for rule in RULES:
        for issue in rule(document):
            places = range(issue.start, issue.end)
            if issue.kind in _SPANNING or marked.isdisjoint(places):
                if issue.kind not in _SPANNING:
                    marked.update(places)
                taken.append(issue)
    return tuple(sorted(taken, key=lambda issue: (issue.start, issue.end, issue.message)))


FEWEST_WORDS = 50
"""A shorter text is scored as if it had that many words: one slip must not ruin its score."""

FEWEST_JUDGED = 3
"""Different words from which a text says enough to be judged: in fewer hardly anything can be
wrong, so that finding nothing says nothing. A subject line has more."""

LEAST_ENGLISH = 0.15
"""Share of the commonest English words from which a text counts as English; mostly it is 0.4."""

LEAST_KNOWN = 0.4
"""Share of the other words, of five letters or more, that are known to be English from which a
text counts as English: in 82 manuals at least 0.54, in three of other languages at most 0.33."""

FEWEST_UNKNOWN = 3
"""Unknown words from which that share counts in a text with common words."""

HALVED_BY = {IssueKind.SPELLING: 1.1, IssueKind.WORDINESS: 2.0, IssueKind.JARGON: 2.0}
"""How many issues in 100 words halve the score of their kind."""

WEIGHTS: Mapping[IssueKind | None, float] = {
    IssueKind.SPELLING: 0.25,
    IssueKind.WORDINESS: 0.3,
    IssueKind.SENTENCES: 0.18,
    IssueKind.VOICE: 0.05,
    IssueKind.JARGON: 0.07,
    None: 0.15,
}
"""What quality is made of; None stands for the readability formulas."""


@dataclass(frozen=True)
class Analysis:
    """A document, what the rules found in it, and the scores that follow."""

    document: Document

    @cached_property
    def issues(self) -> tuple[TextIssue, ...]:
        """Return every issue in the order of the text."""
        return issues(self.document)

    @cached_property
    def counts(self) -> TextCounts:
        """Return what the readability formulas count."""
        return TextCounts.of(self.document.sentences)

    @property
    def is_readable(self) -> bool:
        """Return whether there is English prose to measure: common words, and others it knows."""
        read = [word.lower for word in self.document.words]
        common = sum(word in word_list("common") for word in read)
        if len(read) < 20:
            is_english = 2 * sum(word.isascii() for word in read) > len(read)
        else:
            is_english = common / len(read) >= LEAST_ENGLISH
        return is_english and self._is_known(common)

    def _is_known(self, common: int) -> bool:
        """Return whether enough of the words are English ones, spelled right or wrong."""
        others = {
            word.lower
            for word in self.document.words
            if len(word.text) > 4 and word.text.isalpha() and word.text not in self.document.names
        } - word_list("common")
        known = sum(word in known_words() or word in misspellings() for word in others)
        is_too_short = common > 0 and len(others) - known < FEWEST_UNKNOWN
        return is_too_short or known >= LEAST_KNOWN * len(others)

    @property
    def says_enough(self) -> bool:
        """Return whether the text is long enough to be judged."""
        return len({word.lower for word in self.document.words}) >= FEWEST_JUDGED

    def of(self, kind: IssueKind) -> tuple[TextIssue, ...]:
        """Return the issues of one kind."""
        return tuple(issue for issue in self.issues if issue.kind is kind)

    def score(self, kind: IssueKind) -> float:
        """Return the score of one kind of issue; 1 means that there is none."""
        return self._score(kind, self.of(kind))

    def score_without(self, kind: IssueKind) -> float:
        """Return what `score` would be without the issues that have an edit."""
        return self._score(kind, [issue for issue in self.of(kind) if issue.edit is None])

    @cached_property
    def reading_ease(self) -> float:
        """Return Flesch Reading Ease."""
        return flesch_reading_ease(self.counts)

    @cached_property
    def grade(self) -> float:
        """Return the mean school year of four formulas."""
        return grade(self.counts)

    @property
    def readability(self) -> float:
        """Return how easy the text is to read: 0.5 at grade 14, 0.9 at grade 9."""
        return 1 / (1 + exp((min(self.grade, 100.0) - 14) / 2.3))

    @property
    def quality(self) -> float:
        """Return the weighted mean of all kinds of issues and of readability."""
        parts = {kind: self.score(kind) if kind else self.readability for kind in WEIGHTS}
        return sum(weight * parts[kind] for kind, weight in WEIGHTS.items())

    def _score(self, kind: IssueKind, found: tuple[TextIssue, ...] | list[TextIssue]) -> float:
        if kind is IssueKind.VOICE:
            return 1 - min(1.0, len(found) / self.counts.sentences)
        if kind is IssueKind.SENTENCES:
            return self._sentences(found)
        density = 100 * sum(issue.cost for issue in found) / max(FEWEST_WORDS, self.counts.words)
        return exp(-density / HALVED_BY[kind] * log(2))

    def _sentences(self, found: tuple[TextIssue, ...] | list[TextIssue]) -> float:
        """Return the share of words in sentences of a good length; longer ones count in part."""
        lost = sum(_lost(issue) for issue in found)
        return max(0.0, 1 - lost / self.counts.words)


def _lost(issue: TextIssue) -> float:
    """Return how many of a long sentence's words count as lost: half at 33 words, most at 60."""
    words = LONG * (1 + issue.cost)
    return words * (1 - exp(-2.2 * issue.cost))
