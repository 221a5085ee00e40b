"""Sentences that are too long, and where they can be divided without being rewritten."""

import re
from collections.abc import Iterator

from workers.models.editor.document import Document, Sentence
from workers.models.editor.edits import Edit, checked
from workers.models.editor.issues import Issue, Kind
from workers.models.editor.tables import alternatives

LONG = 25
"""Words from which a sentence is long (the limit of the plain-language guides of gov.uk)."""

SHORTEST = 6
"""Words that each half of a divided sentence has at least."""

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
    (re.compile(rf",(?P<gap>\s+)and\s+(?:also\s+|then\s+)?(?={_SUBJECT})"), ""),
    (re.compile(rf",(?P<gap>\s+)(?P<keep>but)\s+(?={_SUBJECT})"), "But "),
    (re.compile(rf",(?P<gap>\s+)(?P<keep>so)\s+(?={_SUBJECT})"), "So "),
    (
        re.compile(r",(?P<gap>\s+)which\s+(?P<keep>means|meant)\s+(?:that\s+)?(?=\w)"),
        "This {keep} that ",
    ),
    (re.compile(r",(?P<gap>\s+)which\s+is\s+why\s+(?=\w)"), "This is why "),
    (re.compile(rf",(?P<gap>\s+)after\s+which\s+(?={_SUBJECT})"), "After that, "),
    (re.compile(rf",(?P<gap>\s+)at\s+which\s+point\s+(?={_SUBJECT})"), "At that point, "),
    (re.compile(rf",(?P<gap>\s+)in\s+which\s+case\s+(?={_SUBJECT})"), "In that case, "),
)
_BARE = re.compile(
    rf"(?<=\w)(?P<gap>\s+)(?:and|(?P<keep>but))\s+(?={_PRONOUN}\s+(?:{_AUX})\b)", re.IGNORECASE
)
_DEPENDENT = re.compile(rf"\W*(?:{alternatives('dependent')})\b", re.IGNORECASE)
_HOLDS_ON = re.compile(rf"\b(?:{alternatives('holds on')})\b", re.IGNORECASE)
_SUBORDINATE = re.compile(rf"\b(?:{alternatives('subordinate')})\b", re.IGNORECASE)


def long_sentences(document: Document) -> Iterator[Issue]:
    """Report sentences of more than `LONG` words, divided where an independent clause begins."""
    for sentence in document.sentences:
        count = len(sentence.words)
        if count > LONG:
            edit = _division(document, sentence)
            yield Issue(
                Kind.SENTENCES,
                sentence.start,
                sentence.end,
                f"This sentence has {count} words; {LONG} are a good limit.",
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


def _openings(document: Document, sentence: Sentence) -> Iterator[tuple[re.Match[str], str]]:
    for pattern, opening in _STARTS:
        for match in pattern.finditer(document.masked, sentence.start, sentence.end):
            yield match, opening
    for match in _BARE.finditer(document.masked, sentence.start, sentence.end):
        if not _SUBORDINATE.search(document.masked, sentence.start, match.start()):
            yield match, "But " if match["keep"] else ""


def _checked(
    document: Document, sentence: Sentence, match: re.Match[str], opening: str
) -> Edit | None:
    """Return the edit that divides the sentence here, or None where a half would be a torso."""
    first = document.masked[sentence.start : match.start()]
    left = sum(word.end <= match.start() for word in sentence.words)
    right = sum(word.start >= match.end() for word in sentence.words)
    if min(left, right) < SHORTEST or not _stands_alone(first):
        return None
    named = {key: value for key, value in match.groupdict().items() if value}
    new = opening.format(**named)
    letter = document.masked[match.end()]
    tail = new + letter if new else letter.upper()
    gap = "\n" if "\n" in match["gap"] else " "
    return checked(document, Edit(match.start(), match.end() + 1, f".{gap}{tail}"))


def _stands_alone(first: str) -> bool:
    """Tell whether the words before a division are a whole clause: it has a verb and is closed."""
    if first.count("(") != first.count(")") or first.count("[") != first.count("]"):
        return False
    clause = first.rpartition(";")[2]
    if _DEPENDENT.match(clause):
        _, comma, clause = clause.partition(",")
        if not comma:
            return False
    return _VERB.search(clause) is not None and _HOLDS_ON.search(clause) is None
