"""The text in a reply to a request for a text: without the thinking and the manners of models.

What could be content stays. Three things decide that: the texts that the model was given (a client
whose draft contains `<think>`, or stands in quotation marks, gets such a text), whether the task
asks for a message or a conversation (there "Sure!" and "Let me know" may belong to the text), and
whether something else shows that the text is framed (a line before it, a code fence, a rule).
"""

import re
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pkgutil import get_data

from app.contract.drafts import marks
from app.contract.values import value
from workers.engine.replies.marks import UnclosedMark, has_marks, marked_in, without_marks

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


LINE_END_OF_WINDOWS = re.compile("\r\n")


def marked_text(reply: str, asked: TextRequest) -> str | None:
    """Return the text between the marks of a reply, None for a reply without them.

    Of what stands there only thinking before it and a code fence around it are removed. Raises
    `NoText` for more than one text or for nothing but thinking, `Unfinished` where the last mark is
    missing.
    """
    if asked.mark is None or "text" not in reply:
        return None
    try:
        texts = _between_marks(_with_line_ends(reply, asked).strip(BLANK), asked.mark, asked)
    except UnclosedMark:
        end = marks(asked.mark)[1]
        raise Unfinished(f"it was cut off: {end} does not follow the text") from None
    texts = list(dict.fromkeys(between.strip(BLANK) for between in texts))
    if len(texts) > 1:
        raise NoText("it gives more than one text: give one")
    if not texts:
        return None
    text = without_marks(texts[0], asked.mark).strip(BLANK)
    if OPENED.match(text):
        text = without_thinking(text, asked)
    return _with_indent(_without_fence(text, asked), reply)


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


def _with_line_ends(reply: str, asked: TextRequest) -> str:
    is_unix = "\r" not in reply or asked.has(LINE_END_OF_WINDOWS)
    return reply if is_unix else reply.replace("\r\n", "\n")


def text_of(reply: str, asked: TextRequest) -> str:
    """Return the text of a reply without marks. Raises `NoText` if it has but thinking."""
    text = without_thinking(_with_line_ends(reply, asked).strip(BLANK), asked)
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
    return _with_indent(text, reply)


def _with_indent(text: str, reply: str) -> str:
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
    if final := _finals(text):
        return _after(text, final[-1].end())
    if CHANNEL.match(text):
        raise NoText("it contains nothing but unfinished thinking")
    if asked.has(OPENED) or NAMED_THOUGHT.search(asked.task):
        return text
    if prose := PROSE_THOUGHT.match(text):
        return _after(text, prose.end())
    while opened := OPENED.match(text):
        text = _after(text, _end_of_thought(text, opened.end()))
    if end := _last_unopened(text):
        return _after(text, end)
    if "```" not in text:
        text = (THOUGHT_BLOCK.sub("", text) if OPENED.search(text) else text).strip(BLANK)
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


def _finals(text: str) -> list[re.Match[str]]:
    """Return the marks before an answer. Most texts have none, and searching them takes long."""
    if "<|channel|>" not in text and "assistantfinal" not in text:
        return []
    return list(FINAL.finditer(text))


def _last_unopened(text: str) -> int:
    """Return the end of the last closing tag before which no thinking is open, 0 without one."""
    marks = [(tag.start(), tag.end(), 1) for tag in OPENED.finditer(text)]
    marks += [(tag.start(), tag.end(), -1) for tag in CLOSED.finditer(text)]
    depth, last = 0, 0
    for _, end, change in sorted(marks):
        if change < 0 and depth <= 0:
            last = end
        depth += change
    return last


def _end_of_thought(text: str, at: int) -> int:
    depth = 1
    marks = [(tag.start(), tag.end(), 1) for tag in OPENED.finditer(text, at)]
    marks += [(tag.start(), tag.end(), -1) for tag in CLOSED.finditer(text, at)]
    last = 0
    for _, end, change in sorted(marks):
        depth += change
        last = end if change < 0 else last
        if depth == 0:
            return end
    if not last:
        raise NoText("it contains nothing but unfinished thinking")
    return last


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
    return text if is_content else found["body"]


def _without_fence(text: str, asked: TextRequest) -> str:
    """Remove a code fence around the whole text, also one that is not closed."""
    if "```" not in text and "~~~" not in text:
        return text
    if not LINE_OF_FENCE.match(text) or asked.starts_with(LINE_OF_FENCE):
        return text
    marks = list(LINE_OF_FENCE.finditer(text))
    first, inner = marks[0], marks[1:]
    if not inner:
        return text[first.end() :].strip("\n")
    last = marks[-1]
    after = text[last.end() :].strip(BLANK)
    if last["info"].strip() or (after and not (len(marks) == 2 and _is_note(after))):
        return text
    fences = [fence for fence in inner[:-1] if fence["marks"].startswith(first["marks"])]
    if not fences or (_is_prose(first) and _are_pairs(fences)):
        return text[first.end() : last.start()].strip("\n")
    return text


def _is_prose(fence: re.Match[str]) -> bool:
    return (
        bool(fence["info"].strip())
        and re.fullmatch(LANGUAGE, fence["info"], re.IGNORECASE) is not None
    )


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
    if any(mark in inside for mark in {text[0], text[-1]} - {"'", "’"}) or (
        text[0] in "'‘" and re.search(r"(?<!\w)['‘’]|['‘’](?!\w)", inside)
    ):
        return text
    base = (asked.base or "").strip(BLANK)
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

    A task that may ask for a refusal, and a reply with words of the draft, are content.
    """
    if len(text) > SHORT or not REFUSALS.match(text.replace("’", "'")) or asked.is_about(DECLINING):
        return False
    return not asked.is_message and not _shares_words(text, asked.base)


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
    """Return whether at least half of the longer words of a reply stand in the draft."""
    if base is None:
        return False
    words, known = (
        set(LONGER_WORD.findall(text.casefold())),
        set(LONGER_WORD.findall(base.casefold())),
    )
    return bool(words) and len(words & known) * 2 >= len(words)


LONGER_WORD = re.compile(r"\w{5,}")

RULES: Sequence[Callable[[str, TextRequest], str]] = (
    _without_lead_in,
    _without_work_before,
    _without_remark_before_rule,
    _without_tags,
    _without_fence,
    _without_rule,
)
"""What is removed from around a text; each rule leaves a text alone that it is not certain of."""
