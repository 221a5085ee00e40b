"""What is no text among the replies to a request for one, and what stands around a revision.

Both are told by comparing the reply with the draft that it revises, which every language allows.
What is certain is removed or refused; what is not is asked for again once, and then taken.
"""

import re
from collections.abc import Sequence

from workers.engine.text_likeness import (
    ALIKE,
    LONG,
    KnownText,
    are_alike,
    blocks_of,
    first_and_last,
    known,
    repeats_itself,
    words_of,
)
from workers.engine.text_replies import (
    BLANK,
    CHANGES,
    DID,
    HERE,
    LABEL_INSIDE,
    MARKUP,
    NOTE,
    OFFER,
    OPENING,
    PLEASED,
    QUOTES,
    REVISED,
    THIS_VERSION,
    WORK,
    TextRequest,
)

ABOUT_TEXTS = re.compile(
    rf"\b(?:{REVISED[3:-1]}|revis\w*|rewr\w+|rewor\w+|edit(?:ed|s|ing)?|version|draft|original|feedback|"
    r"changes?|changed|tweak\w*|tighten\w*|shorten\w*|trim(?:med)?|polish\w*|wording|phrasing|filler|"
    r"tone|clarity|clearer|concise|paragraphs?|sentences?|reviewer?|criteria|suggest\w*|improve\w*|"
    r"adjust\w*|removed?|replace\w*|kept|preserved|summary|weakness\w*|strengths?|score|readab\w*|"
    r"article|rephras\w*|incorporat\w*|opening|ending)\b",
    re.IGNORECASE,
)
"""Words about a text and the work on it: those that the draft has as well do not count."""
PERSONAL = re.compile(
    rf"\b(?:I|I'm|I've|I'll|you|your|me|let's|us|hope|happy|{PLEASED[3:-1]}|thanks?|okay)\b|"
    rf"\A\W*(?:{HERE})|[?？]\s*\Z|[\U0001f300-\U0001faff\u2600-\u27bf]",
    re.IGNORECASE,
)
I_AND_YOU = frozenset(
    {*("ich", "mir", "mich", "sie", "je", "j", "vous", "yo", "te", "eu", "io", "ho", "ti")}
    | {*("ik", "jag", "jeg", "ja", "я", "вам", "ben", "minä", "saya", "tôi", "ผม")}
)
ROLE = re.compile(
    r"\A[*_#>\[ ]*(?:assistant|ai|model|bot|answer|response|output|result|text|draft)"
    r"[*_\] ]*[:：][*_]*\s*",
    re.IGNORECASE,
)
SPEAKER = re.compile(
    r"\A[*_#>\[ ]*(?:assistant|ai|model|bot|answer|response)[*_\] ]*[:：]", re.IGNORECASE
)
ENDS_IN_COLON = re.compile(r"[:：][*_]*\s*\Z")
FIRST_LINE = re.compile(r"\A([^\n]{1,200}[:：][*_]*)[ \t]*\n(?=[^\s\-*+•\d|`~])")
"""A line that ends in a colon right before a text, and no list."""
REMARK = re.compile(
    r"\A[\[(][^\n]*[\])]\Z|\A\W*(?:the )?(?:end|fin|ende)\W*\Z|"
    r"\A[\[(*_# ]*(?:note|p\.?s|disclaimer|explanation)\b|\A\W*[\w ]{3,30}:[*_]*\s*~?\d+\b",
    re.IGNORECASE,
)
A_LABEL = re.compile(r"\A(?:#{1,6}[ \t]+|[*_]{2}|\[)?[^\n.!?]{1,60}\Z")
DELIMITER = re.compile(r"[^\w\s]{3,}|[\[<(=*~#-]{1,5}[ \t]*/?\w[\w \t:-]{0,60}[\])>=*~#-]{1,5}")
TURN = re.compile(
    r"^[#*\[<| ]*(?:human|user|assistant|system|instruction|input|end of turn|question)[*\]>| ]*"
    r"(?::[*]*(?:[ \t]|$)|[*\]>|]+[ \t]*$)",
    re.IGNORECASE | re.MULTILINE,
)
NAMES_A_TURN = re.compile(
    r"\n[^\w\n]*(?:[Hh]uman|[Uu]ser|[Aa]ssistant|[Ss]ystem|[Ii]n(?:struction|put)|[Ee]nd|[Qq]ues)|"
    r"\n[^\w\n]*(?:HUMAN|USER|ASSISTANT|SYSTEM|IN(?:STRUCTION|PUT)|END|QUES)"
)
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
    for rule in (_between_quotes, _without_delimiters, _without_quote_marks):
        text = rule(text, asked, base)
    return text


