"""The text in a reply to a request for a text, and whether it is one.

A model writes a text between marks, which tell it apart from everything else. They have a number of
their own in every step, which no text in the prompt contains: nothing that a text, an earlier reply
or another step says can be taken for them.

Without marks, the thinking and the manners of models are removed. What could be content stays.
Three things decide that: the texts that the model was given (a client whose draft contains
`<think>`, or stands in quotation marks, gets such a text), whether the task asks for a message or a
conversation (there "Sure!" and "Let me know" may belong to the text), and whether something else
shows that the text is framed (a line before it, a code fence, a rule).

What is no text, and what stands around a revision, is told by comparing the reply with the draft
that it revises, which every language allows. What is certain is removed or refused; what is not is
asked for again once, and then settled.
"""

import re
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from pkgutil import get_data
from textwrap import dedent

from app.contract.drafts import EXACT_MARK, marks
from app.contract.values import value
from workers.engine.replies.likeness import (
    ACCENTS,
    ALIKE,
    FEW,
    KnownText,
    are_alike,
    blocks_of,
    first_and_last,
    known,
    repeats_itself,
    words_and_signs,
)

BLANK = " \t\r\n\ufeff\u200b\u2060"

_READ = tomllib.loads((get_data(__package__, "phrases.toml") or b"").decode())


def phrase(kind: str, name: str) -> re.Pattern[str]:
    """Return a pattern of `phrases.toml`."""
    return re.compile(_with_lists(_READ[kind][name]))


def _with_lists(words: str) -> str:
    """Return words on one line, with the lists that they name."""
    lists: dict[str, str] = _READ["lists"]
    joined = words.replace("\n", "")
    return re.sub(r"\{([a-z]+)\}", lambda found: _with_lists(lists[found[1]]), joined)


LANGUAGE = r"[ \t]*(?:markdown|md|text|txt|plaintext|plain)?[ \t]*"

OPENED = phrase("reply", "opened")
CLOSED = phrase("reply", "closed")
NAMED_THOUGHT = phrase("reply", "named_thought")
PROSE_THOUGHT = phrase("reply", "prose_thought")
THOUGHT_BLOCK = phrase("reply", "thought_block")
MOST_BLOCKS = 100
"""Tags of thinking in a text from which blocks of it are removed: each search goes to its end."""
FINAL = phrase("reply", "final")
A_CHANNEL = re.compile(r"<\|channel\|>")
CHANNEL = phrase("reply", "channel")
TOKENS = phrase("reply", "tokens")
ROLE = phrase("reply", "role")

LEAD_IN = phrase("reply", "lead_in")
PERSONAL = phrase("reply", "personal")
OPENING = phrase("reply", "opening")
"""How a text begins that may itself have a line like a lead-in."""
GIVEN = phrase("reply", "given")
ROLE_LABEL = phrase("reply", "role_label")
LABEL = phrase("reply", "label")
LABEL_INSIDE = phrase("reply", "label_inside")
BEFORE_LABEL = phrase("reply", "before_label")

REVISED = phrase("reply", "revised_one")
LAST_NOUN = phrase("reply", "last_noun")
REMARK = phrase("reply", "remark")
A_NOUN = phrase("reply", "a_noun")

LAST_RULE = re.compile(r"\n[ \t]*(?:-{3,}|\*{3,}|_{3,})[ \t]*\Z")
RULE = re.compile(r"\n[ \t]*(?:-{3,}|\*{3,}|_{3,}|={3,})[ \t]*\n")
OFFER = phrase("reply", "offer")
WORK = phrase("reply", "work")
NOTE = phrase("reply", "note")
CHANGES = phrase("reply", "changes")
A_CHANGE = phrase("reply", "a_change")
END_MARK = phrase("reply", "end_mark")
WORD_COUNT = phrase("reply", "word_count")
SELF_PRAISE = phrase("reply", "self_praise")
THIS_VERSION = phrase("reply", "this_version")
DID = phrase("reply", "did")
FIRST_PERSON = phrase("reply", "first_person")
MESSAGE = phrase("reply", "message")
SALUTATION = phrase("reply", "salutation")
QUOTES = {'"': '"', "“": "”", "„": "“”", "«": "»", "»": "«", "「": "」", "'": "'", "‘": "’"}
QUOTES_WITHIN = re.compile(r"[^\"“”„«»「」]*[ \t(\[{;,=:>][\"“„«「]\w")
"""What has a quotation mark before it that is not closed where the next one opens."""
WRAPPED = phrase("reply", "wrapped")
WRAPPED_AND_CUT = phrase("reply", "wrapped_and_cut")
OF_DATA = phrase("reply", "of_data")
"""Tasks whose text may be an object."""
MARKUP = phrase("reply", "markup")
FENCE_LABEL = re.compile(r"\A[^\n<>]{0,60}:\n(?=<data-[\w-]+>\n)")
LINE_OF_FENCE = re.compile(r"(?m)^[ \t]*(?P<marks>`{3,}|~{3,})(?P<info>[^\n`]*)$")


@lru_cache(32)
def _is_about_a_message(task: str) -> bool:
    return MESSAGE.search(task) is not None


class NoText(Exception):
    """A reply that contains no text; the message says what it contains."""


class Unfinished(NoText):
    """A reply whose text begins and does not end."""


@value(slots=True)
class TextRequest:
    """What a model was given when it was asked for a text.

    `base` is the draft to be revised, if any, and `documents` are all other texts.
    """

    task: str = ""
    base: str | None = None
    documents: Sequence[str] = ()
    nonce: str | None = None
    """What stands in the tags around the texts of the prompt."""
    is_passage: bool = False
    """Whether the text takes the place of a passage, which may be a quotation."""
    mark: str | None = None
    """The number of the marks around the text of the reply, where they were asked for."""
    may_be_data: bool = False
    """Whether the text may be an object, by the task or by what validators check."""
    is_first_draft: bool = False
    """Whether the text becomes a draft that none came before."""
    review: str | None = None
    """What is to be mended in `base`; None if the text does not take its place."""

    @property
    def is_message(self) -> bool:
        """Whether the text may be part of a conversation, by the words of the task."""
        return _is_about_a_message(self.task or (self.base or "")[:2_000])

    def has(self, pattern: re.Pattern[str]) -> bool:
        """Return whether a given text matches a pattern somewhere."""
        return any(pattern.search(given) for given in self.texts)

    def contains(self, words: str) -> bool:
        """Return whether a given text contains these words."""
        folded = words.casefold()
        return any(folded in given.casefold() for given in self.texts)

    def starts_with(self, pattern: re.Pattern[str]) -> bool:
        """Return whether the draft to be revised matches a pattern at its start."""
        return self.base is not None and pattern.match(self.base.strip(BLANK)) is not None

    def ends_with(self, pattern: re.Pattern[str]) -> bool:
        """Return whether the draft to be revised matches a pattern that reaches its end."""
        return self.base is not None and pattern.search(self.base.strip(BLANK)) is not None

    def is_about(self, pattern: re.Pattern[str]) -> bool:
        """Return whether the task, or without one the draft, matches a pattern somewhere."""
        return pattern.search(self.task or self.base or "") is not None

    @property
    def texts(self) -> Sequence[str]:
        """All texts that were given."""
        return (self.task, self.base or "", *self.documents)


