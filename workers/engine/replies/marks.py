"""The marks between which a model writes a text, so that it is told apart from everything else.

They have a number of their own in every step, which no text in the prompt contains: nothing that a
text, an earlier reply or another step says can be taken for them.
"""

import re
from collections.abc import Sequence
from hashlib import sha256

from app.contract.drafts import EXACT_MARK, marks

LINE_START = r"(?m:^[ \t]*(?:#{1,6}|>)[ \t]*)?"
AROUND, AND_AFTER = r"(?P<around>[*_`]{1,3})?", r"(?(around)(?P=around))"
OPENS, CLOSES = r"\\?(?:<|&lt;|\[|\uff1c)[ \t]*", r"[ \t]*/?\\?(?:>|&gt;|\]|\uff1e)"
SLASH = r"(?P<slash>(?:\\?/|\\)[ \t]*)?"
A_MARK = re.compile(
    rf"{LINE_START}{AROUND}{OPENS}{SLASH}text[-_ ]?(?P<number>\d{{4,8}}){CLOSES}{AND_AFTER}",
    re.IGNORECASE,
)
"""A mark as models spell it; one with another number counts in the exact form alone.

Signs on one side of it alone are the text's: "`code`</text-1234>".
"""
BARE_END = re.compile(rf"^[ \t]*{AROUND}</text>{AND_AFTER}[ \t]*$", re.IGNORECASE | re.MULTILINE)
HALF_A_MARK = re.compile(
    r"\r?\n?(?:^[ \t]*(?:#{1,6}|>)[ \t]*)?[*_`]{0,3}\\?"
    r"(?:(?:<|\[|\uff1c|&(?:l(?:t;?)?)?)[ \t]*[/\\]{0,2}[ \t]*"
    r"(?:t|te|tex|text[-_ ]?\d{0,8}[ \t]*/?\\?(?:&(?:gt?)?)?)?)?\Z",
    re.IGNORECASE | re.MULTILINE,
)
"""The end of a text that may be the beginning of a mark."""
SIGNS_OF_A_LINE = frozenset(" \t#>")
"""Signs in front of a mark that may be parts of it."""
FEWEST = 4
"""A text between marks counts if it is at most so many times shorter than the longest one."""
LONGEST_MENTION = 12
"""Characters between two marks that a sentence only mentions."""


class UnclosedMark(Exception):
    """A reply whose text begins at a mark and does not end at one."""


def number_for(nonce: str, name: str, texts: Sequence[str], prompt: str) -> str:
    """Return the number of the marks of a step: six digits that its prompt does not contain.

    The number follows from the nonce and the step's own texts, so that a prompt that is sent again
    has the same.
    """
    seed = "\n".join((nonce, name, *texts)).encode(errors="surrogatepass")
    while True:
        seed = sha256(seed).digest()
        number = f"{int.from_bytes(seed[:4], 'big') % 1_000_000:06}"
        if number not in prompt:
            return number


def asking_for(what: str, number: str) -> str:
    """Return the last lines of a prompt, which ask for a text between marks."""
    opens, closes = marks(number)
    return f"Write {what} between {opens} and {closes}. Nothing outside of them is read."


def in_brackets(text: str, number: str) -> str:
    """Return a text in which marks with this number have square brackets."""
    return re.sub(rf"<(/?text-{number})>", r"[\1]", text)


def without_marks(text: str, number: str) -> str:
    """Return a text without marks of this number, in whatever spelling.

    A last mark without a first one ends the text.
    """
    if number not in text:
        return text
    found = [mark for mark in A_MARK.finditer(text) if mark["number"] == number]
    if found and all(mark["slash"] for mark in found) and text[: found[0].start()].strip():
        text = text[: found[0].start()]
    return A_MARK.sub(lambda mark: "" if mark["number"] == number else mark[0], text)


def begun_in(reply: str, number: str) -> str | None:
    """Return the text of a reply that is being written, None before it begins.

    The text ends at its last mark, or before what may become one. Words that are mentioned between
    two marks are no text. A reply that begins with a mark of another number has that one.
    """
    if other := EXACT_MARK.match(reply.lstrip()):
        number = other["number"]
    begun: int | None = None
    found = [mark for mark in A_MARK.finditer(reply) if mark["number"] == number]
    for mark in found:
        is_long = mark.start() - (begun or 0) > LONGEST_MENTION
        if not mark["slash"] and (begun is None or not is_long):
            begun = mark.end()
        elif is_long and (begun is not None or mark is found[0]):
            return _without_line_ends(reply[begun or 0 : mark.start()])
        elif mark["slash"]:
            begun = None
    if begun is None:
        return "" if found else None
    return _without_line_ends(without_half_a_mark(reply[begun:]))


def without_half_a_mark(text: str) -> str:
    """Return a text without what may become a mark at its end."""
    return HALF_A_MARK.sub("", text)


def _without_line_ends(text: str) -> str:
    return text.lstrip("\r\n").removesuffix("\n").removesuffix("\r")


def has_marks(text: str) -> bool:
    """Return whether a text has a mark of any number in the exact form."""
    return EXACT_MARK.search(text) is not None


def marked_in(reply: str, number: str, *, any_number: bool) -> list[str]:
    """Return what stands between marks in a reply, in order; empty where nothing does.

    With `any_number` marks of another number count where those of this one are no pair: models copy
    numbers badly. Words between two last marks are a text of their own.
    Raises `UnclosedMark` where the last text does not end.
    """
    opens, closes = marks(number)
    bare = reply.strip()
    if bare.startswith(opens) and bare.endswith(closes) and bare.count(number) == 2:
        between = bare[len(opens) : -len(closes)]
        if between[-1:] not in SIGNS_OF_A_LINE:
            return [between] if between.strip() else []
    texts: list[str] = []
    begun = ended = None
    for mark in _marks_in(reply, number, any_number=any_number):
        is_twice = begun is not None and reply[begun : mark.start()].strip() != ""
        is_end = bool(mark["slash"]) or (is_twice and not reply[mark.end() :].strip())
        if not is_end:
            begun = mark.end()
            continue
        start, begun = begun if begun is not None else ended, None
        if start is not None:
            texts.append(reply[start : mark.start()])
            ended = mark.end()
    if begun is not None:
        texts.append(_to_the_end(reply[begun:]))
    if len(texts) > 1:
        texts = [
            between for between in texts if "\n" in between or len(between) > LONGEST_MENTION
        ] or texts
    longest = max(map(len, texts), default=0)
    if "\n" in reply.strip() and longest <= LONGEST_MENTION and len(reply) > 10 * LONGEST_MENTION:
        return []
    return [between for between in texts if between.strip() and len(between) * FEWEST >= longest]


def _marks_in(reply: str, number: str, *, any_number: bool) -> list[re.Match[str]]:
    found = list(A_MARK.finditer(reply))
    own = [mark for mark in found if mark["number"] == number]
    if len(own) > 1 or not any_number:
        return own
    return [mark for mark in found if mark in own or EXACT_MARK.fullmatch(mark[0])]


def _to_the_end(rest: str) -> str:
    """Return what stands before a closing mark without its number. Raises `UnclosedMark`."""
    end = BARE_END.search(rest)
    if end is None or "<text" in rest.lower():
        raise UnclosedMark
    return rest[: end.start()]