def _between_quotes(text: str, asked: TextRequest, base: str) -> str:
    """Return what stands between two lines of three quotation marks, if the draft has none."""
    for mark in ('"""', "'''"):
        if mark not in text:
            continue
        parts = re.split(rf"(?m)^[ \t]*{mark}[ \t]*$", text)
        if len(parts) != 3 or mark in base:
            continue
        if not base or known(base).likeness(parts[1]) >= ALIKE:
            return parts[1].strip("\n")
    return text


def _without_delimiters(text: str, asked: TextRequest, base: str) -> str:
    """Remove a first and a last line that mark both ends of the text, or one that is left over."""
    first, _, rest = text.partition("\n")
    body, _, last = rest.rpartition("\n")
    first, last = first.strip(), last.strip()
    lines = {it.strip() for it in base.splitlines()}
    if not body.strip() or first in lines or last in lines:
        return _without_last_fence(text, base)
    if DELIMITER.fullmatch(first) and DELIMITER.fullmatch(last) and _are_a_pair(first, last):
        is_markup = base.lstrip().startswith("<") or asked.is_about(MARKUP)
        return text if first.startswith("<") and is_markup else body.strip("\n")
    return _without_last_fence(text, base)


def _are_a_pair(first: str, last: str) -> bool:
    if not A_WORD.search(first) or not A_WORD.search(last):
        return first == last and first[:1] not in "`~"
    named, closed = words_of(first), words_of(last)
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
    """Remove the marks of a blockquote from every line, if no line of the draft has one."""
    lines = [it for it in text.split("\n") if it.strip()]
    if len(lines) < 2 or any(it.lstrip().startswith(">") for it in base.split("\n")):
        return text
    if not all(it.startswith(">") for it in lines):
        return text
    return "\n".join(re.sub(r"\A> ?", "", it) for it in text.split("\n"))


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
    if ROLE.match(line) is not None or is_foreign or _hints(said, asked) >= 2:
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
    if all(_is_foreign_prose(it, base) or not A_WORD.search(it) for it in blocks):
        return True
    said = "\n\n".join(blocks)
    return _hints(said, asked) >= MOST_HINTS or any(_is_about_the_work(it) for it in blocks[:2])


def _is_foreign_prose(block: str, base: KnownText) -> bool:
    """Return whether a block is in another language, and no quotation, code or table."""
    return re.match(r"\s*[>*_`~|\"“„«‹『「]", block) is None and base.is_foreign(block)


def _is_about_the_work(block: str) -> bool:
    if OFFER.match(block):
        return WORK.search(block) is not None
    if NOTE.match(block):
        return DID.search(block) is not None
    return any(it.match(block) for it in (CHANGES, DID, THIS_VERSION))


def _has_hint(blocks: Sequence[str], asked: TextRequest, base: KnownText) -> bool:
    said = "\n\n".join(blocks)
    is_label = len(blocks) == 1 and (ENDS_IN_COLON.search(said) or A_LABEL.match(said.strip()))
    return (
        bool(is_label)
        or any(REMARK.match(it.strip()) for it in blocks)
        or _hints(said, asked) > 0
        or PERSONAL.search(said) is not None
        or any(base.may_be_foreign(it) or base.is_foreign(it) for it in blocks)
        or not {*words_of(said)}.isdisjoint(I_AND_YOU - base.words)
    )