def in_unix_lines(read: Callable[[str, TextRequest], str], said: str, asked: TextRequest) -> str:
    """Return the text that `read` finds in a reply, where all line ends of Windows are Unix's.

    They are back in the text if the first line of the reply and a given text have them.
    """
    given = [text.replace("\r\n", "\n") for text in asked.texts]
    is_windows = given != [*asked.texts]
    if is_windows:
        base = None if asked.base is None else given[1]
        asked = replace(asked, task=given[0], base=base, documents=given[2:])
    text = read(said.replace("\r\n", "\n"), asked)
    is_windows = is_windows and said.partition("\n")[0].endswith("\r")
    return text.replace("\n", "\r\n") if is_windows else text


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
    r"(?:(?:<|\[|\uff1c|&(?:l(?:t;?)?)?)[ \t]*+[/\\]{0,2}[ \t]*+"
    r"(?:t|te|tex|text[-_ ]?\d{0,8}[ \t]*/?\\?(?:&(?:gt?)?)?)?)?\Z",
    re.IGNORECASE | re.MULTILINE,
)
"""The end of a text that may be the beginning of a mark."""
UNDECIDED = re.compile(
    r"\A(?:<[^>\n]*\Z|<\||\[[^\]\n]{0,6}\Z|◁[^▷\n]{0,6}\Z|[`~]{1,2}\Z|`{3}|~{3})"
)
"""How a text begins that may be thinking or in a code fence."""
SIGNS_OF_A_LINE = frozenset(" \t#>")
"""Signs in front of a mark that may be parts of it."""
MOST_SHORTER = 4
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
    return [
        between for between in texts if between.strip() and len(between) * MOST_SHORTER >= longest
    ]


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


def marked_text(reply: str, asked: TextRequest) -> str | None:
    """Return the text between the marks of a reply, None for a reply without them.

    Of what stands there only thinking before it and a code fence around it are removed. Raises
    `NoText` for more than one text or for nothing but thinking, `Unfinished` where the last mark is
    missing.
    """
    text = _inside_marks(reply, asked)
    return None if text is None else _with_indent(_without_fence(text, asked), reply, asked)


def begun_in(reply: str, asked: TextRequest) -> str:
    """Return what is certain of the text between marks in a reply that is still being written.

    The text is read as if its last mark came next. Held back are what may become a mark, a text of
    few words, which may be a mention of the marks, and one that begins as thinking or a code fence
    does: what follows decides whether that stays.
    """
    if asked.mark is None or len(OPENED.findall(reply)) > len(CLOSED.findall(reply)):
        return ""
    text = None
    with suppress(NoText):
        try:
            text = _inside_marks(reply, asked)
        except Unfinished:
            text = _inside_marks(f"{reply}\n{marks(asked.mark)[1]}", asked)
    text = HALF_A_MARK.sub("", text or "").rstrip(BLANK)
    is_certain = len(text) > LONGEST_MENTION and not UNDECIDED.match(text)
    return _with_indent(text, reply, asked) if is_certain else ""


def _inside_marks(reply: str, asked: TextRequest) -> str | None:
    """Return the text between the marks of a reply with a code fence around it, if it has one."""
    if asked.mark is None or "text" not in reply:
        return None
    try:
        texts = _between_marks(reply.strip(BLANK), asked.mark, asked)
    except UnclosedMark:
        end = marks(asked.mark)[1]
        raise Unfinished(f"it was cut off: {end} does not follow the text") from None
    texts = list(dict.fromkeys(between.strip(BLANK) for between in texts))
    if len(texts) > 1:
        raise NoText("it gives more than one text: give one")
    if not texts:
        return None
    text = without_marks(texts[0], asked.mark).strip(BLANK)
    return without_thinking(text, asked) if OPENED.match(text) else text


def _between_marks(said: str, mark: str, asked: TextRequest) -> list[str]:
    """Return what stands between the marks of a reply, those in its thinking aside.

    Words of a text about thinking stay: thinking is only looked for where the marks are no single
    pair.
    """
    any_number = not any(has_marks(given) for given in asked.texts)
    before = said.partition(marks(mark)[0])[0]
    if len(OPENED.findall(before)) <= len(CLOSED.findall(before)):
        with suppress(UnclosedMark):
            texts = marked_in(said, mark, any_number=any_number)
            if len(texts) == 1:
                return texts
    return marked_in(without_thinking(said, asked), mark, any_number=any_number)


def text_of(reply: str, asked: TextRequest) -> str:
    """Return the text of a reply without marks. Raises `NoText` if it has but thinking."""
    text = without_thinking(reply.strip(BLANK), asked)
    if asked.mark is not None:
        text = without_marks(text, asked.mark)
    text = _without_tokens(text, asked).strip(BLANK)
    is_framed = False
    for _ in range(4):
        before = text
        for rule in RULES:
            text = rule(text, asked)
        is_framed = is_framed or text != before
        text = _without_closing(text, asked, is_framed=is_framed)
        text = without_quotes(text, asked, is_framed=is_framed).strip(BLANK)
        if text == before:
            break
    return _with_indent(text, reply, asked)


def _with_indent(text: str, reply: str, asked: TextRequest) -> str:
    """Return a text with the indent of its first line; one space is a manner of models."""
    if reply.startswith(text):
        return text
    at = reply.rfind(text)
    indent = reply[reply.rfind("\n", 0, max(at, 0)) + 1 : max(at, 0)]
    return indent + text if text and re.fullmatch(r" {2,}| *\t[ \t]*", indent) else text


def without_thinking(text: str, asked: TextRequest) -> str:
    """Return a reply without what the model thought before it answered.

    Raises `NoText` when the thinking is unfinished or nothing follows it.
    """
    if not may_contain_thinking(text) or asked.has(A_CHANNEL):
        return text
    has_final = "<|channel|>" in text or "assistantfinal" in text
    if has_final and (final := list(FINAL.finditer(text))):
        return _after(text, final[-1].end())
    if CHANNEL.match(text):
        raise NoText("it contains nothing but unfinished thinking")
    if asked.has(OPENED) or NAMED_THOUGHT.search(asked.task):
        return text
    if prose := PROSE_THOUGHT.match(text):
        return _after(text, prose.end())
    text = _without_first_thoughts(text)
    if not asked.has(CLOSED) and (end := _last_unopened(text)):
        return _after(text, end)
    if "```" not in text and 0 < len(OPENED.findall(text)) < MOST_BLOCKS:
        text = THOUGHT_BLOCK.sub("", text).strip(BLANK)
    return text


def may_contain_thinking(text: str) -> bool:
    """Return whether a text has any of the characters that marks of thinking begin with.

    Searching for each mark takes many times as long, and most replies have none.
    """
    return (
        "<" in text
        or "◁" in text
        or ("[" in text and "think]" in text.lower())
        or "assistantfinal" in text
        or text.startswith(("Here is my thought process:", "Thinking..."))
    )


def _tags(text: str) -> list[tuple[int, int, int]]:
    """Return the places of all tags of thinking, in order, and how each changes the depth."""
    tags = [(tag.start(), tag.end(), 1) for tag in OPENED.finditer(text)]
    return sorted(tags + [(tag.start(), tag.end(), -1) for tag in CLOSED.finditer(text)])


def _last_unopened(text: str) -> int:
    """Return the end of the last closing tag before which no thinking is open, 0 without one."""
    depth, last = 0, 0
    for _, end, change in _tags(text):
        if change < 0 and depth <= 0:
            last = end
        depth += change
    return last


def _without_first_thoughts(text: str) -> str:
    """Return a text without the thoughts that it begins with, one after the other."""
    at = depth = last = 0
    for start, end, change in _tags(text) if OPENED.match(text) else ():
        if depth == 0 and (start != at or change < 0):
            break
        depth += change
        last = end if change < 0 else last if depth > 1 else 0
        at = last or at
        while at < len(text) and text[at] in BLANK:
            at += 1
    if depth > 0 and (not last or OPENED.match(text, at)):
        raise NoText("it contains nothing but unfinished thinking")
    return _after(text, at) if at else text


def _after(text: str, at: int) -> str:
    rest = text[at:].strip(BLANK)
    if not TOKENS.sub("", rest).strip(BLANK):
        raise NoText("it contains nothing after the thinking")
    return rest


def _without_tokens(text: str, asked: TextRequest) -> str:
    """Remove tokens of chat templates at both ends."""
    if not (text.startswith(("<", "[")) or text.endswith((">", "]"))) or asked.has(TOKENS):
        return text
    while found := TOKENS.match(text):
        text = (
            ROLE.sub("", text[found.end() :], count=1)
            if ROLE.match(text, found.end())
            else text[found.end() :]
        )
        text = text.lstrip(BLANK)
    while ends := [
        token for token in TOKENS.finditer(text, max(0, len(text) - 40)) if token.end() == len(text)
    ]:
        text = text[: ends[0].start()].rstrip(BLANK)
    return text


