"""What is no text among the replies to a request for one, and what stands around a revision.

Both are told by comparing the reply with the draft that it revises, which every language allows.
What is certain is removed or refused; what is not is asked for again once, and then settled.
"""

import re
from collections.abc import Sequence
from textwrap import dedent

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
from workers.engine.replies.texts import (
    BLANK,
    CHANGES,
    DID,
    FIRST_PERSON,
    LABEL_INSIDE,
    LANGUAGE,
    LAST_RULE,
    MARKUP,
    NOTE,
    OFFER,
    OPENING,
    RULE,
    THIS_VERSION,
    WORD_COUNT,
    WORK,
    TextRequest,
    phrase,
    without_quotes,
)

ABOUT_TEXTS = phrase("doubt", "about_texts")
"""Words about a text and the work on it: those that the draft has as well do not count."""
PERSONAL = phrase("doubt", "personal")
I_AND_YOU = frozenset(
    {*("ich", "mir", "mich", "sie", "je", "j", "vous", "yo", "te", "eu", "io", "ho", "ti")}
    | {*("ik", "jag", "jeg", "ja", "я", "вам", "ben", "minä", "saya", "tôi", "ผม")}
)
ROLE = phrase("doubt", "role")
ENDS_IN_COLON = re.compile(r"[:：][*_]*\s*\Z")
FIRST_LINE = re.compile(r"\A([^\n]{1,200}[:：][*_]*)[ \t]*\n(?=[^\s\-*+•\d|`~])")
"""A line that ends in a colon right before a text, and no list."""
REMARK = phrase("doubt", "remark")
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
CONFLICT = re.compile(r"^<{5,}[ \w]*$.*?^={5,}$.*?^>{5,}", re.MULTILINE | re.DOTALL)
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
        or any(REMARK.match(block.strip()) for block in blocks)
        or _hints(said, asked) > 0
        or PERSONAL.search(said) is not None
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
    elif base.is_long and (likeness := _likeness(text, base)) < ALIKE:
        review = known(asked.review or "")
        if review.length > 5 and review.likeness(text) > max(likeness, 0.4):
            flaw = "it repeats the review: give the revised text"
        elif 3 * len(words_and_signs(text)) < 2 * base.length and _hints(text, asked) >= 3:
            flaw = "it is about the text and not the text"
    return flaw


def _likeness(text: str, base: KnownText) -> float:
    return 1.0 if base.has_words_of(text) else base.likeness(text)


def _is_object(text: str) -> bool:
    begins = re.match(r"\s*(?:<tool_call>\s*)?(?:\{\s*[\"'}]|\[\s*(?:\{|\"))", text)
    return begins is not None and text.rstrip().endswith(("}", "]", "</tool_call>"))


def _is_diff(text: str, base: KnownText) -> bool:
    if "<<<<<" in text and CONFLICT.search(text) is not None:
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
    is_bracketed = REMARK.match(blocks[-1].strip()) and not asked.contains(blocks[-1].strip())
    return _outside(blocks[-1]) if is_bracketed and len(blocks) > 1 else None


def _speaks_of(draft: str, text: str, base: KnownText) -> bool:
    """Return whether a reply quotes the draft, and has little in common with it besides."""
    rest, quoted = text, 0
    for quotation in QUOTED.finditer(text):
        words = quotation[0][1:-1].strip(" .,;:!?…")
        if words and words in draft and quotation[0] not in draft:
            rest, quoted = rest.replace(quotation[0], " "), quoted + 1
    return quoted > 0 and base.likeness(rest) < ALIKE


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
    return ROLE.match(line) is not None or (places[:1] > [0] and len(start) == 3)


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
    is_said = OPENING.match(line) or ROLE.match(line) or known(text).is_foreign_to(line)
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
    is_odd = any(map(NO_WORDS.fullmatch, blocks)) or REMARK.match(blocks[-1].strip()) is not None
    if is_odd or len(words_and_signs(text)) < FEWEST:
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


FEWEST = 4
"""Words of the shortest text that may be a summary."""
FIRST_RULE = re.compile(r"\A(?:-{3,}|\*{3,}|_{3,}|={3,})[ \t]*\n+")
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
        return is_label is not None or PERSONAL.search(said) is not None
    is_opening = OPENING.match(said) is not None and len(words_and_signs(said)) <= FEW
    return is_label is not None and (hints > 0 or is_opening)


def _said_before(line: str, base: KnownText) -> str:
    """Return the words and the sign that a first line has before the first words of the draft."""
    said, found, _ = line.partition(base.blocks[0].strip()[:12])
    return said.rstrip() if found and re.search(r"[:!.。！：—–-]\s*\Z", said) else ""


def _first_without_edges(text: str, asked: TextRequest) -> str:
    """Return a first draft without what is probably around it, as its text shows."""
    before = None
    while text != before:
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
    return hints > 1 and (PERSONAL.search(block) or REMARK.match(block)) is not None


NO_PROSE = re.compile(r"\s*(?:[-+*•][ \t]|[>|`~]|\d+[.)][ \t])")
PLEASED_ALONE = phrase("reply", "pleased_alone")


def _outside(block: str) -> str:
    shown = " ".join(block.split())[:80]
    return f'"{shown}" may be no part of the text: give the text alone, between the marks'