def _hints(said: str, asked: TextRequest) -> int:
    """Return how many different words are about the text or its review, and not in the draft."""
    own = known(asked.base or asked.task).words
    reviewed = known(asked.review or "").words
    found = {it[0].casefold() for it in ABOUT_TEXTS.finditer(said)}
    found |= {it for it in words_of(said) if len(it) > 4 and it in reviewed}
    return len([it for it in found if it not in own])


def flaw_in(text: str, asked: TextRequest) -> str | None:
    """Return why a reply is certainly no text, None if it may be one."""
    if asked.is_passage:
        return None
    if repeats_itself(text) and not any(repeats_itself(it) for it in asked.texts):
        return "it repeats itself without end: give the text once"
    if NO_WORDS.fullmatch(text) and (asked.base is None or A_WORD.search(asked.base)):
        return "it contains no words"
    turn = NAMES_A_TURN.search(text) and TURN.search(text, 1)
    if turn and not asked.is_message and not asked.has(TURN):
        return "it goes on with words of somebody else: give the text alone"
    if asked.review is None or asked.base is None:
        return None
    return _flaw_of_revision(text, asked, known(asked.base.strip(BLANK)))


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
    elif base.is_long and (likeness := _likeness(text, base)) < ALIKE:
        review = known(asked.review or "")
        if review.length > 5 and review.likeness(text) > max(likeness, 0.4):
            flaw = "it repeats the review: give the revised text"
        elif 3 * len(words_of(text)) < 2 * base.length and _hints(text, asked) >= 3:
            flaw = "it is about the text and not the text"
    return flaw


def _likeness(text: str, base: KnownText) -> float:
    return 1.0 if base.has_words_of(text) else base.likeness(text)


def _is_object(text: str) -> bool:
    begins = re.match(r"\s*(?:\{\s*[\"'}]|\[\s*(?:\{|\"))", text)
    return begins is not None and text.rstrip().endswith(("}", "]"))


def _is_diff(text: str, base: KnownText) -> bool:
    if "\n+" not in f"\n{text}":
        return False
    lines = [it for it in text.splitlines() if it.strip()]
    added = [it for it in lines if re.match(r"\+(?!\d)", it)]
    removed = [it for it in lines if it.startswith("-") and base.share_of(words_of(it)) >= 0.8]
    marked = [it for it in lines if it[:1] in "+-@ "]
    return bool(added and removed) and 2 * len(marked) >= len(lines)


def _has_variants(blocks: Sequence[str], base: KnownText) -> bool:
    """Return whether most blocks of the draft have two blocks that say the same."""
    long = [it for it in base.blocks if len(words_of(it)) >= 2 * 8][:20]
    if len(long) < 1 or len(blocks) > 400:
        return False
    twice = 0
    for it in long:
        own = KnownText(it)
        alike = [one for one in blocks if own.likeness(one) >= 0.4 and len(words_of(one)) >= 8]
        twice += len(alike) > sum(own.likeness(one) >= 0.4 for one in base.blocks)
    return 2 * twice > len(long) and (len(long) > 1 or twice == len(long))


def doubt_in(text: str, asked: TextRequest, *, is_marked: bool) -> str | None:
    """Return why a reply may be no text, or more than it; None where nothing says so."""
    is_loose = not is_marked and asked.mark is not None and not asked.is_message
    if asked.base is None:
        return _doubt_in_first(text, asked) if is_loose else None
    base = known(asked.base.strip(BLANK))
    if asked.review is None or not base.is_enough:
        return None
    is_whole = base.has_words_of(text) and 2 * len(text) > len(asked.base)
    doubt = _doubt_by_size(text, asked, base) if base.is_long and not is_whole else None
    if doubt is None and is_marked and _without_frame(text, asked, asked.base) != text:
        doubt = _outside(text.partition("\n")[0])
    return _doubt_at_edges(text, asked, base) if doubt is None and is_loose else doubt


