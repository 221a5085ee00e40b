"""Applies exact edits and new texts of passages to a draft: all of them, or none.

What no edit and no new passage changes stays byte for byte, and so does what a rewritten text does
not change: models return other line ends than they were given, and no blanks at both ends.

The new text of a passage is read as a draft is read. A model shows its manners there too: it
refuses, thinks, and gives the sentences around the passage again, which stand in the draft already.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from unicodedata import is_normalized, normalize

from app.contract.drafts import lacking, locked_spans
from app.contract.judgement import Span
from app.contract.values import value
from workers.engine.replies.lenient_json import decoded_json
from workers.engine.replies.reader import Refused, ReplyModel, ReplyReader, Unreadable
from workers.engine.replies.texts import DECLINING, phrase

PIECES = (
    re.compile(r"[^\n]*\n|[^\n]+"),
    re.compile(r"[^.!?]*[.!?]+\s*|[^.!?]+"),
    re.compile(r"\w+|\s+|[^\w\s]"),
)
"""Lines, sentences, words: pieces that differ are split further and compared again."""

MOST_PIECES = 5_000
"""A longer list is replaced as a whole, because comparing takes quadratic time."""

SHOWN = 80
"""Characters of an edit shown in an error."""


class CannotApply(Exception):
    """An edit that cannot be applied; the message names it and says why."""


@value(slots=True)
class SearchReplace:
    """Words that occur in a draft exactly once, and their replacement."""

    search: str
    replace: str


@value(slots=True)
class Edited:
    """A draft with every edit applied; `untouched` is the share of its characters left alone."""

    text: str
    applied: int
    untouched: float


@value(slots=True)
class _Change:
    """The characters `start` to `end` of a draft become `text`."""

    start: int
    end: int
    text: str

    def touches(self, span: Span) -> bool:
        """Return whether it changes anything inside a span."""
        return self.start < span.end and self.end > span.start


def applied(draft: str, edits: Sequence[SearchReplace], locked: Sequence[str] = ()) -> Edited:
    """Return the draft with all edits applied, each where the given draft has its words.

    Raises `CannotApply` when there are no edits, or for an edit that is not found exactly once,
    changes nothing, overlaps with another or touches locked text.
    """
    if not edits:
        raise CannotApply("there are no edits")
    changes = sorted(
        (_change(draft, edit) for edit in edits), key=lambda change: (change.start, change.end)
    )
    for one, other in pairwise(changes):
        if other.start < one.end or other.start == one.start:
            raise CannotApply(f"two edits overlap at {_shown(draft[other.start :])}: merge them")
    for span in locked_spans(draft, locked):
        kept = draft[span.start : span.end]
        for change in changes:
            if change.touches(span) and kept not in change.text:
                raise CannotApply(
                    f"the edit at {_shown(draft[change.start :])} touches locked text, "
                    f"which must stay: {_shown(kept)}"
                )
    text = _made(draft, changes)
    if gone := lacking(text, [words for words in locked if words in draft]):
        raise CannotApply(f"an edit moves locked text, which must stay: {_shown(gone[0])}")
    touched = sum(change.end - change.start for change in changes)
    return Edited(text, len(changes), round(1 - touched / len(draft), 6))


@value(slots=True)
class Replaced:
    """A draft with other passages, and where these are; all around them is as it was."""

    text: str
    spans: tuple[Span, ...]


def replaced(
    draft: str, spans: Sequence[Span], texts: Sequence[str], locked: Sequence[str] = ()
) -> Replaced:
    """Return the draft with each passage replaced by its text; `spans` are in order.

    The white space at the ends of a passage stays, unless the passage is deleted, and new lines end
    as those of the draft do. Locked text in a passage stays.
    """
    pieces: list[str] = []
    found: list[Span] = []
    at = length = 0
    line_end = _usual_line_end(draft)
    for span, text in zip(spans, texts, strict=True):
        before = draft[span.start : span.end]
        new = in_place_of(before, text.strip(), line_end)
        new = restored(before, new, [words for words in locked if words in before])
        length += span.start - at
        found.append(Span(start=length, end=length + len(new)))
        pieces += [draft[at : span.start], new]
        at, length = span.end, length + len(new)
    return Replaced("".join([*pieces, draft[at:]]), tuple(found))


BLANK = " \t\n\r\x0b\x0c\u3000\ufeff\u200b\u2060"
LINE_END = re.compile(r"\r\n?|\n")
TRAILING = re.compile(r"[ \t](?=[\r\n])")


def in_place_of(before: str, text: str, line_end: str | None = None) -> str:
    """Return a revision of a text with what it does not change byte for byte as it was.

    The kept parts are the blanks at both ends (byte order mark and final line end included), the
    line ends, the blanks before them, and the Unicode form of lines that are the same. New lines
    end as most lines of the text before do, or with `line_end`. An indent of its own stays. Returns
    an empty text for a blank one.
    """
    bare = text.strip(BLANK)
    if not bare:
        return ""
    body = before.strip(BLANK)
    if not body:
        return bare
    start, end = before.index(body), before.index(body) + len(body)
    lines = before[:start].rstrip(" \t\u3000")
    given, own = before[len(lines) : start], _indent_of(text, bare)
    indent = own if own or _is_dedented(body, bare) else given
    return f"{lines}{indent}{_with_lines_of(body, bare, line_end)}{before[end:]}"


def _indent_of(text: str, bare: str) -> str:
    head = text[: text.index(bare)]
    return head[len(head.rstrip(" \t\u3000")) :]


def _is_dedented(before: str, after: str) -> bool:
    """Return whether the lines after the first were all indented, and are no longer."""
    return _least_indent(before) > 0 == _least_indent(after) and "\n" in after


def _least_indent(text: str) -> int:
    rest = [line for line in LINE_END.split(text)[1:] if line.strip()]
    return min((len(line) - len(line.lstrip()) for line in rest), default=0)


def _with_lines_of(before: str, after: str, line_end: str | None) -> str:
    """Return a text with the bytes of those lines that another has too."""
    ends = LINE_END.findall(before)
    usual = line_end or max(dict.fromkeys(ends), key=ends.count, default=None)
    if usual is None:
        return after
    is_plain = (
        {usual}.issuperset(ends) and not TRAILING.search(before) and is_normalized("NFC", before)
    )
    if is_plain:
        return LINE_END.sub(usual, after)
    old, new = _lines(before), _lines(after)
    if max(len(old), len(new)) > MOST_PIECES:
        return LINE_END.sub(usual, after)
    lines = [f"{words}{LINE_END.sub(usual, tail)}" for words, tail in new]
    was, now = ([normalize("NFC", words) for words, _ in line] for line in (old, new))
    for kind, start, end, at, to in SequenceMatcher(None, was, now).get_opcodes():
        if kind == "equal" or (kind == "replace" and end - start == to - at):
            for place, other in zip(range(at, to), range(start, end), strict=True):
                words = old[other][0] if kind == "equal" else new[place][0]
                lines[place] = words + (old[other][1] or usual)
    return "".join(lines).rstrip(BLANK)


def _lines(text: str) -> list[tuple[str, str]]:
    """Return the words of each line, and the blanks and the line end after them."""
    ends = [*LINE_END.findall(text), ""]
    lines = zip(LINE_END.split(text), ends, strict=True)
    return [(line.rstrip(" \t"), line[len(line.rstrip(" \t")) :] + end) for line, end in lines]


def _usual_line_end(text: str) -> str | None:
    """Return how most lines of a text end, None if it has one line only."""
    found = Counter(LINE_END.findall(text)).most_common(1)
    return found[0][0] if found else None


def between(before: str, after: str) -> tuple[SearchReplace, ...]:
    """Return edits that turn one text into another: few, and each found exactly once.

    Lines are compared first, then the sentences and words of those that differ. There are no edits
    for equal texts, nor for an empty `before`, in which nothing can be found.
    """
    changes = list(_differences(before, after, PIECES)) if before else []
    ranges: list[tuple[int, int]] = []
    for change in changes:
        start, end = _unique(before, change.start, change.end)
        while ranges and ranges[-1][1] >= start:
            last = ranges.pop()
            start, end = min(last[0], start), max(last[1], end)
        ranges.append((start, end))
    return tuple(
        SearchReplace(before[start:end], _made(before, changes, start, end))
        for start, end in ranges
    )


def restored(before: str, after: str, locked: Sequence[str]) -> str:
    """Return a revision with every locked text of the draft before it.

    A revision that has them all is returned unchanged. In any other, the differences that touch
    locked text are undone, by the sentence or the word.
    """
    if not lacking(after, [words for words in locked if words in before]):
        return after
    spans = locked_spans(before, locked)
    changes = _differences(before, after, PIECES)
    return _made(before, [change for change in changes if not any(map(change.touches, spans))])


def _change(draft: str, edit: SearchReplace) -> _Change:
    """Return where an edit applies, without the words at its ends that it keeps."""
    if "\r" in draft:
        edit = _with_line_ends_of(draft, edit)
    start = draft.find(edit.search) if edit.search else -1
    if start < 0:
        raise CannotApply(f"{_shown(edit.search)} does not occur in the draft: copy it exactly")
    if draft.find(edit.search, start + 1) >= 0:
        raise CannotApply(f"{_shown(edit.search)} occurs in the draft more than once: copy more")
    if edit.search == edit.replace:
        raise CannotApply(f"the edit of {_shown(edit.search)} changes nothing")
    head = _common(edit.search, edit.replace)
    search, text = edit.search[head:], edit.replace[head:]
    tail = _common(search[::-1], text[::-1])
    return _Change(start + head, start + head + len(search) - tail, text[: len(text) - tail])


def _with_line_ends_of(draft: str, edit: SearchReplace) -> SearchReplace:
    """Return an edit with the line ends of the words that it searches, as far as these are there.

    Models see CRLF and write LF.
    """
    lines = map(re.escape, LINE_END.split(edit.search))
    found = re.search(r"(?:\r\n?|\n)".join(lines), draft)
    if found is None or edit.search == edit.replace:
        return edit
    usual = _usual_line_end(found[0]) or _usual_line_end(draft) or "\n"
    return SearchReplace(found[0], _with_lines_of(found[0], edit.replace, usual))


def _made(draft: str, changes: Sequence[_Change], start: int = 0, end: int | None = None) -> str:
    """Return the part of a draft from `start` to `end` with the changes in it made."""
    end = len(draft) if end is None else end
    pieces: list[str] = []
    for change in changes:
        if start <= change.start and change.end <= end:
            pieces += [draft[start : change.start], change.text]
            start = change.end
    return "".join([*pieces, draft[start:end]])


def _differences(before: str, after: str, pieces: Sequence[re.Pattern[str]]) -> Iterator[_Change]:
    if before == after:
        return
    if not pieces:
        yield _Change(0, len(before), after)
        return
    split, *finer = pieces
    for outer in _replaced(split.findall(before), split.findall(after)):
        for change in _differences(before[outer.start : outer.end], outer.text, finer):
            yield _Change(outer.start + change.start, outer.start + change.end, change.text)


def _replaced(before: Sequence[str], after: Sequence[str]) -> Iterator[_Change]:
    """Return what differs between two lists of pieces, in characters of the joined first one."""
    if max(len(before), len(after)) > MOST_PIECES:
        yield _Change(0, sum(map(len, before)), "".join(after))
        return
    places = [0, *accumulate(map(len, before))]
    for kind, start, end, new_start, new_end in SequenceMatcher(None, before, after).get_opcodes():
        if kind != "equal":
            yield _Change(places[start], places[end], "".join(after[new_start:new_end]))


def _unique(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a range around this one whose characters occur in the text exactly once."""
    more = 8
    while True:
        found = text.find(text[start:end]) if end > start else 0
        if end > start and text.find(text[start:end], found + 1) < 0:
            return start, end
        start, end = max(0, start - more), min(len(text), end + more)
        more *= 2


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    most = min(len(one), len(other))
    return next((at for at in range(most) if one[at] != other[at]), most)


