"""The marks between which a model writes a text, so that it is told apart from everything else.

They have a number of their own in every step, which no text in the prompt contains: nothing that a
text, an earlier reply or another step says can be taken for them.
"""

import re
from collections.abc import Sequence
from hashlib import sha256

from app.contract.drafts import marks

OPENS, CLOSES, SLASH = r"(?:<|&lt;|\[)[ \t]*", r"[ \t]*(?:>|&gt;|\])", r"(?P<slash>[/\\][ \t]*)?"
A_MARK = re.compile(
    rf"(?P<around>[*_]{{2}}|`)?{OPENS}{SLASH}text[-_ ]?(?P<number>\d{{4,8}}){CLOSES}"
    r"(?(around)(?P=around))",
    re.IGNORECASE,
)
"""A mark as models spell it; one with another number counts in the exact form alone.

Signs on one side of it alone are the text's: "`code`</text-1234>".
"""
EXACT = re.compile(r"</?text-\d{6}>")
BARE_END = re.compile(
    r"^[ \t]*(?P<around>[*_]{2}|`)?</text>(?(around)(?P=around))[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
FEWEST = 4
"""A text between marks counts if it is at most so many times shorter than the longest one."""
LONGEST_MENTION = 12
"""Characters between two marks that a sentence only mentions."""


class UnclosedMark(Exception):
    """A reply whose text begins at a mark and does not end at one."""


def number_for(nonce: str | None, name: str, shared: str, texts: Sequence[str]) -> str:
    """Return the number of the marks of a step: six digits that no text of its prompt contains.

    It follows from the nonce and the step's own texts, so that a prompt that is sent again has the
    same.
    """
    seed = "\n".join((nonce or "", name, *texts)).encode(errors="surrogatepass")
    while True:
        seed = sha256(seed).digest()
        number = f"{int.from_bytes(seed[:4], 'big') % 1_000_000:06}"
        if number not in shared and not any(number in it for it in texts):
            return number


def asking_for(what: str, number: str) -> str:
    """Return the last lines of a prompt, which ask for a text between marks."""
    opens, closes = marks(number)
    return f"Write {what} between {opens} and {closes}. Nothing outside of them is read."


def in_brackets(text: str, number: str) -> str:
    """Return a text in which marks with this number have square brackets."""
    return re.sub(rf"<(/?text-{number})>", r"[\1]", text)


def without_marks(text: str, number: str) -> str:
    """Return a text without marks of this number, in whatever spelling."""
    if number not in text:
        return text
    return A_MARK.sub(lambda it: "" if it["number"] == number else it[0], text)


def has_marks(text: str) -> bool:
    """Return whether a text has a mark of any number in the exact form."""
    return EXACT.search(text) is not None


def marked_in(reply: str, number: str, *, any_number: bool) -> list[str]:
    """Return what stands between marks in a reply, in order; empty where nothing does.

    With `any_number` marks of another number count where there are none of this one: models copy
    numbers badly. A closing mark without an opening one ends a text that begins with the reply.
    Raises `UnclosedMark` where the last text does not end.
    """
    found = [it for it in A_MARK.finditer(reply) if it["number"] == number]
    if not found and any_number:
        found = [it for it in A_MARK.finditer(reply) if EXACT.fullmatch(it[0])]
    texts: list[str] = []
    begun: int | None = None
    for it in found:
        is_twice = begun is not None and reply[begun : it.start()].strip() != ""
        is_end = bool(it["slash"]) or (is_twice and not reply[it.end() :].strip())
        if not is_end:
            begun = it.end()
        elif begun is not None or not texts:
            texts.append(reply[begun or 0 : it.start()])
            begun = None
    if begun is not None:
        texts.append(_to_the_end(reply[begun:]))
    if len(texts) > 1:
        texts = [it for it in texts if "\n" in it or len(it) > LONGEST_MENTION] or texts
    longest = max(map(len, texts), default=0)
    if "\n" in reply.strip() and longest <= LONGEST_MENTION and len(reply) > 10 * LONGEST_MENTION:
        return []
    return [it for it in texts if len(it) * FEWEST >= longest]


def _to_the_end(rest: str) -> str:
    """Return what stands before a closing mark without its number. Raises `UnclosedMark`."""
    end = BARE_END.search(rest)
    if end is None or "<text" in rest.lower():
        raise UnclosedMark
    return rest[: end.start()]
