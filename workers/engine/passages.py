"""Reads the new texts of marked passages, each as a draft is read, and puts them in their places.

A model shows its manners within the object too: it refuses there, thinks there, and gives the
sentences around the passage again. What is around a passage stands in the draft already.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence

from app.contract.judgement import Span
from app.contract.values import value
from workers.engine.edits import Replaced, replaced
from workers.engine.replies import Refused, ReplyModel, ReplyReader, Unreadable
from workers.engine.text_replies import DECLINING, HERE, PLEASED, REVISED

NAMED = r"(?:passage|text|version|sentence|paragraph|section|wording|phrase|p\d+)"
LEAD_IN = re.compile(
    rf"\A[*_]*(?:(?:{PLEASED})[^\w\n:]+(?:{HERE})\b[^\n:]{{0,80}}|"
    rf"(?:{HERE})\b[^\n:]{{0,80}}\b(?:{REVISED})\b[^\n:]{{0,80}}|"
    rf"(?:the )?(?:{REVISED}) {NAMED}(?: p\d+)?)[:\uff1a][*_]*\s*(?=\S)",
    re.IGNORECASE,
)
STAND_IN = re.compile(
    r"\A(?:<(?P<angle>[^<>\n]{1,80})>|\[(?P<square>[^\[\]\n]{1,80})\]|\.\.\.|…)\Z"
)
OF_A_STAND_IN = re.compile(
    r"\b(?:unchanged|no changes?|same|new|revised|rewritten|text|passage|deleted?|empty|omitted|"
    r"insert|your|p\d+)\b",
    re.IGNORECASE,
)
TAGS = re.compile(
    r"\A<(?P<tag>(?:passage|text)(?: p\d+)?|p\d+)>\s*(?P<body>.*?)\s*</(?P=tag)>\Z",
    re.DOTALL | re.IGNORECASE,
)
CHARACTERS = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
TOKEN = re.compile(rf"[{CHARACTERS}]|[^\W{CHARACTERS}]+|[^\w\s]")
WORD = re.compile(r"\w")
ENDS = frozenset(".!?\u3002\uff01\uff1f")
FEWEST_WORDS, FEWEST_CHARACTERS = 3, 10
"""Repeated words that cannot be there by chance."""
NEIGHBOURS = 8
"""Words and marks next to a passage that its text cannot contain by chance."""


class _Passages(ReplyModel):
    """The new text of each passage, by `p1` and so on."""

    passages: dict[str, str]


def passages_in(
    draft: str, spans: Sequence[Span], locked: Sequence[str] = (), said: Sequence[str] = ()
) -> Callable[[ReplyReader], Replaced]:
    """Return a function that reads the texts of passages and puts them in their places.

    `said` is the review. It raises `Unreadable` when a text is missing or no text for its passage,
    `Refused` when one is a refusal, and `Unreadable` when nothing would be left of the draft, or a
    locked text would stand in it more often than before.
    """

    def read(reply: ReplyReader) -> Replaced:
        texts = reply.read_as(_Passages).passages
        names = [f"p{number}" for number in range(1, len(spans) + 1)]
        if missing := [it for it in names if it not in texts]:
            raise Unreadable(f"no text for {', '.join(missing)}: give one for every passage")
        new = [
            _read(reply, name, texts[name], _Place(draft, span, tuple(said)))
            for name, span in zip(names, spans, strict=True)
        ]
        made = replaced(draft, spans, new, locked)
        if not made.text.strip():
            raise Unreadable("nothing would be left of the draft")
        for it in locked:
            if made.text.count(it) > max(1, draft.count(it)):
                raise Unreadable(f'the locked text "{it[:80]}" would stand in the draft twice')
        return made

    return read


@value(slots=True)
class _Place:
    """A passage in its draft, and what a reviewer said about it."""

    draft: str
    span: Span
    said: tuple[str, ...]

    @property
    def passage(self) -> str:
        return self.draft[self.span.start : self.span.end]

    def is_given(self, text: str) -> bool:
        """Return whether the passage or the review has these words."""
        texts = (self.passage, *self.said)
        return any(text.casefold() in it.casefold() for it in texts)


def _read(reply: ReplyReader, name: str, said: str, place: _Place) -> str:
    """Return the text of one passage, empty if it is to be deleted."""
    if not said.strip() or said.strip() == place.passage.strip():
        return said
    text = _without_lead_in(_out_of_form(said, name, place).strip(), place)
    try:
        text = reply.passage(text, place.passage, place.draft, name)
    except Refused:
        if not any(map(DECLINING.search, place.said)):
            raise
    text = _without_tags(_without_lead_in(text, place), place)
    if _is_stand_in(text) and not (_is_bracketed(place.passage) or place.is_given(text)):
        raise Unreadable(f"{name}: it stands for the text of the passage and does not contain it")
    text = _without_surroundings(text, place, name)
    if not text.strip():
        raise Unreadable(f"{name}: nothing of it is the text of the passage")
    return text


def _out_of_form(said: str, name: str, place: _Place) -> str:
    """Return the text of a passage out of the form of the whole reply, if it is in that again."""
    if "{" in place.passage or not said.strip().startswith("{"):
        return said
    try:
        form = json.loads(said)
    except (ValueError, RecursionError):
        return said
    form = form.get("passages", form)
    text = form.get(name) if isinstance(form, dict) and len(form) == 1 else None
    return text if isinstance(text, str) else said


def _without_lead_in(text: str, place: _Place) -> str:
    """Remove words such as "Here is the revised passage:", also in the line of the text."""
    found = LEAD_IN.match(text)
    if found is None or place.draft.find(found[0].strip()) >= 0 or place.is_given(found[0].strip()):
        return text
    return text[found.end() :]


def _without_tags(text: str, place: _Place) -> str:
    """Remove the tags of the prompt where they have lost their number."""
    found = TAGS.match(text)
    is_markup = found is not None and f"<{found['tag']}" in place.draft
    return text if found is None or is_markup else found["body"]


def _is_bracketed(passage: str) -> bool:
    return STAND_IN.match(passage.strip()) is not None


def _is_stand_in(text: str) -> bool:
    """Return whether a text such as `[unchanged]` or `<new text of p1>` stands for another one."""
    found = STAND_IN.match(text)
    if found is None:
        return False
    words = found["angle"] or found["square"]
    return words is None or OF_A_STAND_IN.search(words) is not None


def _without_surroundings(text: str, place: _Place, name: str) -> str:
    """Return a text without what it repeats of the text right before and right after its passage.

    What the passage itself repeats of them may be repeated. Raises `Unreadable` when it repeats
    what is next to the passage somewhere else than at its ends, or nothing else.
    """
    before = _tokens(place.draft[: place.span.start])
    after = _tokens(place.draft[place.span.end :])
    found, known = _tokens(text), _tokens(place.passage)
    start, end = _repeated(before, found, known), _repeated(after[::-1], found[::-1], known[::-1])
    if start + end >= len(found):
        if not _is_much(found) or not start + end:
            return text
        raise Unreadable(f"{name}: it repeats what stands around the passage: give the passage")
    places = [it.span() for it in TOKEN.finditer(text)]
    begin = places[start - 1][1] if start else 0
    rest = text[begin : places[-end][0] if end else len(text)]
    left = found[start : len(found) - end]
    for near in _nearest(before, known, after):
        if _has(left, near) and not _has(known, near):
            raise Unreadable(f"{name}: it repeats what stands around the passage: give the passage")
    return rest.strip() if start or end else text


def _tokens(text: str) -> list[str]:
    return TOKEN.findall(text)


def _nearest(
    before: Sequence[str], known: Sequence[str], after: Sequence[str]
) -> Iterator[Sequence[str]]:
    """Yield what is next to a passage and long enough that its text cannot have it by chance."""
    around = (
        before[-NEIGHBOURS:],
        after[:NEIGHBOURS],
        _sentence(before[::-1])[::-1],
        _sentence([*known[-1:], *after]),
    )
    for it in around:
        if _is_much(it) and sum(1 for token in it if WORD.match(token)) > FEWEST_WORDS:
            yield it


def _sentence(tokens: Sequence[str]) -> Sequence[str]:
    """Return the tokens between the first end of a sentence and the next one."""
    ends = [at for at, it in enumerate(tokens) if it in ENDS]
    if not ends:
        return ()
    start = ends[0] + 1
    return tokens[start : next((at for at in ends if at > start), len(tokens))]


def _is_much(tokens: Sequence[str]) -> bool:
    """Return whether so many words are hardly repeated by chance."""
    words = [it for it in tokens if WORD.match(it)]
    return len(words) >= FEWEST_WORDS and sum(map(len, words)) >= FEWEST_CHARACTERS


def _repeated(around: Sequence[str], found: Sequence[str], known: Sequence[str]) -> int:
    """Return how many tokens a text begins with that stand right before it, 0 if few.

    Few are enough if they are the whole sentence so far.
    """
    count = _overlap(around, found)
    if not count or _overlap(around, known) >= count:
        return 0
    words = found[:count]
    inner = words[1:] if words[0] in ENDS else words
    is_begun = bool(inner) and all(map(WORD.match, inner))
    is_sentence = is_begun and (count == len(around) or around[-count - 1] in ENDS)
    return count if _is_much(words) or is_sentence else 0


def _overlap(around: Sequence[str], found: Sequence[str]) -> int:
    """Return the length of the longest end of one list that the other begins with."""
    longest = [0] * len(found)
    length = 0
    for at in range(1, len(found)):
        while length and found[at] != found[length]:
            length = longest[length - 1]
        length += found[at] == found[length]
        longest[at] = length
    length = 0
    for it in around[-len(found) :] if found else ():
        while length and (length == len(found) or it != found[length]):
            length = longest[length - 1]
        length += it == found[length]
    return length


def _has(tokens: Sequence[str], run: Sequence[str]) -> bool:
    size = len(run)
    return any(
        tokens[at] == run[0] and tokens[at : at + size] == run
        for at in range(len(tokens) - size + 1)
    )
