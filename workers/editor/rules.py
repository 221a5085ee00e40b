"""The editor's rules: long sentences, passive voice, punctuation, wordy phrases, and proselint's.

proselint's checks are called on the text alone; its command line, the only part that reads a
configuration, is not imported. It reports jargon, clichés and slips of usage, and never edits: most
replacements need a person's eye.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from workers.text.document import ABBREVIATIONS, Document, Sentence, Word
from workers.text.edits import (
    NEGATIONS,
    Edit,
    IssueKind,
    TextIssue,
    checked,
    cut,
    substitute,
    with_line_end,
)
from workers.text.tables import (
    Verb,
    alternatives,
    lines,
    participles,
    verb,
    verbs_by_participle,
    word_list,
)

SOON = 4
"""Words before a phrase that are near enough to make its replacement unclear."""

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
    opens_sentence: bool
    after: frozenset[str]
    not_after: frozenset[str]
    not_soon_after: frozenset[str]
    """Words that must not be among the `SOON` before."""
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
        name = re.match(
            r"not soon after|not after|not before|after|before|unless|start|opening|report",
            condition,
        )
        if name is None:
            raise ValueError(f"unknown condition: {line}")
        words[name[0]] = _condition(condition[name.end() :])
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
                opens_sentence="opening" in words,
                after=words.get("after", frozenset()),
                not_after=words.get("not after", frozenset()),
                not_soon_after=words.get("not soon after", frozenset()),
                before=words.get("before", frozenset()),
                not_before=words.get("not before", frozenset()),
                unless=words.get("unless", frozenset()),
                is_reported_only="report" in words,
            ),
        )


def _condition(words: str) -> frozenset[str]:
    """Return the words of a condition, "-determiner" replaced with what opens a noun phrase."""
    found = frozenset(words.lower().split())
    if "-determiner" not in found:
        return found
    return found - {"-determiner"} | word_list("determiners") | _OBJECTS


_OBJECTS = frozenset({"me", "you", "him", "us", "them", "it"})


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
    return "-s" in before and word.endswith("s") and not word.endswith(("ss", "us", "is", "'s"))


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
    if previous in word_list("determiners") and match[0].lower().endswith("ing"):
        return False  # "the initiating socket" is no socket that starts
    if not _stands_where_it_may(document, phrase, match):
        return False
    if _is_passive(document, phrase, match, word):
        return False  # "was given assistance" is not "was helped"
    return not (phrase.is_cut and len(match[0].split()) == 1 and _is_negated(document, word))


def _stands_where_it_may(document: Document, phrase: Phrase, match: re.Match[str]) -> bool:
    """Return whether a phrase stands at the start that it is meant for, and no word forbids it."""
    start, end = match.span()
    soon = {before.lower for before in document.words_before(start, SOON)}
    return (
        phrase.not_soon_after.isdisjoint(soon)
        and (not phrase.unless or phrase.unless.isdisjoint(_others(document, start, end)))
        and (not phrase.starts_clause or _starts_clause(document, start))
        and (not phrase.opens_sentence or document.opens_sentence(start))
    )


def _is_passive(document: Document, phrase: Phrase, match: re.Match[str], word: Word) -> bool:
    """Return whether a phrase of several words begins with a participle after a form of "be"."""
    return (
        phrase.section in {"verb", "plain"}
        and len(match[0].split()) > 1
        and _is_participle(word.lower)
        and any(before.lower in BE for before in document.words_before(word.start, 2))
    )


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
    if document.opens_sentence(start):
        return True
    sentence = document.sentence_at(start)
    if sentence is None:
        return False
    before = document.masked[max(sentence.start, start - 20) : start]
    return _CLAUSE_START.search(before) is not None


def _is_negated(document: Document, word: Word) -> bool:
    """Return whether one of the four words before negates it: "not very good" needs "very"."""
    before = [word_before.lower for word_before in document.words_before(word.start, 4)]
    return any(word_before in NEGATIONS or word_before.endswith("n't") for word_before in before)


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
_STARTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(rf"[;](?P<gap>\s+)(?:and\s+)?(?={_SUBJECT}|however,|therefore,|otherwise,)"), ""),
    (re.compile(r",(?P<gap>\s+)which\s+is\s+why\s+(?=\w)"), "This is why "),
    (re.compile(rf",(?P<gap>\s+)after\s+which\s+(?={_SUBJECT})"), "After that, "),
    (re.compile(rf",(?P<gap>\s+)at\s+which\s+point\s+(?={_SUBJECT})"), "At that point, "),
    (re.compile(rf",(?P<gap>\s+)in\s+which\s+case\s+(?={_SUBJECT})"), "In that case, "),
    (
        re.compile(r",(?P<gap>\s+)which\s+(?P<keep>means|meant)\s+(?:that\s+)?(?=\w)"),
        "This {keep} that ",
    ),
)
_COORDINATED: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(rf",(?P<gap>\s+)and\s+(?:also\s+|then\s+)?(?={_SUBJECT})"), ""),
    (re.compile(rf",(?P<gap>\s+)but\s+(?={_SUBJECT})"), "But "),
    (re.compile(rf",(?P<gap>\s+)so\s+(?!that\b)(?={_SUBJECT})"), "So "),
)
"""Conjunctions that may also go on with a subordinate clause, if there is one before them."""
_DEPENDENT = re.compile(rf"\W*(?:{alternatives('dependent')})\b", re.IGNORECASE)
_HOLDS_ON = re.compile(rf"\b(?:{alternatives('holds on')})\b", re.IGNORECASE)
_SUBORDINATE = re.compile(rf"\b(?:{alternatives('conditional', 'subordinate')})\b", re.IGNORECASE)
_ADVERB = re.compile(rf"\W*(?:\w+ly|{alternatives('adverbs')})\b", re.IGNORECASE)
LONGEST_INTRODUCTION = 6
"""Words before the first comma of a sentence that may be an introduction."""

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
    for pattern, opening in _STARTS:
        for match in pattern.finditer(document.masked, sentence.start, sentence.end):
            first = document.masked[sentence.start : match.start()]
            if opening or not _may_cover_both(first):
                yield match, opening
    for pattern, opening in _COORDINATED:
        for match in pattern.finditer(document.masked, sentence.start, sentence.end):
            first = document.masked[sentence.start : match.start()]
            after = document.masked[sentence.end : sentence.end + 40].lstrip()
            repeats = bool(opening) and after.startswith(opening)
            if repeats or _CONDITIONAL.search(first) or _is_list_of_clauses(first):
                continue
            if opening or not _may_cover_both(first):
                yield match, opening


def _may_cover_both(first: str) -> bool:
    """Return whether words before "and" or a semicolon may belong to what follows them as well.

    They are an introduction such as "Normally,", a subordinate clause, a colon, or a semicolon.
    """
    introduction, comma, _ = first.partition(",")
    return (
        (bool(comma) and len(introduction.split()) <= LONGEST_INTRODUCTION)
        or _ADVERB.match(first) is not None
        or _DEPENDENT.match(first) is not None
        or _SUBORDINATE.search(first) is not None
        or re.search(r"[;:](?=\s)", first) is not None
    )


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
    named = {key: value for key, value in match.groupdict().items() if value}
    new = opening.format(**named)
    letter = document.masked[match.end()]
    tail = new + letter if new else letter.upper()
    gap = document.text[slice(*match.span("gap"))]
    return checked(document, Edit(match.start(), match.end() + 1, f".{gap}{tail}"))


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


LONGEST_PASSIVE = 40
"""Words of the longest sentence that is rewritten in the active voice."""

_OBJECT_OF = {"I": "me", "he": "him", "she": "her", "we": "us", "they": "them"}
_SUBJECT_OF = {"me": "I", "him": "he", "us": "we", "them": "they", "you": "you"}
_PASSIVE_NOUN = rf"(?:(?!(?:{_NOT_IN_IT})\b)[a-z]+(?:-[a-z]+)*)"
_NP = rf"(?:{alternatives('determiners')})(?:\s+{_PASSIVE_NOUN}){{1,3}}"
_MODAL = "will|must|can|should|may|could|would|might"
_ACTIVE = re.compile(
    rf"(?P<object>(?:{_NP})|it|they|you|he|she|we)\s+"
    rf"(?P<aux>was|were|is|are|(?:{_MODAL})\s+be|(?:has|have|had)\s+been)\s+"
    rf"(?P<participle>[a-z]+)\s+by\s+(?P<agent>(?:{_NP})|me|him|us|them|you)"
    r"(?P<tail>\s+(?:on|in|at|before|after|within|during|until|every|each|last|next|yesterday|today"
    r"|tomorrow)\b[^,;:()]*)?(?P<stop>[.!])",
    re.IGNORECASE,
)


def passives(document: Document) -> Iterator[TextIssue]:
    """Report each sentence in the passive; one with only subject, verb and agent has an edit."""
    for sentence in document.sentences:
        found = _passive(sentence.words)
        if found is None:
            continue
        first, last = found
        edit = _turned(document, sentence)
        quote = document.text[first.start : last.end]
        yield TextIssue(
            IssueKind.VOICE,
            first.start,
            last.end,
            f'"{" ".join(quote.split())}" is passive.',
            f'Write "{edit.new}"' if edit else "Use the active voice: say who does it.",
            edit,
        )


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
    ) or word in participles()


def _turned(document: Document, sentence: Sentence) -> Edit | None:
    """Return the edit that makes a passive sentence active, if the whole sentence allows it."""
    start = sentence.words[0].start
    if len(sentence.words) > LONGEST_PASSIVE:
        return None
    match = _ACTIVE.fullmatch(document.masked[start : sentence.end].rstrip())
    if match is None or match["agent"].lower().split()[-1] in word_list("no agents"):
        return None
    verb = verbs_by_participle().get(match["participle"].lower())
    if verb is None or sentence.words[0].text in document.names:
        return None
    agent = _SUBJECT_OF.get(match["agent"].lower(), match["agent"])
    object_ = match["object"][0].lower() + match["object"][1:]
    new = f"{agent} {_active(verb, match['aux'].lower(), agent)} {_OBJECT_OF.get(object_, object_)}"
    new = new[0].upper() + new[1:] + (match["tail"] or "") + match["stop"]
    turned = Edit(start, start + match.end(), " ".join(new.split()))
    return checked(document, with_line_end(document, turned))


def _active(verb: Verb, aux: str, agent: str) -> str:
    """Return the verb in the tense of the passive, in agreement with its new subject."""
    first, *rest = aux.split()
    is_plural = _is_plural(agent)
    if first in {"was", "were"}:
        return verb.past
    if first in {"is", "are"}:
        return verb.base if is_plural else verb.third
    if rest == ["been"]:
        return f"{'had' if first == 'had' else 'have' if is_plural else 'has'} {verb.participle}"
    return f"{first} {verb.base}"


def _is_plural(agent: str) -> bool:
    words = agent.lower().split()
    if words[0] in {"i", "we", "they", "you", "these", "those", "all"}:
        return True
    if words[0] in {"each", "every", "this", "that", "a", "an"} or agent in {"he", "she", "it"}:
        return False
    last = words[-1]
    return last in word_list("plural") or (
        last.endswith("s") and not last.endswith(("ss", "us", "is"))
    )


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
    (re.compile(r"(?P<x>[!?])(?<=[^\W\d_]{3}.)(?P=x)+(?=\s|\Z)"), r"\g<x>", "more than one mark"),
    (re.compile(r"\.(?<=[^\W\d_]{3}\.\.)(?=\s|\Z)"), "", "two full stops"),
)
_SMALL_START = re.compile(r"[.?!](?<=[^\W\d_]{3}.) +(?P<small>[a-z])")
_STARTER = re.compile(rf"(?:{alternatives('starters')})\b")


def punctuation(document: Document) -> Iterator[TextIssue]:
    """Report stray spaces, doubled punctuation and sentences without a capital."""
    for pattern, new, what in _SLIPS:
        for match in pattern.finditer(document.masked):
            edit = checked(document, Edit(*match.span(), match.expand(new)))
            if edit is not None and "\n" not in match[0]:
                yield _slip(*match.span(), what, edit)
    for match in _SMALL_START.finditer(document.masked):
        at = match.start("small")
        before = document.word_before(match.start())
        is_short = before is None or before.lower in {*ABBREVIATIONS, "etc"}
        if is_short or not _STARTER.match(document.masked, at):
            continue
        capital = Edit(at, at + 1, match["small"].upper())
        edit = None if document.is_lower_case else checked(document, capital)
        yield _slip(at, at + 1, "a sentence that starts with a small letter", edit)


def _slip(start: int, end: int, what: str, edit: Edit | None) -> TextIssue:
    return TextIssue(
        IssueKind.SPELLING, start, end, f"There is {what}.", "Correct it.", edit, cost=0.5
    )