LONGEST_LINES = 1_000
"""Characters in which lines before a text are looked for."""


def _without_lead_in(text: str, asked: TextRequest) -> str:
    """Remove a first line such as "Sure! Here is the revised text:"."""
    if "\n" not in text:
        return text
    for pattern, is_certain in LINES_BEFORE:
        found = pattern.match(text[:LONGEST_LINES])
        if not found or found.end() == len(text) or asked.starts_with(pattern):
            continue
        line, rest = found[0].strip().rstrip(":：*"), text[found.end() :].lstrip(BLANK)
        if asked.starts_with(OPENING) and not OPENING.match(rest):
            continue
        if is_certain(found, asked) and not asked.contains(line):
            return rest
    return text


def _is_label(found: re.Match[str], asked: TextRequest) -> bool:
    """Return whether it is no title: without a colon it could be that of a first draft."""
    return bool(found["colon"]) or asked.base is not None


def _is_before_revision(found: re.Match[str], asked: TextRequest) -> bool:
    return not asked.is_message and asked.base is not None


def _is_before_text(found: re.Match[str], asked: TextRequest) -> bool:
    """Return whether a short line can only stand before a revision, or before a framed text."""
    is_framed = found.string[found.end() :].startswith(("```", "~~~", *QUOTES))
    return not asked.is_message and (asked.base is not None or is_framed)


def _names_a_text(found: re.Match[str], asked: TextRequest) -> bool:
    """Return whether a line before the text says that the text follows."""
    what = found["what"] or found["did"] or ""
    revised = REVISED.search(what)
    if revised and asked.contains(what.strip(" :：,.!")):
        return False
    if revised and asked.is_message and asked.contains(what[revised.start() :].strip(" :：,.!")):
        return False
    names = A_NOUN.search(what) is not None
    if found["end"] in ".。" or found["said"]:
        return _is_said_of_a_text(found, what, asked)
    if revised and (names or asked.base is not None):
        return True
    if asked.is_message:
        return SALUTATION.match(found.string, found.end()) is not None
    return names or bool(found["pleased"] or found["did"])


def _is_said_of_a_text(found: re.Match[str], what: str, asked: TextRequest) -> bool:
    """Return whether several sentences, or one without a colon, say that the text follows."""
    if asked.base is None and found["end"] in ".。":
        return False
    is_done = bool(found["said"]) and DID.search(found["said"]) is not None
    if is_done and asked.base is not None:
        return True
    if found["said"] and not PERSONAL.match(found["said"]):
        return False
    is_revised = REVISED.search(what) is not None
    is_last = LAST_NOUN.search(what) is not None
    return is_revised and is_last and (found["here"] or "").casefold() != "this is"


LINES_BEFORE: Sequence[tuple[re.Pattern[str], Callable[[re.Match[str], TextRequest], bool]]] = (
    (LEAD_IN, _names_a_text),
    (LABEL, _is_label),
    (GIVEN, _is_before_text),
    (ROLE_LABEL, _is_before_revision),
)
"""Lines before a text, and what must hold for each so that it cannot be part of the text."""


def _without_work_before(text: str, asked: TextRequest) -> str:
    """Remove what stands before a label such as "Revised text:", if it is about the revision."""
    if asked.base is None or not BEFORE_LABEL.match(text):
        return text
    labels = [label for label in LABEL_INSIDE.finditer(text) if label.start() > 0]
    if len(labels) != 1:
        return text
    name, rest = labels[0]["name"].strip(" *_[]()#:"), text[labels[0].end() :].strip(BLANK)
    first = text.split("\n", 1)[0].strip(" *_#:")
    return text if not rest or asked.contains(name) or asked.base.startswith(first) else rest


def _without_remark_before_rule(text: str, asked: TextRequest) -> str:
    """Remove a first sentence such as "Sure, I shortened it." that a rule sets apart."""
    found = RULE.search(text)
    if found is None or found.start() > SHORT or asked.has(RULE):
        return text
    return _until_rule(text[found.end() :], asked) if REMARK.match(text) else text


def _until_rule(text: str, asked: TextRequest) -> str:
    """Return a first draft, before which a rule was removed, without what one sets apart after."""
    rules = list(RULE.finditer(text)) if asked.base is None else []
    is_short = len(rules) == 1 and 4 * (len(text) - rules[0].end()) < rules[0].start()
    return text[: rules[0].start()] if is_short else text


def _without_tags(text: str, asked: TextRequest) -> str:
    """Remove tags around the whole text, those of the prompt's fence included."""
    if "<" not in text:
        return text
    if asked.nonce is not None and f" {asked.nonce}>" in text:
        tag = re.escape(asked.nonce)
        echo = re.compile(
            rf"\A<(?P<name>[^<>\n]{{1,80}}) {tag}>(?P<body>.*?)</(?P=name) {tag}>", re.DOTALL
        )
        while (found := echo.match(text)) and asked.contains(found["body"].strip()):
            if not (rest := text[found.end() :].strip(BLANK)):
                break
            text = rest
        text = re.sub(rf"\A<[a-z0-9 ]{{1,40}} {tag}>\n?|\n?</[a-z0-9 ]{{1,40}} {tag}>\Z", "", text)
    if label := FENCE_LABEL.match(text):
        text = text[label.end() :]
    found = WRAPPED.match(text) or WRAPPED_AND_CUT.match(text)
    if not found or f"</{found['tag']}" in found["body"]:
        return text
    is_content = asked.contains(f"<{found['tag']}") or asked.has(MARKUP)
    return text if is_content else found["body"].strip()


def _without_fence(text: str, asked: TextRequest) -> str:
    """Remove a code fence around the whole text, also one that is not closed."""
    if "```" not in text and "~~~" not in text:
        return text
    if not LINE_OF_FENCE.match(text):
        return text
    is_content = asked.starts_with(LINE_OF_FENCE)
    marks = list(LINE_OF_FENCE.finditer(text))
    first, inner = marks[0], marks[1:]
    if not inner:
        return text if is_content else text[first.end() :].strip("\n")
    last = marks[-1]
    after = text[last.end() :].strip(BLANK)
    if last["info"].strip() or (after and not (len(marks) == 2 and _is_note(after))):
        return text
    fences = [fence for fence in inner[:-1] if fence["marks"].startswith(first["marks"])]
    inside = text[first.end() : last.start()].strip("\n")
    is_content = is_content and not LINE_OF_FENCE.match(inside)
    return inside if _are_pairs(fences) and not is_content else text


