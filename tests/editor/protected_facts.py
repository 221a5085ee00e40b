"""What an edit must leave alone, found by rules of the test's own: nothing here is the editor's."""

import re
from collections import Counter
from collections.abc import Callable

CODE = re.compile(r"```.*?```|`[^`\n]+`|^ {4}\S[^\n]*$", re.DOTALL | re.MULTILINE)
LINK = re.compile(
    r"\[[^\]\n]*\]\([^)\n]*\)|https?://[^\s>)]+(?<![.,;])|www\.[^\s)]+(?<![.,;])"
    r"|[\w.+-]+@[\w-]+(?:\.\w+)+|(?<!\w)@\w[\w-]*"
)
QUOTATION = re.compile(r'"[^"\n]+"|“[^”]+”|«[^»]+»|(?<!\w)\'[^\'\n]+\'(?!\w)|^>.*$', re.MULTILINE)
STRUCTURE = re.compile(r"^(?:#.*|\|.*|\s*(?:[-*]|\d+\.)\s)", re.MULTILINE)
NUMBER = re.compile(r"[$€£+-]?\d+(?:[.,:/-]\d+)*%?(?:st|nd|rd|th)?")
SPELLED_OUT = re.compile(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|fifty|hundred"
    r"|thousand|million|billion|half|twice|third|fourth|fifth|sixth)\b",
    re.IGNORECASE,
)
NEGATION = re.compile(
    r"\b(?:no|not|never|none|nobody|nothing|nowhere|neither|nor|without|cannot|unless)\b|\w+n['\u2019]t\b",
    re.IGNORECASE,
)
WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
STARTS = re.compile(r"(?:\A|[.!?:]['\")*_]*\s+|\n+\s*(?:[-*>|#]+|\d+\.)?)[\s\"'“(*_]*([^\W\d_]+)")
PRONOUNS = {"I", "I'm", "I've", "I'd", "I'll"}


def codes(text: str) -> list[str]:
    return CODE.findall(text)


def links(text: str) -> list[str]:
    return LINK.findall(CODE.sub(" ", text))


def quotations(text: str) -> list[str]:
    return QUOTATION.findall(LINK.sub(" ", CODE.sub(" ", text)))


def structure(text: str) -> list[str]:
    return STRUCTURE.findall(CODE.sub(" ", text))


def numbers(text: str) -> list[str]:
    prose = LINK.sub(" ", CODE.sub(" ", text))
    return NUMBER.findall(prose) + [it.lower() for it in SPELLED_OUT.findall(prose)]


def negations(text: str) -> list[str]:
    return [it.lower() for it in NEGATION.findall(CODE.sub(" ", text))]


def names(text: str) -> set[str]:
    """Words with a capital that do not begin a sentence or a line, and words of capitals."""
    beginnings = {match.start(1) for match in STARTS.finditer(text)}
    return {
        match[0]
        for match in WORD.finditer(text)
        if (match[0][0].isupper() and match.start() not in beginnings) or match[0][1:].isupper()
    } - PRONOUNS


def mentions(text: str, of: str) -> Counter[str]:
    """How often each name of one text stands in another."""
    wanted = names(of)
    return Counter(word for word in WORD.findall(text) if word in wanted)


def paragraphs(text: str) -> int:
    return len(re.split(r"\n\s*\n", text.strip()))


KEPT: dict[str, Callable[[str], object]] = {
    "code": codes,
    "links": links,
    "quotations": quotations,
    "structure": structure,
    "numbers": numbers,
    "negations": negations,
    "paragraphs": paragraphs,
}