def _doubt_at_edges(text: str, asked: TextRequest, base: KnownText) -> str | None:
    if _begins_and_ends_alike(text, base):
        return None
    before, after = _edges(text, base)
    if before and _has_hint(before, asked, base) and not FRONT_MATTER.match(before[0]):
        return _outside(before[0])
    if after and _has_hint(after, asked, base):
        return _outside(after[0])
    line = text.partition("\n")[0]
    return _outside(line) if ROLE.match(line) and not asked.contains(line) else None


def _doubt_by_size(text: str, asked: TextRequest, base: KnownText) -> str | None:
    words = words_of(text)
    if len(words) * 10 < base.length:
        return "it has less than a tenth of the draft's words: give the whole revised text"
    if len(words) > 3 and base.share_of([it for it in words if len(it) > 3] or words) < 0.1:
        return "it has nothing in common with the draft: give the revised text of the draft"
    if len(words) * 3 < base.length and _hints(text, asked):
        return "it may be about the text: give the whole revised text"
    return None


def _doubt_in_first(text: str, asked: TextRequest) -> str | None:
    """Return why a first draft may be none, or more than it: there is no draft to compare with."""
    if _is_object(text) and not asked.may_be_data:
        return "it may be an object and not the text"
    blocks, line = blocks_of(FIRST_LINE.sub(r"\1\n\n", text)), text.partition("\n")[0]
    said, colon, _ = line.partition(":")
    is_said = OPENING.match(line) is not None or known(text).is_foreign_to(said)
    is_quoted = len(blocks) > 1 and text[-1:] in QUOTES.get(text[:1], " ")
    is_framed = is_quoted or _without_frame(text, asked, "") != text
    if (colon and is_said and not asked.contains(said)) or SPEAKER.match(line) or is_framed:
        return _outside(line)
    if (label := LABEL_INSIDE.search(text)) and not asked.contains(label[0].strip()):
        return _outside(label[0])
    if len(blocks) > 1 and _may_come_before(blocks[0], blocks[1:], asked):
        return _outside(blocks[0])
    if len(blocks) > 1 and _may_come_after(blocks[-1], blocks[:-1], asked):
        return _outside(blocks[-1])
    return None


def _may_come_before(block: str, others: Sequence[str], asked: TextRequest) -> bool:
    """Return whether the first block of a first draft may be about the text that follows."""
    is_list = re.match(r"\s*(?:[-*+•`~|]|\d+[.)])", others[0]) is not None
    is_one = "\n" not in block.strip()
    return (
        (is_one and ENDS_IN_COLON.search(block) is not None and not is_list)
        or (is_one and OPENING.match(block) is not None)
        or (A_LABEL.fullmatch(block.strip()) is not None and _hints(block, asked) > 0)
        or _may_be_around(block, others, asked)
    )


def _may_come_after(block: str, others: Sequence[str], asked: TextRequest) -> bool:
    """Return whether the last block of a first draft may be about the text before it."""
    rest = frozenset(words_of("\n\n".join(others)))
    is_said = not ({"i", "i'm", "me", *I_AND_YOU} & {*words_of(block)}).issubset(rest)
    is_label = any(A_LABEL.fullmatch(it.strip()) and _hints(it, asked) for it in others[-1:])
    return (
        is_label
        or any(it.match(block) for it in (OFFER, NOTE, CHANGES, DID))
        or (is_said and len(words_of(block)) < LONG)
        or re.search(r"\d\s*/\s*10\b|\d+ words\b|\bend of\b", block, re.IGNORECASE) is not None
        or REMARK.match(block.strip()) is not None
        or (block.rstrip().endswith("?") and _hints(block, asked) > 0)
        or _may_be_around(block, others, asked)
    )


def _may_be_around(block: str, others: Sequence[str], asked: TextRequest) -> bool:
    is_foreign = known("\n\n".join(others)).is_foreign(block)
    return is_foreign or _hints(block, asked) >= (2 if PERSONAL.search(block) else MOST_HINTS)


def _outside(block: str) -> str:
    shown = " ".join(block.split())[:80]
    return f'"{shown}" may be no part of the text: give the text alone, between the marks'