def _are_pairs(fences: Sequence[re.Match[str]]) -> bool:
    """Return whether fences open and close in turn, each with a language where it opens."""
    turns = [bool(fence["info"].strip()) for fence in fences]
    return turns == [True, False] * (len(turns) // 2)


def _without_rule(text: str, asked: TextRequest) -> str:
    """Remove a rule that stands where a line before or after the text was."""
    if not text.startswith(("---", "***")):
        return text
    bare = re.sub(r"\A(?:-{3,}|\*{3,})[ \t]*\n+", "", text)
    if bare == text or asked.starts_with(re.compile(r"-{3,}|\*{3,}")):
        return text
    is_front_matter = re.match(r"[\w-]+:[^\n]*\n", bare) is not None
    if is_front_matter:
        return text
    return re.sub(r"\n[ \t]*(?:-{3,}|\*{3,})[ \t]*\Z", "", _until_rule(bare, asked))


def _without_closing(text: str, asked: TextRequest, *, is_framed: bool) -> str:
    """Remove a last paragraph that is about the text, such as "Let me know if ..."."""
    for split in _last_paragraphs(text):
        kept, note = text[: split.start()], text[split.end() :]
        if not kept.strip(BLANK):
            continue
        bare, is_remark = note.strip(BLANK), is_framed or split.re is RULE
        is_about = _is_note(bare) if is_remark else _is_about_revising(bare, asked)
        is_about = is_about or (is_remark and _is_offer(bare, kept, asked))
        if asked.base is None and not is_framed and (name := NOTE.match(bare)):
            is_about = DID.match(bare, name.end()) is not None
        if (is_about or _is_mark(bare, asked)) and not asked.contains(note.strip()):
            return kept.rstrip(BLANK)
    if (is_framed or asked.base is not None) and not asked.ends_with(LAST_RULE):
        text = LAST_RULE.sub("", text)
    return text


def _is_mark(note: str, asked: TextRequest) -> bool:
    """Return whether a last line marks the end of a text, or counts its words unasked."""
    if END_MARK.fullmatch(note):
        return not asked.contains("end of")
    if WORD_COUNT.fullmatch(note):
        is_named = "count" in note.casefold()
        return (is_named or asked.base is not None) and not asked.contains("word count")
    is_praise = asked.base is not None and SELF_PRAISE.fullmatch(note) is not None
    return is_praise and not asked.contains("score")


BLANK_LINES = re.compile(r"\n[ \t]*\n")


def _last_paragraphs(text: str) -> list[re.Match[str]]:
    """Return where the text may end before a remark: at a rule, or before the last paragraphs."""
    rules = list(RULE.finditer(text))[-1:]
    blanks = list(BLANK_LINES.finditer(text))[-8:]
    return [*rules, *blanks]


def _is_note(note: str) -> bool:
    """Return whether a paragraph after a framed text is about that text."""
    if OFFER.match(note):
        return WORK.search(note) is not None and len(note) <= SHORT and "\n\n" not in note
    is_remark = any(pattern.match(note) for pattern in (NOTE, CHANGES, DID, THIS_VERSION))
    return is_remark and len(note) <= 3 * SHORT


def _is_offer(note: str, text: str, asked: TextRequest) -> bool:
    """Return whether a paragraph speaks to a reader whom the text before it does not."""
    if asked.is_message or not OFFER.match(note) or len(note) > SHORT or "\n\n" in note:
        return False
    return PERSONAL_WORDS.search(note) is not None and not PERSONAL_WORDS.search(text)


def _is_about_revising(note: str, asked: TextRequest) -> bool:
    """Return whether a last paragraph can only be about the revision that it follows."""
    if asked.base is None or asked.is_message:
        return False
    if prefix := NOTE.match(note):
        note = note[prefix.end() :].lstrip(" *_")
        return DID.match(note) is not None and not FIRST_PERSON.search(asked.base)
    if THIS_VERSION.match(note):
        return len(note) <= SHORT and not asked.contains("version")
    if not _is_note(note) or (CHANGES.match(note) and A_CHANGE.search(asked.base)):
        return False
    return not DID.match(note) or not FIRST_PERSON.search(asked.base)


def without_quotes(text: str, asked: TextRequest, *, is_framed: bool) -> str:
    """Remove quotation marks around the whole text, unless it could be a quotation itself."""
    closing = QUOTES.get(text[:1], "")
    if len(text) < 3 or not closing or text[-1] not in closing:
        return text
    inside = text[1:-1]
    base = (asked.base or "").strip(BLANK)
    has_own = any(mark in inside for mark in {text[0], text[-1]} - {"'", "’"})
    if (has_own and not (base and QUOTES_WITHIN.match(inside))) or (
        text[0] in "'‘" and re.search(r"(?<!\w)['‘’]|['‘’](?!\w)", inside)
    ):
        return text
    may_quote = not base or asked.is_passage
    is_content = base[:1] in QUOTES or (may_quote and not is_framed)
    return text if is_content else inside


REFUSALS = phrase("reply", "refusals")
DECLINING = phrase("reply", "declining")
UNCHANGED = phrase("reply", "unchanged")
ASKS_FOR_TEXT = phrase("reply", "asks_for_text")
TO_WORK_ON = phrase("reply", "to_work_on")
ANNOUNCES = phrase("reply", "announces")
STAND_IN = phrase("reply", "stand_in")
SEVERAL = phrase("reply", "several")
A_CHOICE = phrase("reply", "a_choice")
ELIDED = phrase("reply", "elided")
SHORT = 500
"""Characters of a refusal or a remark at most; a longer reply is a text."""


def is_refusal(text: str, asked: TextRequest) -> bool:
    """Return whether a reply is nothing but a known form of refusing to write.

    Content are what a task that asks for a refusal gets, a reply with words of the draft, what a
    "we" says of what the given texts name, and a message with any of that or with a signature.
    """
    if len(text) > SHORT or not REFUSALS.match(text.replace("’", "'")):
        return False
    signs = (WE.search(text), _names_matter(text, asked))
    is_sent = asked.is_message and (any(signs) or SIGNATURE.search(text))
    if is_sent or all(signs) or DECLINING.search(asked.task):
        return False
    return not _shares_words(text, asked.base)


def _names_matter(text: str, asked: TextRequest) -> bool:
    """Return whether a text has a word, by its beginning, that says what a given text is about."""
    given = "\n".join(asked.texts).casefold()
    return any(
        word in given and word not in OF_ANY_MATTER for word in MATTER.findall(text.casefold())
    )


WE = re.compile(r"(?i)\b(?:we|wir)\b|我们|弊社|当社|저희")
"""The "we" of a firm: a model says "I"."""
SIGNATURE = re.compile(r"\n[^\n.!?。！？।؟]+\Z")
"""A last line that is no sentence."""
MATTER = re.compile(
    rf"(?=((?<![\w{ACCENTS}])[^\W\d_][\w{ACCENTS}]{{4}}"
    r"|[\u30a0-\u30ff\u3400-\u9fff\uac00-\ud7af]{2}))"
)
"""The first five letters of words, and pairs of signs in scripts without spaces."""
OF_ANY_MATTER = "\n".join(
    phrase("reply", name).pattern for name in ("refusals", "message", "any_matter")
)
"""Words that a refusal has whatever it is about."""


def remark_in(text: str, asked: TextRequest) -> str | None:
    """Return why a reply to a request for a text is not the whole text, if it says so."""
    whole = "passage" if asked.is_passage else "text"
    reason = _remark(PASSAGE.sub("text", text) if asked.is_passage else text, asked)
    if reason is None and asked.nonce is not None and _has_tags(text, asked.nonce):
        reason = "it repeats tags of the prompt: give the text alone"
    if reason is not None or asked.base is None:
        return reason
    if ELIDED.search(text) and not asked.has(ELIDED):
        reason = f"it leaves out a part of the text that is to stay: give the whole {whole}"
    elif SEVERAL.match(text) and not asked.has(A_CHOICE):
        reason = "it gives more than one text: give one"
    elif "\n+" in f"\n{text}" and _removes_lines(text, asked.base):
        reason = f"it is a list of differences: give the whole {whole}"
    return reason


PASSAGE = re.compile(r"\bpassage\b", re.IGNORECASE)


def _removes_lines(text: str, base: str) -> bool:
    lines = base.splitlines()
    removed = {f"-{line}" for line in lines if line.strip()}.difference(lines)  # "---" and "----"
    return not removed.isdisjoint(text.splitlines())


def _has_tags(text: str, nonce: str) -> bool:
    if f" {nonce}>" not in text:
        return False
    return re.search(rf"</?[^<>\n]{{1,80}} {re.escape(nonce)}>", text) is not None


def _remark(text: str, asked: TextRequest) -> str | None:
    """Return why a short reply is a remark instead of a text, if it is one."""
    if len(text) > SHORT or asked.is_message or _shares_words(text, asked.base):
        return None
    text = text.replace("’", "'")
    reason = None
    if asked.base is not None and UNCHANGED.match(text):
        reason = "it is a remark on the text and not the text"
    elif ASKS_FOR_TEXT.match(text) and TO_WORK_ON.search(text):
        reason = "it asks for a text that was given: it stands between tags above"
    elif ANNOUNCES.match(text) or (STAND_IN.match(text) and not asked.contains(text)):
        reason = "it announces the text and does not contain it"
    return reason


def _shares_words(text: str, base: str | None) -> bool:
    """Return whether at least half of what a reply is about, by its words, stands in the draft."""
    if base is None:
        return False
    words, known = (set(MATTER.findall(given.casefold())) for given in (text, base))
    return bool(words) and len(words & known) * 2 >= len(words)


RULES: Sequence[Callable[[str, TextRequest], str]] = (
    _without_lead_in,
    _without_work_before,
    _without_remark_before_rule,
    _without_tags,
    _without_fence,
    _without_rule,
)
"""What is removed from around a text; each rule leaves a text alone that it is not certain of."""


ABOUT_TEXTS = phrase("doubt", "about_texts")
"""Words about a text and the work on it: those that the draft has as well do not count."""
PERSONAL_WORDS = phrase("doubt", "personal")
I_AND_YOU = frozenset(
    {*("ich", "mir", "mich", "sie", "je", "j", "vous", "yo", "te", "eu", "io", "ho", "ti")}
    | {*("ik", "jag", "jeg", "ja", "я", "вам", "ben", "minä", "saya", "tôi", "ผม")}
)
NAMED_ROLE = phrase("doubt", "role")
ENDS_IN_COLON = re.compile(r"[:：][*_]*\s*\Z")
FIRST_LINE = re.compile(r"\A([^\n]{1,200}[:：][*_]*)[ \t]*\n(?=[^\s\-*+•\d|`~])")
"""A line that ends in a colon right before a text, and no list."""
A_REMARK = phrase("doubt", "remark")
A_LABEL = re.compile(r"\A(?:#{1,6}[ \t]+|[*_]{2}|\[)?[^\n.!?。！？]{1,60}\Z")
A_HEADING = re.compile(r"\W*\w[^\n:：.!?。]{0,60}(?:[:：】\])][*_]*(?:\s|\Z)|[*_]+[:：])")
"""A label and its colon or brackets, alone or on the line that it is the label of."""
DELIMITER = re.compile(r"[^\w\s]{3,}|[\[<(=*~#-]{1,5}[ \t]*/?\w[\w \t:-]{0,60}[\])>=*~#-]{1,5}")
TURN = phrase("doubt", "turn")
NAMES_A_TURN = phrase("doubt", "names_a_turn")
QUOTED = re.compile(
    r"\"[^\"\n]+\"|“[^“”\n]+”|„[^„“”\n]+[“”]|«[^«»\n]+»|‘[^‘’\n]+’|「[^「」\n]+」|『[^『』\n]+』|`[^`\n]+`"
)
QUOTED_LINES = re.compile(r"(?:^>[^\n]*(?:\n|\Z))+", re.MULTILINE)
CONFLICT = tuple(map(re.compile, (r"<{5,}[ \w]*\Z", r"={5,}\Z", ">{5,}")))
"""Three lines that follow each other in this order."""
FRONT_MATTER = re.compile(r"---\n|<!--|\[!\[|import |<[a-z!?]", re.IGNORECASE)
A_WORD = re.compile(r"\w")
NO_WORDS = re.compile(r"(?=.)[\s.…*_=~#-]+", re.DOTALL)
MOST_HINTS = 4
"""Different words about texts and the review that no paragraph of an article has by chance."""


def unframed(text: str, asked: TextRequest) -> str:
    """Return a revision without what certainly stands around it, by what the draft shows."""
    base = asked.base
    if asked.review is None or base is None or asked.is_passage:
        return text
    return _without_edges(_without_frame(text, asked, base), asked, known(base.strip(BLANK)))


def _without_frame(text: str, asked: TextRequest, base: str) -> str:
    """Return a text without lines or marks that stand all around it."""
    for rule in (_between_fences, _without_delimiters, _without_quote_marks, _without_indent):
        text = rule(text, asked, base)
    return text


def _between_fences(text: str, asked: TextRequest, base: str) -> str:
    """Return what stands between two lines of quotation marks or of a fence.

    The draft has no such lines, and resembles nothing outside of them.
    """
    for mark in ('"""', "'''", "```", "~~~"):
        if mark not in text or mark in base:
            continue
        lines = list(re.finditer(rf"(?m)^[ \t]*{mark}[^\n]*$", text))
        if len(lines) < 2 or not (base or len(lines) == 2):
            continue
        body = text[lines[0].end() : lines[-1].start()].strip("\n")
        around = f"{text[: lines[0].start()]}\n\n{text[lines[-1].end() :]}"
        is_all = not base and (not around.strip() or _is_text_in_fence(lines[0][0], body, around))
        if is_all or (base and known(base).likeness(body) >= ALIKE > known(base).likeness(around)):
            return body
    return text


def _is_text_in_fence(line: str, body: str, around: str) -> bool:
    """Return whether a fence in a first draft is around its text, and not around code."""
    is_prose = re.fullmatch(rf"[ \t]*\W{{3}}{LANGUAGE}", line, re.IGNORECASE) is not None
    return is_prose and len(body) > len(around) and len(blocks_of(body)) > 1 and known(body).is_long


def _without_delimiters(text: str, asked: TextRequest, base: str) -> str:
    """Remove a first and a last line that mark both ends of the text, or one that is left over."""
    first, _, rest = text.partition("\n")
    body, _, last = rest.rpartition("\n")
    first, last = first.strip(), last.strip()
    is_pair = DELIMITER.fullmatch(first) and DELIMITER.fullmatch(last) and _are_a_pair(first, last)
    if not (is_pair and body.strip()) or not {first, last}.isdisjoint(
        line.strip() for line in base.splitlines()
    ):
        return _without_last_fence(text, base)
    is_markup = base.lstrip().startswith("<") or asked.is_about(MARKUP)
    return text if first.startswith("<") and is_markup else body.strip("\n")


def _are_a_pair(first: str, last: str) -> bool:
    if not A_WORD.search(first) or not A_WORD.search(last):
        return first == last and first[:1] not in "`~"
    named, closed = words_and_signs(first), words_and_signs(last)
    return (
        named == closed
        or named[1:] == closed[1:]
        or (named[0] in {"begin", "start"} and closed[0] in {"end", "finish", "stop"})
    )


def _without_last_fence(text: str, base: str) -> str:
    """Remove a fence in the last line that closes nothing."""
    kept, _, last = text.rpartition("\n")
    is_left_over = last.strip() in {"```", '"""', "~~~"} and not base.rstrip().endswith(
        last.strip()
    )
    return kept.rstrip() if is_left_over and text.count(last.strip()) % 2 else text


def _without_quote_marks(text: str, asked: TextRequest, base: str) -> str:
    """Remove the marks of a blockquote from every line, if no line of the draft has one.

    A blockquote of several blocks that is most of a first draft is its text.
    """
    if ">" not in text or any(line.lstrip().startswith(">") for line in base.split("\n")):
        return text
    lines = [line for line in text.split("\n") if line.strip()]
    runs = () if base else [run[0] for run in QUOTED_LINES.finditer(text)]
    if longest := max((run for run in runs if 2 * len(run) > len(text)), default=""):
        lines, text = longest.split("\n"), longest
    if not all(line.startswith(">") for line in lines):
        return text
    return "\n".join(re.sub(r"\A> ?", "", line) for line in text.split("\n"))


def _without_indent(text: str, asked: TextRequest, base: str) -> str:
    """Remove what every line is indented by, if the draft has a line that is not indented."""
    is_indented = text.startswith(("  ", "\t")) and not base.startswith((" ", "\t"))
    return dedent(text) if is_indented and len(blocks_of(base)) > 1 else text


def _without_edges(text: str, asked: TextRequest, base: KnownText) -> str:
    """Remove blocks before and after the text that are certainly about it."""
    if not base.is_enough or asked.is_message:
        return text
    text = _without_start_of_line(text, asked, base)
    if _begins_and_ends_alike(text, base):
        return text
    before, after = _edges(text, base)
    if before and _is_certain_before(text, before, asked, base):
        at = text.index(before[-1]) + len(before[-1])
        text = text[at:].lstrip("\n")
        text = re.sub(r"\A[ \t]*(?:-{3,}|\*{3,}|_{3,}|={3,})[ \t]*\n+", "", text)
    if after and _is_certain(after, asked, base):
        text = text[: text.rindex(after[0])].rstrip()
        text = re.sub(r"\n[ \t]*(?:-{3,}|\*{3,}|_{3,}|={3,})[ \t]*\Z", "", text).rstrip()
    return text


def _begins_and_ends_alike(text: str, base: KnownText) -> bool:
    """Return whether the first and the last block of a text certainly resemble the draft."""
    blocks = text.split("\n\n")
    if FIRST_LINE.match(text):
        return False
    return base.has_words_of(blocks[0]) and base.has_words_of(blocks[-1])


def _without_start_of_line(text: str, asked: TextRequest, base: KnownText) -> str:
    """Remove what stands before the first words of the draft on the same line."""
    line = text.partition("\n")[0]
    start = base.blocks[0].partition("\n")[0] if base.blocks else ""
    found = re.match(r"([^:：\n]{1,200})[:：][*_]*[ \t]*(?=\S)", line)
    if found is None:
        return text
    said, rest = found[1], line[found.end() :]
    if asked.contains(said) or base.likeness(said) >= ALIKE:
        return text
    if base.likeness(rest) < ALIKE / 2 and not are_alike(rest, start):
        return text
    is_foreign = base.is_foreign(said) or base.may_be_foreign(said, 4)
    if NAMED_ROLE.match(line) is not None or is_foreign or _hints(said, asked) >= 2:
        return rest + text[len(line) :]
    return text


def _edges(text: str, base: KnownText) -> tuple[list[str], list[str]]:
    """Return the blocks before and after those that resemble the draft."""
    blocks = blocks_of(FIRST_LINE.sub(r"\1\n\n", text))
    found = first_and_last(base, blocks)
    if found is None:
        return [], []
    first, last = found
    return blocks[:first], blocks[last + 1 :]


def _is_certain_before(
    text: str, blocks: Sequence[str], asked: TextRequest, base: KnownText
) -> bool:
    """Return whether the blocks at the start of a reply can only be about the text."""
    if FRONT_MATTER.match(blocks[0]):
        return False
    title, following = base.blocks[0], blocks_of(FIRST_LINE.sub(r"\1\n\n", text))[len(blocks)]
    if title.startswith("#") and following.startswith("#") and are_alike(title, following):
        return _has_hint(blocks, asked, base)
    if len(blocks) == 1 and ENDS_IN_COLON.search(blocks[0]) and base.may_be_foreign(blocks[0]):
        return True
    return _is_certain(blocks, asked, base)


def _is_certain(blocks: Sequence[str], asked: TextRequest, base: KnownText) -> bool:
    """Return whether blocks at an end of a reply can only be about the text."""
    if all(_is_foreign_prose(block, base) or not A_WORD.search(block) for block in blocks):
        return True
    said = "\n\n".join(blocks)
    return _hints(said, asked) >= MOST_HINTS or any(
        _is_about_the_work(block) for block in blocks[:2]
    )


def _is_foreign_prose(block: str, base: KnownText) -> bool:
    """Return whether a block is in another language, and no quotation, code or table."""
    return re.match(r"\s*[>*_`~|\"“„«‹『「]", block) is None and base.is_foreign(block)


def _is_about_the_work(block: str) -> bool:
    if OFFER.match(block):
        return WORK.search(block) is not None
    if NOTE.match(block):
        return DID.search(block) is not None
    return any(pattern.match(block) for pattern in (CHANGES, DID, THIS_VERSION))


def _has_hint(blocks: Sequence[str], asked: TextRequest, base: KnownText) -> bool:
    said = "\n\n".join(blocks)
    is_label = len(blocks) == 1 and (
        ENDS_IN_COLON.search(said) or (A_WORD.search(said) and A_LABEL.match(said.strip()))
    )
    return (
        bool(is_label)
        or any(A_REMARK.match(block.strip()) for block in blocks)
        or _hints(said, asked) > 0
        or PERSONAL_WORDS.search(said) is not None
        or any(base.may_be_foreign(block) or base.is_foreign(block) for block in blocks)
        or not {*words_and_signs(said)}.isdisjoint(I_AND_YOU - base.words)
    )


def _hints(said: str, asked: TextRequest) -> int:
    """Return how many different words are about the text or its review, and not in the draft."""
    own = known(asked.base or asked.task).words
    reviewed = known(asked.review or "").words
    found = {mention[0].casefold() for mention in ABOUT_TEXTS.finditer(said)}
    found |= {word for word in words_and_signs(said) if len(word) > 4 and word in reviewed}
    return len([word for word in found if word not in own])


def flaw_in_text(text: str, asked: TextRequest, *, is_marked: bool) -> str | None:
    """Return why a reply is certainly no text, None if it may be one."""
    if asked.is_passage:
        return None
    if repeats_itself(text) and not any(repeats_itself(given) for given in asked.texts):
        return "it repeats itself without end: give the text once"
    if NO_WORDS.fullmatch(text) and (asked.base is None or A_WORD.search(asked.base)):
        return "it contains no words"
    if not is_marked and _has_turn(text, asked):
        return ANOTHERS
    if asked.review is None or asked.base is None:
        return None
    return _flaw_of_revision(text, asked, known(asked.base.strip(BLANK)))


ANOTHERS = "it goes on with words of somebody else: give the text alone"


def _has_turn(text: str, asked: TextRequest) -> bool:
    turn = NAMES_A_TURN.search(text) and TURN.search(text, 1)
    return bool(turn) and not asked.is_message and not asked.has(TURN)


def _flaw_of_revision(text: str, asked: TextRequest, base: KnownText) -> str | None:
    if not base.is_enough:
        return None
    flaw = None
    if _is_object(text) and not (asked.may_be_data or _is_object(asked.base or "")):
        flaw = "it is an object and not the text"
    elif _is_diff(text, base) and not _is_diff(asked.base or "", base):
        flaw = "it is a list of differences: give the whole text"
    elif 2 * len(text) > 3 * len(asked.base or "") and _has_variants(blocks_of(text), base):
        flaw = "it gives more than one text: give one"
    elif base.is_long and not base.has_words_of(text) and (likeness := base.likeness(text)) < ALIKE:
        review = known(asked.review or "")
        if review.length > 5 and review.likeness(text) > max(likeness, 0.4):
            flaw = "it repeats the review: give the revised text"
        elif 3 * len(words_and_signs(text)) < 2 * base.length and _hints(text, asked) >= 3:
            flaw = "it is about the text and not the text"
    return flaw


def _is_object(text: str) -> bool:
    begins = re.match(r"\s*(?:<tool_call>\s*)?(?:\{\s*[\"'}]|\[\s*(?:\{|\"))", text)
    return begins is not None and text.rstrip().endswith(("}", "]", "</tool_call>"))


def _is_diff(text: str, base: KnownText) -> bool:
    rest = iter(text.split("\n"))
    if "<<<<<" in text and all(any(map(mark.match, rest)) for mark in CONFLICT):
        return True
    if "\n+" not in f"\n{text}":
        return False
    lines = [line for line in text.splitlines() if line.strip()]
    added = [line for line in lines if re.match(r"\+(?!\d)", line)]
    removed = [
        line
        for line in lines
        if line.startswith("-") and base.share_of(words_and_signs(line)) >= 0.8
    ]
    marked = [line for line in lines if line[:1] in "+-@ "]
    return bool(added and removed) and 2 * len(marked) >= len(lines)


def _has_variants(blocks: Sequence[str], base: KnownText) -> bool:
    """Return whether most blocks of the draft have two blocks that say the same."""
    long = [block for block in base.blocks if len(words_and_signs(block)) >= 2 * 8][:20]
    if len(long) < 1 or len(blocks) > 400:
        return False
    twice = 0
    for block in long:
        own = KnownText(block)
        alike = [
            one for one in blocks if own.likeness(one) >= 0.4 and len(words_and_signs(one)) >= 8
        ]
        twice += len(alike) > sum(own.likeness(one) >= 0.4 for one in base.blocks)
    return 2 * twice > len(long) and (len(long) > 1 or twice == len(long))


def doubt_in(text: str, asked: TextRequest, *, is_marked: bool) -> str | None:
    """Return why a reply may be no text, or more than it; None where nothing says so."""
    is_loose = not is_marked and asked.mark is not None
    if asked.base is None:
        return _doubt_in_first(text, asked) if is_loose else None
    base = known(asked.base.strip(BLANK))
    if asked.review is None or not base.is_enough:
        return None
    if doubt := _doubt_of_whole(text, asked, base):
        return doubt
    return (_doubt_at_edges if is_loose else _doubt_between_marks)(text, asked, base)


ABOUT = "it may be about the text: give the whole revised text"
LITTLE = "it has little in common with the draft: give the revised text of the draft"


def _doubt_of_whole(text: str, asked: TextRequest, base: KnownText) -> str | None:
    """Return why a reply may be no text at all, by its words and its length."""
    draft = asked.base or ""
    if (2 * len(text) > len(draft) and base.has_words_of(text)) or not base.is_long:
        return None
    return ABOUT if _speaks_of(draft, text, base) else _doubt_by_size(text, asked, base)


def _doubt_between_marks(text: str, asked: TextRequest, base: KnownText) -> str | None:
    """Return why a short text may be none, or why more than it may stand between the marks."""
    blocks = blocks_of(text)
    if unframed(text, asked) != text:
        return _outside(blocks[0])
    if _has_turn(text, asked):
        return ANOTHERS
    if 2 * len(text) < len(asked.base or "") and first_and_last(base, blocks) is None:
        return LITTLE
    is_bracketed = A_REMARK.match(blocks[-1].strip()) and not asked.contains(blocks[-1].strip())
    return _outside(blocks[-1]) if is_bracketed and len(blocks) > 1 else None


def _speaks_of(draft: str, text: str, base: KnownText) -> bool:
    """Return whether a reply quotes the draft, and has little in common with it besides."""

    def without(quotation: re.Match[str]) -> str:
        words = quotation[0][1:-1].strip(" .,;:!?…")
        is_draft = words and words in draft and quotation[0] not in draft
        return " " if is_draft else quotation[0]

    rest = QUOTED.sub(without, text)
    return rest != text and base.likeness(rest) < ALIKE


def _doubt_at_edges(text: str, asked: TextRequest, base: KnownText) -> str | None:
    """Return what stands before or after all that resembles the draft, or where it breaks off."""
    around = _around(text, asked, base)
    if around is None:
        return LITTLE if base.is_long else None
    for blocks in around:
        if blocks:
            return _outside(blocks[0])
    line = _first_line(text)
    if _begins_later(line, base) and not asked.contains(line):
        return _outside(line)
    return BREAKS_OFF if _breaks_off(text) and not _breaks_off(asked.base or "") else None


def _around(text: str, asked: TextRequest, base: KnownText) -> tuple[list[str], list[str]] | None:
    """Return the blocks before and after all that resembles the draft, None if nothing does.

    A first heading instead of the draft's is its own.
    """
    blocks = _blocks_and_edges(text) if text.strip() else []
    found = first_and_last(base, blocks)
    if found is None or 2 * len(text) < len(asked.base or ""):
        return None
    first = _place_of(base.blocks[0], blocks, found[0])
    last = _place_of(base.blocks[-1], blocks, found[1], is_last=True)
    is_title = blocks[0].startswith("#") and base.blocks[0].startswith("#")
    return blocks[: 0 if is_title and first == 1 else first], blocks[last + 1 :]


def _first_line(text: str) -> str:
    return blocks_of(text)[0].strip().partition("\n")[0]


BREAKS_OFF = "it breaks off: give the whole revised text"


def _blocks_and_edges(text: str) -> list[str]:
    """Return the blocks of a text, the first line of the first and the last of the last apart."""
    blocks = blocks_of(text)
    head, _, rest = blocks[0].strip().partition("\n")
    blocks[:1] = [head, rest] if rest else [head]
    rest, _, tail = blocks[-1].strip().rpartition("\n")
    blocks[-1:] = [rest, tail] if rest else [tail]
    return blocks


MOST_AROUND = 3
"""Blocks about a text that are looked for before or after it."""


def _place_of(block: str, blocks: Sequence[str], at: int, *, is_last: bool = False) -> int:
    """Return which block at `at` or near it says what the first or last of the draft says.

    Where none does it is `at`. What is said about a text takes few blocks, and a long text
    says what its title says in many places.
    """
    alike = [
        number
        for number, other in enumerate(blocks)
        if abs(number - at) <= MOST_AROUND and are_alike(block, other)
    ]
    return alike[-1 if is_last else 0] if alike else at


def _breaks_off(text: str) -> bool:
    """Return whether a text ends within a sentence: its last line is prose without an end."""
    line = text.rstrip().rpartition("\n")[2]
    is_prose = (
        re.match(r"\s*(?:[-+*>#|]|\d+[.)])", line) is None and len(words_and_signs(line)) >= FEW
    )
    return is_prose and re.search(rf"[\w{ACCENTS},;:、，；：]\Z", line) is not None


def _begins_later(line: str, base: KnownText) -> bool:
    """Return whether a first line has the first words of the draft behind others."""
    start, words = words_and_signs(base.blocks[0].partition("\n")[0])[:3], words_and_signs(line)
    places = [at for at in range(len(words)) if words[at : at + len(start)] == start]
    return NAMED_ROLE.match(line) is not None or (places[:1] > [0] and len(start) == 3)


def _doubt_by_size(text: str, asked: TextRequest, base: KnownText) -> str | None:
    words = words_and_signs(text)
    if len(words) * 10 < base.length:
        return "it has less than a tenth of the draft's words: give the whole revised text"
    if len(words) > 3 and base.share_of([word for word in words if len(word) > 3] or words) < 0.1:
        return "it has nothing in common with the draft: give the revised text of the draft"
    if len(words) * 3 < base.length and _hints(text, asked):
        return ABOUT
    return None


def _doubt_in_first(text: str, asked: TextRequest) -> str | None:
    """Return why a first draft may be none, or more than it: there is no draft to compare with.

    Of several blocks without marks any may be about the text, in words that nobody foresees.
    """
    if _is_object(text) and not asked.may_be_data:
        return "it may be an object and not the text"
    if asked.is_first_draft and len(blocks_of(FIRST_LINE.sub(r"\1\n\n", text))) > 1:
        return "nothing shows where the text begins and where it ends"
    if asked.is_message:
        return None
    line = text.partition("\n")[0]
    is_said = OPENING.match(line) or NAMED_ROLE.match(line) or known(text).is_foreign_to(line)
    if (is_said and not asked.contains(line)) or _without_frame(text, asked, "") != text:
        return _outside(line)
    if (label := LABEL_INSIDE.search(text)) and not asked.contains(label[0].strip()):
        return _outside(label[0])
    return BREAKS_OFF if known(text).is_long and _breaks_off(text) else None


def settled(text: str, asked: TextRequest, *, is_marked: bool) -> str | None:
    """Return the text of a reply that was asked for again and is as doubtful; None without one.

    Blocks that are probably about the text are removed. New blocks that say nothing of texts or to
    a reader are taken, and so is another text of the draft's length, such as a translation. There
    is no draft to keep instead of a first one, which is taken without what is probably about it.
    """
    if asked.base is None and _is_object(text) and not asked.may_be_data:
        return None
    if asked.base is None or not text.strip():
        is_clear = asked.is_message or not text.strip()
        return text if is_clear else _first_without_edges(text, asked)
    base = known(asked.base.strip(BLANK))
    text = text if is_marked else _without_probable_edges(text, asked, base)
    if doubt_in(text, asked, is_marked=is_marked) is None:
        return text
    if _breaks_off(text) and not _breaks_off(asked.base):
        return None
    around = _around(text, asked, base)
    if around is None:
        return text if _may_be_anew(text, asked, base) else None
    is_odd = is_marked or _begins_later(_first_line(text), base)
    return None if is_odd or any(_says_it_is_none(block, asked, base) for block in around) else text


def _says_it_is_none(blocks: Sequence[str], asked: TextRequest, base: KnownText) -> bool:
    """Return whether anything in blocks before or after a text says that they are not its own."""
    if not blocks or FRONT_MATTER.match("\n".join((*blocks, ""))):
        return False
    return _has_hint(blocks, asked, base) or any(map(A_HEADING.match, blocks[:2]))


def _may_be_anew(text: str, asked: TextRequest, base: KnownText) -> bool:
    """Return whether a text that is unlike the draft or short may be one: nothing says another."""
    if _hints(text, asked) > 1 or _speaks_of(asked.base or "", text, base) or OPENING.match(text):
        return False
    blocks = blocks_of(text)
    is_odd = any(map(NO_WORDS.fullmatch, blocks)) or A_REMARK.match(blocks[-1].strip()) is not None
    if is_odd or len(words_and_signs(text)) < FEWEST_WORDS:
        return False
    return base.likeness(text) >= ALIKE or 2 * len(words_and_signs(text)) >= base.length


def _without_probable_edges(text: str, asked: TextRequest, base: KnownText) -> str:
    """Remove what is probably about the text before and after it, and on its first line."""
    around = _around(text, asked, base)
    if around is None or asked.is_message:
        return text
    before, after = around
    said = _said_before(_first_line(text), base)
    if before and _is_probable(before, before[-1], asked, base):
        text = text[text.index(before[-1]) + len(before[-1]) :].strip("\n")
        text = FIRST_RULE.sub("", text)
    elif not before and OPENING.match(said):
        text = text[text.index(said) + len(said) :].lstrip()
    if after and (_is_probable(after, after[0], asked, base) or END.fullmatch(after[0])):
        text = LAST_RULE.sub("", text[: text.rindex(after[0])].rstrip()).rstrip()
    return text


FEWEST_WORDS = 4
"""Words of the shortest text that may be a summary."""
FIRST_RULE = re.compile(r"\A(?:-{3,}|\*{3,}|_{3,}|={3,})[ \t]*\n+")
MOST_EDGES = 20
"""How many frames and remarks are removed from around a first draft."""
END = phrase("doubt", "end")


def _is_probable(blocks: Sequence[str], label: str, asked: TextRequest, base: KnownText) -> bool:
    """Return whether blocks before or after a text are about it, by two signs of three.

    `label` is the block that would be their heading, or the text's.
    """
    said = "\n\n".join(blocks)
    if 3 * len(words_and_signs(said)) > base.length or asked.contains(said.strip()):
        return False
    is_label = ENDS_IN_COLON.search(label) or A_LABEL.match(label.partition("\n")[0])
    hints = _hints(said, asked)
    if hints > 1:
        return is_label is not None or PERSONAL_WORDS.search(said) is not None
    is_opening = OPENING.match(said) is not None and len(words_and_signs(said)) <= FEW
    return is_label is not None and (hints > 0 or is_opening)


def _said_before(line: str, base: KnownText) -> str:
    """Return the words and the sign that a first line has before the first words of the draft."""
    said, found, _ = line.partition(base.blocks[0].strip()[:12])
    return said.rstrip() if found and re.search(r"[:!.。！：—–-]\s*\Z", said) else ""


def _first_without_edges(text: str, asked: TextRequest) -> str:
    """Return a first draft without what is probably around it, as its text shows."""
    before = None
    for _ in range(MOST_EDGES):
        if text == before:
            break
        before, text = text, _without_frame(text, asked, "").strip("\n")
        text = without_quotes(text, asked, is_framed="\n\n" in text)
        text = _below_title(_between_rules(text, asked))
        blocks = blocks_of(FIRST_LINE.sub(r"\1\n\n", text))
        role = A_ROLE.match(text)
        if role and not asked.contains(role[0].strip()):
            text = text[role.end() :]
        elif said := _announced_in(text, asked):
            text = text[len(said) :].lstrip("*_ \t")
        elif len(blocks) > 1:
            text = _without_first_edges(text, blocks, asked)
    return text


def _between_rules(text: str, asked: TextRequest) -> str:
    """Return a first draft without what rules set apart at both ends, or a remark behind one.

    What stands before the first of two rules begins as a reply does. A remark behind a single one
    is by an "I" that the text does not have.
    """
    rules = list(RULE.finditer(text))
    if not rules or len(rules) > 2 or asked.has(RULE):
        return text
    start, end = rules[0].end() if len(rules) > 1 else 0, rules[-1].start()
    before, body, after = text[:start], text[start:end], text[rules[-1].end() :]
    if 4 * max(map(len, (before, after))) > len(body):
        return text
    is_by_i = FIRST_PERSON.search(after) and not FIRST_PERSON.search(body)
    return body.strip("\n") if (OPENING.match(before) if before else is_by_i) else text


def _below_title(text: str) -> str:
    """Return a first draft from its title on, if what stands above the title is short.

    A line such as the name of a column stays, and so does a block that a rule sets apart.
    """
    titles = list(A_TITLE.finditer(text))
    if len(titles) != 1:
        return text
    above, below = text[: titles[0].start()], text[titles[0].start() :]
    blocks = blocks_of(above)
    is_single = len(blocks) == 1 and A_LABEL.fullmatch(blocks[0].strip()) is not None
    is_kicker = is_single and not ENDS_IN_COLON.search(above)
    is_apart = len(blocks) == 2 and NO_WORDS.fullmatch(blocks[1]) is not None
    is_markup = "```" in above or any(map(FRONT_MATTER.match, blocks))
    return text if is_kicker or is_apart or is_markup or 3 * len(above) > len(below) else below


A_TITLE = re.compile(r"^# +\S", re.MULTILINE)
A_ROLE = phrase("doubt", "a_role")


def _announced_in(text: str, asked: TextRequest) -> str:
    """Return what announces the text on its first line, "" where nothing does."""
    found = re.match(r"[^\n:：]{1,120}[:：](?=[*_]*[ \t]+(?![a-zà-ÿ])\S)", text)
    is_said = found and OPENING.match(found[0]) and _hints(found[0], asked)
    return found[0] if found and is_said and not asked.contains(found[0]) else ""


def _without_first_edges(text: str, blocks: Sequence[str], asked: TextRequest) -> str:
    first, last = blocks[0].strip(), blocks[-1].strip()
    rest = "\n\n".join(blocks[1:])
    if _is_probable_of_first(first, rest, asked):
        return FIRST_RULE.sub("", text[text.index(first) + len(first) :].strip("\n"))
    is_end = END.fullmatch(last) or WORD_COUNT.fullmatch(last)
    if is_end or _is_probable_of_first(last, "\n\n".join(blocks[:-1]), asked):
        return LAST_RULE.sub("", text[: text.rindex(last)].rstrip()).rstrip()
    return text


def _is_probable_of_first(block: str, rest: str, asked: TextRequest) -> bool:
    """Return whether a first or last block of a first draft is about it."""
    if 3 * len(words_and_signs(block)) > len(words_and_signs(rest)) or NO_PROSE.match(block):
        return False
    if asked.contains(block):
        return False
    bare = block.strip("*_ ")
    is_of_author = DID.match(bare) is not None and FIRST_PERSON.search(rest) is not None
    if known(rest).is_in_another_script(block) or PLEASED_ALONE.fullmatch(bare):
        return True
    if _is_about_the_work(bare) and not is_of_author:
        return True
    hints = _hints(block, asked)
    if ENDS_IN_COLON.search(block) or A_LABEL.fullmatch(block):
        return hints > 0 or OPENING.match(block) is not None
    return hints > 1 and (PERSONAL_WORDS.search(block) or A_REMARK.match(block)) is not None


NO_PROSE = re.compile(r"\s*(?:[-+*•][ \t]|[>|`~]|\d+[.)][ \t])")
PLEASED_ALONE = phrase("reply", "pleased_alone")


def _outside(block: str) -> str:
    shown = " ".join(block.split())[:80]
    return f'"{shown}" may be no part of the text: give the text alone, between the marks'
