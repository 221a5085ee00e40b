"""Rules about sentences: those too long, the passive voice, and punctuation."""

import re
from collections.abc import Iterator

from workers.editor.wordiness import BE
from workers.text.document import ABBREVIATIONS, Document, Sentence, Word
from workers.text.edits import Edit, IssueKind, TextIssue, checked, with_line_end
from workers.text.tables import Verb, alternatives, listed, participles, verbs_by_participle

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
    if len(sentence.words) > LONGEST or text.rstrip().endswith(("?", ":")):
        return None
    middle = (sentence.words[0].start + sentence.words[-1].end) / 2
    found = [
        edit
        for match, opening in _openings(document, sentence)
        if (edit := _checked(document, sentence, match, opening)) is not None
    ]
    return min(found, key=lambda edit: abs(edit.start - middle), default=None)


_RUN_ON = re.compile(
    rf",\s+(?!(?:{alternatives('dependent')}|who|which|that)\b)(?:[\w'-]+\s+){{1,4}}(?:{_AUX})\b"
)


def _openings(document: Document, sentence: Sentence) -> Iterator[tuple[re.Match[str], str]]:
    for pattern, opening in _STARTS:
        for match in pattern.finditer(document.masked, sentence.start, sentence.end):
            yield match, opening
    for pattern, opening in _COORDINATED:
        for match in pattern.finditer(document.masked, sentence.start, sentence.end):
            first = document.masked[sentence.start : match.start()]
            if not _CONDITIONAL.search(first) and not _is_list_of_clauses(first):
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
            if following.lower not in listed("between") and not following.lower.endswith("ly"):
                break
    return None


def _is_participle(word: str) -> bool:
    if word in listed("adjectives"):
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
    if match is None or match["agent"].lower().split()[-1] in listed("no agents"):
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
    return last in listed("plural") or (
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
        edit = checked(document, Edit(at, at + 1, match["small"].upper()))
        yield _slip(at, at + 1, "a sentence that starts with a small letter", edit)


def _slip(start: int, end: int, what: str, edit: Edit | None) -> TextIssue:
    return TextIssue(
        IssueKind.SPELLING, start, end, f"There is {what}.", "Correct it.", edit, cost=0.5
    )
