"""The validator of citations and of the quotations attributed to them.

Quotations are looked up word for word; case, punctuation and spacing are ignored.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from unicodedata import normalize

from app.contract.requests import ContextDocument
from app.contract.validators.citations import CitationsValidator
from workers.text.words import UNSPACED, UNSPACED_LETTER
from workers.validators.violation import Violation, abbreviated, violation_at

WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")
LEFT_OUT = re.compile(rf"\[[^\[\]]*\][^\W{UNSPACED}]*|\.{{3,}}|…")
"""An ellipsis, or what an editor put in brackets."""


def normalized_words(text: str) -> list[str]:
    """Return the words of a text as they are compared; without spaces each character is one."""
    return WORD.findall(normalize("NFKC", text).casefold().replace("\u2019", "").replace("'", ""))


class QuotedWords:
    """Documents as words; each is split at its first use."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        self._read = cache(lambda name: f" {' '.join(normalized_words(documents[name]))} ")

    def missing(self, quotation: str, names: Sequence[str]) -> str | None:
        """Return `None` if a document has the quotation, else where the closest document differs.

        An omission may stand for any words, as long as the parts of the quotation are in order.
        """
        parts = [words for part in LEFT_OUT.split(quotation) if (words := normalized_words(part))]
        best = 0
        for name in names:
            matched = self._matched(parts, self._read(name))
            if matched == sum(map(len, parts)):
                return None
            best = max(best, matched)
        words = [word for part in parts for word in part]
        if not best:
            return f"{words[0]!r} does not occur there"
        return f"it differs after {' '.join(words[max(0, best - 6) : best])!r}"

    def _matched(self, parts: Sequence[Sequence[str]], document: str) -> int:
        """Return how many words occur in the document, up to the first that does not."""
        done, at = 0, 0
        for part in parts:
            found = document.find(f" {' '.join(part)} ", at)
            if found < 0:
                return done + _longest_start(part, document[at:])
            done += len(part)
            at = found + len(" ".join(part)) + 1
        return done


def _longest_start(part: Sequence[str], document: str) -> int:
    """Return how many words from the start of the part occur together, by binary search."""
    least, most = 0, len(part)
    while least < most:
        middle = (least + most + 1) // 2
        if f" {' '.join(part[:middle])} " in document:
            least = middle
        else:
            most = middle - 1
    return least


NOT_PROSE = re.compile(
    r"^[ \t]{0,3}(?P<fence>`{3,}+|~{3,}+).*?(?:^[ \t]{0,3}(?P=fence)|\Z)"
    r"|(?<!`)(?P<ticks>`++)[^`\n]++(?P=ticks)"
    r"|^[ \t]{0,3}\[[^\[\]\n]+\]:[ \t]*(?:<|[a-z]+:|[/#.])\S*",  # where a link leads
    re.DOTALL | re.MULTILINE,
)
PARAGRAPH = re.compile(r"(?:(?!\n[ \t\r]*\n).)+", re.DOTALL)
QUOTATION = re.compile(
    # Behind a number it is inches.
    r'(?<!\d)"(?P<a>[^"]+)"|“(?P<b>[^“”]+)”|«(?P<c>[^«»]+)»|»(?P<e>[^«»]+)«|„(?P<d>[^„“”]+)[“”]'
    r"|\u201a(?P<f>[^\u201a\u2018]+)\u2018|「(?P<g>[^「」]+)」|『(?P<h>[^『』]+)』"
)
MARKER = re.compile(
    rf"(?<![!\\])(?<![^\W{UNSPACED}])"
    r"(?P<behind>(?<=\]))?\[(?P<name>(?!!)[^\[\]\n^]{1,300})\](?!\()(?P<before>(?=\[))?"
)
LINK = re.compile(r"^[ \t]{0,3}\[(?P<name>[^\[\]\n]+)\]:", re.MULTILINE)
CHECK_BOX = re.compile(r"[ xX]|\.{3}|…")
LOCATOR = re.compile(r"\s*(?:[,;#§]|:\s).*")
BEHIND = re.compile(r"[\s.,;:!?()]*")