def _shown(text: str) -> str:
    return f'"{text[:SHOWN]}..."' if len(text) > SHOWN else f'"{text}"'


LEAD_IN = phrase("passage", "lead_in")
STAND_IN = re.compile(
    r"\A(?:<(?P<angle>[^<>\n]{1,80})>|\[(?P<square>[^\[\]\n]{1,80})\]|\.\.\.|…)\Z"
)
OF_A_STAND_IN = phrase("passage", "of_a_stand_in")
TAGS = phrase("passage", "tags")
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
        if missing := [name for name in names if name not in texts]:
            raise Unreadable(f"no text for {', '.join(missing)}: give one for every passage")
        new = [
            _read(reply, name, texts[name], _Place(draft, span, tuple(said)))
            for name, span in zip(names, spans, strict=True)
        ]
        made = replaced(draft, spans, new, locked)
        if not made.text.strip():
            raise Unreadable("nothing would be left of the draft")
        for words in locked:
            if made.text.count(words) > max(1, draft.count(words)):
                raise Unreadable(f'the locked text "{words[:80]}" would stand in the draft twice')
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
        return any(text.casefold() in words.casefold() for words in texts)


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
        form = decoded_json(said)
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

    The text may repeat whatever the passage itself repeats. Raises `Unreadable` when it repeats
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
    places = [token.span() for token in TOKEN.finditer(text)]
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
    for stretch in around:
        if _is_much(stretch) and sum(1 for token in stretch if WORD.match(token)) > FEWEST_WORDS:
            yield stretch


def _sentence(tokens: Sequence[str]) -> Sequence[str]:
    """Return the tokens between the first end of a sentence and the next one."""
    ends = [at for at, token in enumerate(tokens) if token in ENDS]
    if not ends:
        return ()
    start = ends[0] + 1
    return tokens[start : next((at for at in ends if at > start), len(tokens))]


def _is_much(tokens: Sequence[str]) -> bool:
    """Return whether so many words are hardly repeated by chance."""
    words = [token for token in tokens if WORD.match(token)]
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
    for token in around[-len(found) :] if found else ():
        while length and (length == len(found) or token != found[length]):
            length = longest[length - 1]
        length += token == found[length]
    return length


def _has(tokens: Sequence[str], run: Sequence[str]) -> bool:
    size = len(run)
    return any(
        tokens[at] == run[0] and tokens[at : at + size] == run
        for at in range(len(tokens) - size + 1)
    )