def check_citations(
    validator: CitationsValidator, draft: str, documents: Sequence[ContextDocument]
) -> Iterator[Violation]:
    """Yield the citations of unknown documents, and quotations not in a cited document."""
    text = NOT_PROSE.sub(lambda found: re.sub(r"[^\n]", "\0", found[0]), draft)
    named = {document.name.strip().casefold(): document for document in documents}
    links = {found["name"].casefold() for found in LINK.finditer(draft)} - named.keys()
    text = MARKER.sub(
        lambda found: (
            f"[{len(found['name']) * chr(0)}]" if found["name"].casefold() in links else found[0]
        ),
        text,
    )
    sources = QuotedWords({name: document.text for name, document in named.items()})
    if validator.required and not any(
        _known(marker["name"], named) for marker in _markers(text, named)
    ):
        yield Violation(
            "the draft cites no document of the context",
            f"cite one, such as [{documents[0].name}]"
            if documents
            else "add documents to the context of the request",
        )
    for paragraph in PARAGRAPH.finditer(text):
        yield from _flaws(paragraph, draft, named, sources, validator.min_quote_words)


def _flaws(
    paragraph: re.Match[str],
    draft: str,
    named: Mapping[str, ContextDocument],
    sources: QuotedWords,
    min_quote_words: int,
) -> Iterator[Violation]:
    start, body = paragraph.start(), paragraph[0]
    markers = list(_markers(body, named))
    for marker in markers:
        if _known(marker["name"], named) is None:
            yield violation_at(
                draft,
                start + marker.start(),
                f"[{abbreviated(marker['name'])}] names no document of the context",
                _closest(marker["name"], named),
                len(marker[0]),
            )
    for quotation in QUOTATION.finditer(body):
        cited = _attributed(quotation, markers, body, named)
        said = normalized_words(LEFT_OUT.sub(" ", quotation[0]))
        unspaced = len(UNSPACED_LETTER.findall("".join(said)))  # two of them are about a word
        is_short = len(said) - unspaced // 2 < min_quote_words
        if not cited or is_short or (reason := sources.missing(quotation[0], cited)) is None:
            continue
        yield violation_at(
            draft,
            start + quotation.start(),
            f"the quotation is not in {', '.join(named[name].name for name in cited)}: {reason}",
            "quote the document word for word, or say it without quotation marks",
            len(quotation[0]),
        )


def _attributed(
    quotation: re.Match[str],
    markers: Sequence[re.Match[str]],
    body: str,
    named: Mapping[str, ContextDocument],
) -> list[str]:
    """Return the documents that a quotation may come from; none if all cited ones are unknown."""
    behind: list[re.Match[str]] = []
    at = quotation.end()
    for marker in markers:
        if marker.start() >= at and BEHIND.fullmatch(body, at, marker.start()):
            behind.append(marker)
            at = marker.end()
    known = (_known(marker["name"], named) for marker in behind or markers)
    return list(dict.fromkeys(name for name in known if name is not None))


def _markers(text: str, named: Mapping[str, ContextDocument]) -> Iterator[re.Match[str]]:
    """Yield every citation; of brackets side by side, which may be a link, only known names."""
    quoted = QUOTATION.sub(lambda quotation: "\0" * len(quotation[0]), text)
    for marker in MARKER.finditer(quoted):
        name, is_alone = marker["name"], marker["behind"] is None and marker["before"] is None
        if CHECK_BOX.fullmatch(name) or "\0" in name:
            continue
        if is_alone or _known(name, named) is not None:
            yield marker


def _known(name: str, named: Mapping[str, ContextDocument]) -> str | None:
    whole = name.strip().casefold()
    short = LOCATOR.sub("", whole)
    return next((found for found in (whole, short) if found in named), None)


def _closest(name: str, named: Mapping[str, ContextDocument]) -> str:
    if not named:
        return "the request has no context: remove the citation"
    near = get_close_matches(name.strip().casefold(), named, 1) or list(named)[:5]
    return f"cite {' or '.join(f'[{named[found].name}]' for found in near)}, or remove it"
