"""Reads the replies of models: texts, objects and scores.

What is certain is read, everything else is refused with the reason, and nothing is guessed
(docs/endings.md).

Objects and arrays are read as models write them. Besides JSON that is what has one meaning only:
trailing commas, comments, single, typographic, triple and back quotes, names without quotes,
Python's `True`, `False` and `None`, unescaped line ends and quotes in strings, and full-width
digits and punctuation. A name that stands twice in one object with different values is refused, and
nothing is added to a text that ends too early.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from typing import Annotated, Any, NoReturn, TypeVar, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    TypeAdapter,
    ValidationError,
    create_model,
)

from app.contract.drafts import draft_of
from app.contract.judgement import Critique
from workers.engine.prompts import TEXT, JsonDocument, PromptRequest, Task, Write, closed
from workers.engine.replies.likeness import ALIKE, known
from workers.engine.replies.texts import (
    OF_DATA,
    NoText,
    TextRequest,
    Unfinished,
    begun_in,
    doubt_in,
    flaw_in_text,
    in_unix_lines,
    is_refusal,
    marked_text,
    may_contain_thinking,
    remark_in,
    settled,
    text_of,
    unframed,
    without_thinking,
)

OVERLONG = "reply_overlong"
"""The code of a step whose reply would be longer than its model can write."""

CUT_OFF = "reply_cut_off"
"""The code of a step whose reply was cut off by the limit on its length."""

DECLINED = "reply_refused"
"""The code of a step whose reply the server marks as a refusal by its model."""

MOST_LOST = 3
"""How many times shorter than a first draft the text of the next reply may be."""

MOST_FRAMES = 3
"""How many frames around each other are removed from a text."""
NO_CRITIQUE = Critique(scores=())
MOST_DROPPED = 50
"""Dropped items that a step's record names."""

PLACEHOLDER = re.compile(r"<[a-z][a-z ,-]{2,60}>|\.\.\.|…", re.IGNORECASE)
KEY = re.compile(r"[acs]\d+")


class Unreadable(Exception):
    """A reply that is not in the requested form; the message says why.

    `schema` is that of the next try, if it must be another one.
    """

    def __init__(self, reason: str, schema: dict[str, object] | None = None) -> None:
        super().__init__(reason)
        self.schema = schema


class Refused(Unreadable):
    """A reply in which the model refuses to do what it is asked."""


class CutShort(Unreadable):
    """A reply that begins a text and does not end it."""


class Doubtful(Unreadable):
    """A reply that may be no text, or more than it: asked for again once.

    `text` is what it is taken for if no better reply follows; None if the draft before it stays.
    """

    def __init__(self, reason: str, schema: dict[str, object] | None, text: str | None) -> None:
        super().__init__(reason, schema)
        self.text = text


class ReplyModel(BaseModel):
    """The JSON object of a reply; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


_WRITTEN: TypeAdapter[dict[str, Any] | None] = TypeAdapter(dict[str, Any] | None)


def _object(value: Any) -> Any:
    """Parse arguments that were written as the text of a JSON object."""
    if not isinstance(value, str):
        return value
    try:
        return _WRITTEN.validate_json(value) if value.strip() else None
    except ValidationError:
        raise ValueError("the text is not a JSON object") from None


def _finite(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """Reject values that are not JSON (RFC 8259), such as NaN."""
    json.dumps(value, allow_nan=False)
    return value


Arguments = Annotated[dict[str, Any] | None, BeforeValidator(_object), AfterValidator(_finite)]
"""The arguments of a tool: an object, or the text of one."""

Shape = TypeVar("Shape", bound=ReplyModel)


@dataclass(frozen=True)
class DroppedItem:
    """A part of a reply that could not be used: a finding, a claim, a quotation, a score."""

    item: str
    reason: str


@dataclass
class ReplyReader:
    """Reads the reply to one request; `dropped` collects the items that could not be used."""

    raw: str
    asked: PromptRequest
    dropped: list[DroppedItem] = field(default_factory=list)
    mark: str | None = None
    """The number of the marks between which the reply was to have its text."""
    is_again: bool = False
    """Whether the text was asked for again, because the reply before may have had none."""
    earlier: str | None = None
    """What the doubtful first draft before this reply is taken for."""

    def drop(self, item: str, reason: str) -> None:
        """Leave out one item and record why."""
        if len(self.dropped) < MOST_DROPPED:
            self.dropped.append(DroppedItem(item=item[:200], reason=reason[:300]))

    def text(self) -> str:
        """Return the text. Raises `Unreadable` when there is none, `Refused` for a refusal."""
        try:
            text = self._text()
        except Unreadable as error:
            if self.earlier is None:
                raise
            self.drop("the text", str(error))
            return self.earlier
        if self.earlier is not None and len(text) * MOST_LOST < len(self.earlier):
            self.drop("the text", "it has little of the reply before it")
            return self.earlier
        return text

    def _text(self) -> str:
        given, raw = self._given, self.raw.replace("\r\n", "\n")
        said = _out_of_object(raw, self.asked.task, given.base, is_again=self.is_again)
        is_apart = said is not None or _is_fence(raw)
        written = self.raw if said is None else said
        read = partial(_text, is_again=self.is_again, is_apart=is_apart)
        return _not_empty(in_unix_lines(read, written, given))

    def begun(self) -> str:
        """Return what is certain of the text of a reply that is still being written.

        Nothing is of a text without marks, unless it is an object.
        """
        said = self.raw.lstrip("\ufeff").strip()
        if self.mark is None:
            return said if said.startswith("{") else ""
        return "" if said.startswith(("{", '"')) else in_unix_lines(begun_in, said, self._given)

    def passage(self, said: str, passage: str, draft: str, name: str) -> str:
        """Return the text that a reply has for a passage of a draft, read as a draft is.

        Raises `Unreadable` and `Refused` as for a draft, with the name of the passage.
        """
        task, texts = self.asked.task, self._given
        documents = (*texts.documents, draft)
        given = replace(texts, base=passage, documents=documents, is_passage=True)
        is_data = A_JSON.search(draft) or draft.lstrip().startswith(("{", "["))
        bare = None if is_data else _out_of_object(said, task, passage)
        try:
            return in_unix_lines(_text, bare or said, given)
        except Unreadable as error:
            raise type(error)(f"{name}: {error}") from None

    def document(self) -> str:
        """Return the one JSON object of a reply, exactly as it is written there.

        Raises `Unreadable` when there is none, more than one or one that is not JSON, and `Refused`
        for a refusal. A draft that is returned unchanged is taken, whatever it is.
        """
        bare, base = draft_of(self.raw), self._given.base
        is_unchanged = base is not None and self.raw.strip() == base.strip()
        if is_unchanged or (bare.startswith("{") and json_flaw_in(bare) is None):
            return bare
        text = _without_thinking(self.raw)
        return _document(text, self._given, self.asked.task.document)

    def read_as(self, shape: type[Shape]) -> Shape:
        """Return the one JSON object of that shape. Raises `Unreadable` with what is wrong."""
        text = _without_thinking(self.raw)
        return _only(shape, _decoded(text), lambda: self._given)

    @property
    def _given(self) -> TextRequest:
        """The texts that the model was given; `draft` is the name of what is revised."""
        asked, task = self.asked, self.asked.task
        others = _other_texts(type(asked))  # type: ignore[arg-type] # type[X] is not Hashable
        texts = [getattr(asked, name) or "" for name in others]
        return TextRequest(
            task=task.instruction or "",
            base=getattr(asked, "draft", None),
            documents=(task.draft or "", *texts, *[document.text for document in task.context]),
            nonce=task.nonce,
            mark=self.mark,
            may_be_data=_may_be_data(task),
            is_first_draft=isinstance(asked, Write),
            review=_review(asked) if asked.revises else None,
        )


def _may_be_data(task: Task) -> bool:
    """Return whether a text may be an object, by the task or by what validators check."""
    checks = (*task.checks, *[check for own in task.own for check in own.checks])
    return bool(task.schemas) or any(map(_speaks_of_data, (task.instruction or "", *checks)))


@lru_cache(32)
def _speaks_of_data(text: str) -> bool:
    return OF_DATA.search(text) is not None


def _review(asked: PromptRequest) -> str:
    """Return the critique of the draft that a reviser reads."""
    critique: Critique = getattr(asked, "critique", NO_CRITIQUE)
    told = (*critique.strengths, *critique.weaknesses, *critique.suggestions)
    return "\n".join((*getattr(asked, "failing", ()), *told))


@cache
def _other_texts(kind: type[PromptRequest]) -> tuple[str, ...]:
    """Return the names of the fields that are texts, the draft aside."""
    hints = get_type_hints(kind).items()
    return tuple(name for name, hint in hints if name != "draft" and hint in (str, str | None))


def _text(said: str, asked: TextRequest, *, is_again: bool = False, is_apart: bool = False) -> str:
    """Return the text in what a model said, as far as it is one.

    `is_apart` says that the text stands in an object or a fence, apart from words about the text.
    """
    try:
        marked = marked_text(said, asked)
        text = _bare(said, asked) if marked is None else marked
    except Unfinished as error:
        raise CutShort(str(error)) from None
    except NoText as error:
        raise Unreadable(str(error)) from None
    if is_refusal(text, asked):
        raise Refused("it refuses to write the text")
    is_marked = is_apart or marked is not None
    if flaw := remark_in(text, asked) or flaw_in_text(text, asked, is_marked=is_marked):
        raise Unreadable(flaw)
    if not asked.is_passage and (doubt := doubt_in(text, asked, is_marked=is_marked)):
        is_first = asked.base is None
        taken = settled(text, asked, is_marked=is_marked) if is_again or is_first else None
        if taken is None or not is_again:
            schema = None if is_marked or asked.may_be_data else TEXT_ALONE
            raise Doubtful(doubt, schema, taken if is_first else None)
        text = taken
    return text


TEXT_ALONE = closed({"text": TEXT})
"""The form in which a model is asked for a text that ignored the marks."""


def _bare(said: str, asked: TextRequest) -> str:
    """Return a text without what stands around it."""
    text = text_of(said, asked)
    for _ in range(MOST_FRAMES):
        bare = unframed(text, asked)
        if bare == text:
            break
        text = text_of(bare, asked)
    return text


def _not_empty(text: str) -> str:
    if not text:
        raise Unreadable("it is empty")
    return text


TEXT_NAMES = frozenset(
    {"text", "draft", "revised", "revision", "revised_text", "revised_draft", "rewritten"}
    | {"output", "result", "response", "answer", "content", "final", "final_text"}
)


NOTE_NAMES = frozenset(
    {"note", "notes", "change", "changes", "changes_made", "comment", "comments", "explanation"}
    | {"reasoning", "rationale", "summary_of_changes", "thoughts", "word_count"}
    | {"thinking", "thought", "analysis", "plan", "reflection", "scratchpad"}
)
A_JSON = re.compile("json", re.IGNORECASE)


def _out_of_object(raw: str, task: Task, base: str | None, *, is_again: bool = False) -> str | None:
    """Return the text of a reply that is a JSON string, or an object with one text and notes.

    In a reply that was asked for again the object may stand between other words.
    """
    bare = draft_of(raw)
    if bare.startswith("<tool_call>"):
        bare = bare.removeprefix("<tool_call>").removesuffix("</tool_call>").strip()
    if is_again and not bare.startswith(('"', "{")):
        bare = _longest_object_in(bare)
    if not bare.startswith(('"', "{")):
        return None
    if (
        task.schemas
        or (base or "").lstrip().startswith(("{", "[", '"'))
        or (OF_DATA if base is None else A_JSON).search(task.instruction or "")
    ):
        return None
    is_encoded = r"\n\n" in bare or (base is not None and re.search(r'\\[n"]', bare))
    if bare.startswith('"') and "\n" not in bare and is_encoded and "\\" not in (base or ""):
        return _decoded(bare)
    if not bare.endswith("}"):
        return None
    found = next(iter(json_values_in(bare)), None)
    if isinstance(found, dict) and isinstance(found.get("arguments"), dict):
        found = found["arguments"]
    named = with_plain_names(found) if isinstance(found, dict) else {}
    texts = [member for name, member in named.items() if name in TEXT_NAMES]
    if is_again and isinstance(named.get("text"), str):
        texts = [named["text"]]
    elif not named.keys() <= TEXT_NAMES | NOTE_NAMES:
        texts = [
            member for member in named.values() if base is not None and _resembles(member, base)
        ]
    if len(texts) == 1 and isinstance(texts[0], str):
        return texts[0]
    said = [member for name, member in named.items() if name not in NOTE_NAMES]
    return _longest_of(said) if is_again and base is None else None


def _without_thinking(said: str) -> str:
    """Return a reply without its thinking; a tag within an object is a word of that object.

    Raises `Unreadable` when nothing follows the thinking.
    """
    if not may_contain_thinking(said):
        return said
    objects = [source for value, source in json_passages_in(said) if isinstance(value, dict)]
    try:
        return without_thinking(said, TextRequest(documents=objects))
    except NoText as error:
        raise Unreadable(str(error)) from None


def _longest_object_in(said: str) -> str:
    """Return the object that is most of a reply, "" without one."""
    if "{" not in said:
        return ""
    with suppress(Unreadable):
        said = _without_thinking(said)
    passages = [source for value, source in json_passages_in(said) if isinstance(value, dict)]
    return next((found for found in passages if 2 * len(found) > len(said)), "")


def _longest_of(found: Any) -> str | None:
    """Return the text that is nearly all of an object, by whatever name; None without one."""
    texts = [leaf for leaf in _leaves(found) if isinstance(leaf, str)]
    longest = max(texts, key=len, default="")
    return longest if 5 * len(longest) > 4 * len("".join(texts)) else None


def _is_fence(raw: str) -> bool:
    """Return whether a reply is one code fence around a text, and nothing else."""
    return raw.lstrip().startswith("```") and not draft_of(raw).startswith(("```", "{"))


def _resembles(said: Any, base: str) -> bool:
    """Return whether a member of an object is the revised draft, by its words and its length."""
    draft = known(base)
    is_long = isinstance(said, str) and 3 * len(said) >= len(base)
    return is_long and draft.is_long and draft.likeness(said) >= ALIKE


def _decoded(text: str) -> str:
    """Return a reply without the string that it is encoded in as a whole, up to three times."""
    for _ in range(3):
        if not (bare := draft_of(text)).startswith('"'):
            break
        try:
            decoded = decoded_json(bare)
        except ValueError:
            break
        text = str(decoded)
    return text


def decoded(said: Any) -> Any:
    """Return a member of an object, out of the string that it is encoded in if there is one."""
    if isinstance(said, str) and said.lstrip().startswith(("{", "[")):
        found = list(json_values_in(said))
        if len(found) == 1 and not isinstance(found[0], Unparsable):
            return found[0]
    return said


def _only(shape: type[Shape], text: str, asked: Callable[[], TextRequest]) -> Shape:
    """Return what the only object of a text is read as, or the only list if there is no object."""
    values = list(json_values_in(text))
    objects = [parsed for parsed in values if isinstance(parsed, dict)]
    lists = [
        parsed
        for parsed in values
        if isinstance(parsed, list) and parsed and all(isinstance(at, dict | list) for at in parsed)
    ]
    errors = [parsed for parsed in values if isinstance(parsed, Unparsable)]
    if any(isinstance(error, Unusable) for error in errors):
        raise Unreadable(str(errors[-1]))
    found, reasons = _read_as(shape, objects)
    if not found and not errors:
        found, more = _read_as(shape, lists)
        reasons += more
    if len(found) > 1:
        raise Unreadable(f"it contains {len(found)} different JSON objects: give one")
    if found:
        return found[0]
    if is_refusal(text.strip(), asked()):
        raise Refused("it refuses to answer")
    missing = "it contains no JSON object"
    reasons += [f"{missing} that can be read: {error}" for error in errors]
    raise Unreadable(reasons[0] if reasons else missing)


def _document(text: str, asked: TextRequest, document: JsonDocument | None) -> str:
    """Return the only object of a text as it is written, unless it is the schema itself.

    An object inside of something that cannot be read proves nothing.
    """
    found: dict[str, str] = {}
    for value, source in json_passages_in(text):
        if isinstance(value, Unparsable):
            raise Unreadable(f"it contains JSON that cannot be read: {value}")
        is_schema = document is not None and value == document.schema
        if isinstance(value, dict) and not is_schema:
            found.setdefault(json.dumps(value, sort_keys=True), source)
    if not found:
        if is_refusal(text.strip(), asked):
            raise Refused("it refuses to write the text")
        raise Unreadable("it contains no JSON object")
    if len(found) > 1:
        raise Unreadable(f"it contains {len(found)} different JSON objects: give one")
    (source,) = found.values()
    if flaw := json_flaw_in(source):
        raise Unreadable(f"it is not JSON: {flaw}")
    return source


def _read_as(shape: type[Shape], values: Sequence[Any]) -> tuple[list[Shape], list[str]]:
    """Return the different readings of values, and why others are not of that shape."""
    found: list[Shape] = []
    reasons: list[str] = []
    for value in values:
        if is_example(value):
            reasons.append("it repeats the form asked for, without an answer")
            continue
        for form in _forms(value, shape):
            try:
                read = shape.model_validate(form)
            except ValidationError as error:
                reasons.append(first_flaw(error))
            else:
                found += [read] if read not in found else []
                break
    return found, reasons


def is_example(value: Any) -> bool:
    """Return whether an object repeats the form asked for: each of its texts is a placeholder.

    Keys such as `c1` stand in the form as well, and do not count.
    """
    texts = [leaf for leaf in _leaves(value) if isinstance(leaf, str) and not KEY.fullmatch(leaf)]
    return bool(texts) and all(PLACEHOLDER.fullmatch(leaf.strip()) for leaf in texts)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list):
        yield value
        return
    for item in value:
        yield from _leaves(item)


@cache
def _needed(shape: type[ReplyModel]) -> tuple[list[str], set[str]]:
    """Return the members that an object of a shape must have, and those that are lists."""
    members = shape.model_fields.items()
    needed = [name for name, attribute in members if attribute.is_required()]
    return needed, {name for name, attribute in members if get_origin(attribute.annotation) is list}


def _forms(value: Any, shape: type[ReplyModel]) -> Iterator[Any]:
    """Yield what an object or array may be meant as: itself, or what it is wrapped around."""
    needed, lists = _needed(shape)
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], dict):
            yield from _forms(value[0], shape)
        if len(needed) == 1:
            yield {needed[0]: value}
        return
    named = with_plain_names(value)
    as_lists = {name: flat(member) if name in lists else member for name, member in named.items()}
    yield as_lists
    arguments = value.get("arguments", value.get("parameters", value.get("input")))
    inner = next(iter(value.values())) if len(value) == 1 else arguments
    if isinstance(inner, str) and inner.lstrip().startswith("{"):
        inner = next(json_values_in(inner), None)
    if isinstance(inner, dict):
        yield from _forms(inner, shape)


def flat(said: Any) -> Any:
    """Return an object that holds items, such as `first` and `more`, as the list of its items."""
    if not isinstance(said, Mapping):
        return said
    items: list[Any] = []
    for member in said.values():
        items += member if isinstance(member, list) else [member]
    return items if all(isinstance(item, Mapping) for item in items) else said


@lru_cache(1_000)
def _name(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().replace("\\_", "_")).casefold()


def first_flaw(error: ValidationError, *within: str) -> str:
    """Return where and what the first error is, in terms of JSON; `within` begins the place."""
    first = error.errors(include_url=False, include_input=False)[0]
    names = [part for part in map(str, first["loc"]) if not OF_A_TYPE.match(part)]
    where = "/".join([*within, *names]) or "the object"
    return f"{where}: {IN_JSON.get(first['type']) or first['msg'].removeprefix('Value error, ')}"


IN_JSON = {
    **dict.fromkeys(("model_type", "dict_type", "mapping_type"), "it is not an object"),
    **dict.fromkeys(("list_type", "tuple_type"), "it is not a list"),
}
"""Messages of pydantic that name classes of ours and types of Python, by their kind."""

OF_A_TYPE = re.compile(r"(?:dict|list|tuple|function-\w+)\[")
"""A part of a place that is no name in the reply, but the one of several types that was tried."""


DECIMAL = r"(?:0|[1-9]\d*)(?:[.,]\d+)?|[.,]\d+"
SHARE = re.compile(
    rf"({DECIMAL})\s*(?:/|out of|of|von|sur|de|su|van|z|из)\s*({DECIMAL})"
    r"(?:\s*(?:points?|stars?))?",
    re.IGNORECASE,
)
PERCENT = re.compile(rf"({DECIMAL})\s*(?:%|percent|per cent|prozent)", re.IGNORECASE)
PLAIN = re.compile(rf"({DECIMAL})(\s*\([^0-9()]*\))?")
NOT_MEASURED = frozenset({"null", "none", "n/a", "not applicable", "not measured"})
THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+")
SCORES = ("score", "value", "rating")
LATER = re.compile(r"(?:final|adjusted|revised|corrected|updated|new)_?(?:score|rating)")
"""Names of members with a score that replaces another one."""
SCALES = re.compile(
    r"(?:(?:score|rating|grading|scoring)_?)?(?:scale|range|max|maximum|out_?of)|of|scoring"
    r"|(?:max|maximum|best)_?(?:possible_?)?(?:score|rating|points?|value)|points_?possible"
)
"""Names of members that say what a score is out of."""
SCALE = re.compile(rf"(?:[01]\s*(?:-|\u2013|to)\s*)?({DECIMAL})")


def score_of(said: Any) -> float | None:
    """Return a score from 0 to 1, or None for one that says that it was not measured.

    "0.9" is 0.9; "8/10" is 0.8 and "85%" is 0.85, because they name their scale. Raises
    `Unreadable` for everything else: nothing says what a bare 85 is out of.
    """
    if isinstance(said, Mapping):
        return _of_object(said)
    if isinstance(said, str):
        return _written(said)
    if said is None:
        return None
    if isinstance(said, bool) or not isinstance(said, int | float):
        raise Unreadable(f"{json.dumps(said, default=str)[:80]} is not a score from 0 to 1")
    return _in_range(float(said), said)


def _written(said: str) -> float | None:
    """Read a text, unless its digits may be another number's: "0.9²", "0.", "1 (poor)"."""
    text = unicodedata.normalize("NFKC", said).strip().strip("*_`'\" ")
    if SMALL_DIGIT.search(said) or CUT_NUMBER.fullmatch(text):
        raise Unreadable(f"{said[:80]!r} is not a score from 0 to 1")
    text = text.rstrip(".")
    if text.casefold() in NOT_MEASURED:
        return None
    if found := SHARE.fullmatch(text):
        return _share(_number(found[1]), _number(found[2]), said)
    if found := PERCENT.fullmatch(text):
        return _share(_number(found[1]), 100, said)
    found = PLAIN.fullmatch(text)
    if found and not (found[2] and found[1].isdigit()):
        return _in_range(_number(found[1]), said)
    raise Unreadable(f"{said[:80]!r} is not a score from 0 to 1")


def _share(score: float, most: float, said: Any) -> float:
    """Return a score on a scale from 0 to `most`.

    Raises `Unreadable` for less than 1 on a longer scale: "0.7/10" may as well mean 0.7.
    """
    if most < 1 or (most > 1 and 0 < score < 1):
        raise Unreadable(f"{str(said)[:80]!r} does not say which scale it is on: from 0 to 1")
    return _in_range(score / most, said)


def has_score(said: Mapping[str, Any]) -> bool:
    """Return whether an object has a member that is a score."""
    return any(name in said for name in SCORES)


def scale_in(said: Mapping[str, Any]) -> Any:
    """Return what an object says its scores are out of, None if it does not."""
    return next((member for name, member in said.items() if is_scale(name)), None)


def is_scale(name: str) -> bool:
    """Return whether a member of that name says what scores are out of."""
    return SCALES.fullmatch(name) is not None


def _of_object(said: Mapping[str, Any]) -> float | None:
    if not has_score(said):
        raise Unreadable("an object is not a score from 0 to 1")
    value = next(said[name] for name in SCORES if name in said)
    most = scale_in(said)
    if len(_given_scores(said)) > 1:
        raise Unreadable("an object has two different scores: give one")
    if most is None or (isinstance(value, str) and not PLAIN.fullmatch(value.strip())):
        return score_of(value)
    found = SCALE.fullmatch(str(most).strip())
    if not found:
        raise Unreadable(f"{str(most)[:80]!r} is not a scale: give scores from 0 to 1")
    return None if value is None else score_of(f"{value}/{found[1]}")


def _given_scores(said: Mapping[str, Any]) -> set[float]:
    """Return the different scores from 0 to 1 in the members of an object that hold one."""
    found: set[float] = set()
    for name, member in said.items():
        if (name in SCORES or LATER.fullmatch(name)) and not isinstance(member, Mapping):
            with suppress(Unreadable):
                score = score_of(member)
                found |= set() if score is None else {score}
    return found


def _number(text: str) -> float:
    if THOUSANDS.fullmatch(text):
        raise Unreadable(f"{text[:80]!r} is not a score from 0 to 1")
    return float(text.replace(",", "."))


def _in_range(score: float, said: Any) -> float:
    if not 0 <= score <= 1:
        raise Unreadable(f"{str(said)[:80]} is not a score from 0 to 1: name no other scale")
    return round(score, 6)


Item = TypeVar("Item", bound=ReplyModel)


def list_items(reply: ReplyReader, said: Any, shape: type[Item], what: str) -> list[Item]:
    """Return the items of a list that have a shape; every other one is dropped."""
    found: list[Item] = []
    items = flat(said)
    for item in items if isinstance(items, list) else [] if items is None else [items]:
        try:
            found.append(shape.model_validate(with_plain_names(item)))
        except ValidationError as error:
            reply.drop(what, first_flaw(error, what))
    return found


def with_plain_names(given: Any) -> Any:
    """Return an object with the names of its members in lower case, if they stay different."""
    if not isinstance(given, Mapping):
        return given
    named = {_name(str(name)): value for name, value in given.items()}
    return named if len(named) == len(given) else given


@cache
def _object_with(name: str, kind: Any) -> type[ReplyModel]:
    members: dict[str, Any] = {name: (kind, ...)}
    return create_model("ObjectWithList", __base__=ReplyModel, **members)


def listed_in(reply: ReplyReader, name: str, shape: type[Item], what: str) -> list[Item]:
    """Return the items of the list that an object contains; those of another shape are dropped.

    Raises `Unreadable` when there is no list, or when no item of it can be used.
    """
    said = getattr(reply.read_as(_object_with(name, Any)), name)
    if not isinstance(flat(said), list):
        raise Unreadable(f"{name}: it is not a list")
    items = list_items(reply, said, shape, what)
    require_one(reply, items)
    return items


def require_one(reply: ReplyReader, used: Sequence[object]) -> None:
    """Raise `Unreadable` when items were dropped and none is left."""
    if reply.dropped and not used:
        raise Unreadable(reply.dropped[0].reason)


MOST_DEPTH = 64
MOST_STARTS = 500
"""Brackets of a text that are tried; a text with more contains something else than one answer."""

MOST_DIGITS = 300
"""Digits of a whole number; a longer one is infinite, and nothing asks for infinity."""

WORDS: Mapping[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "none": None,
    "undefined": None,
    "nan": float("nan"),
    "infinity": float("inf"),
    "+infinity": float("inf"),
    "-infinity": float("-inf"),
}
CLOSING: Mapping[str, str] = {
    '"': '"',
    "'": "'",
    "`": "`",
    "\u201c": "\u201c\u201d\u201e",
    "\u201e": "\u201c\u201d",
    "\u201d": "\u201d",
    "\u2018": "\u2018\u2019",
    "\u300c": "\u300d",
}
"""The quotation marks that may open a string, with those that close it."""

FENCES = ('"""', "'''", "```")
ESCAPES: Mapping[str, str] = {
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    **{sign: sign for sign in "\"'`/\\"},
    "\n": "",
}
BLANK = re.compile(r"(?:[\s\u200b-\u200d\u2060\ufeff]+|//[^\n]*|/\*.*?\*/|#[^\n]*)+", re.DOTALL)
NUMBER = re.compile(r"[-+]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
CUT_NUMBER = re.compile(r"[-+]?\d+[.,]")
SMALL_DIGIT = re.compile(r"[\u00b2\u00b3\u00b9\u2070-\u209f\u2460-\u24ff]")
"""Raised, lowered and circled digits: the number of a note, not a digit of the number before."""
BARE = re.compile(r"[^\s,\uff0c{}\[\]\"'`:\uff1a]+")
NAME = re.compile(r"[^\W\d][\w.$ -]*+(?=\s*[:\uff1a])")
COMMAS = ",\uff0c"
COLONS = ":\uff1a"

MEMBER = r"(?:[\"'`\u201c\u2018\u201e\u300c][^\n]{0,200}?[\"'`\u201d\u2019\u201c\u300d]|[^\W\d]\w*)"
AFTER_MEMBER = re.compile(rf"\s*(?:\}}|[,\uff0c]\s*(?:\}}|{MEMBER}\s*[:\uff1a]|//|/\*|#)|\Z)")
NEXT_MEMBER = re.compile(rf"(?=[^\S\n]*\n)\s*+{MEMBER}\s*+[:\uff1a]")
AFTER_ITEM = re.compile(
    r"\s*(?:\]|[,\uff0c]\s*(?:[\]\"'`\u201c\u2018\u201e\u300c{\[\d-]|true|false|null|//|/\*|#)|\Z)"
)


class Unparsable(ValueError):
    """There is no JSON value here; the message says why."""


class Unusable(Unparsable):
    """A value that ends too early, can be read in two ways, or has a text that is not Unicode."""


def json_values_in(text: str) -> Iterator[dict[str, Any] | list[Any] | Unparsable]:
    """Yield the outermost objects and arrays of a text, in order, and why others cannot be read.

    The first `Unusable` value is the last: what stands inside or after it proves nothing.
    """
    return (value for value, _ in json_passages_in(text))


def json_passages_in(text: str) -> Iterator[tuple[dict[str, Any] | list[Any] | Unparsable, str]]:
    """Yield what `json_values_in` yields, each with the words that it was read from."""
    at = tried = 0
    while (start := _opening(text, at)) >= 0 and tried < MOST_STARTS:
        tried += 1
        try:
            value, at = _value(text, start)
            yield value, text[start:at]
        except Unparsable as error:
            yield error, ""
            if isinstance(error, Unusable):
                return
            at = start + 1


def decoded_json(text: str) -> Any:
    """Return the value of a JSON text, in which strings may have line ends.

    Raises ValueError or RecursionError, also for a string that is not Unicode.
    """
    value = json.loads(text, strict=False)
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _opening(text: str, at: int) -> int:
    found = [place for mark in "{[" if (place := text.find(mark, at)) >= 0]
    return min(found, default=-1)


def _value(text: str, start: int) -> tuple[Any, int]:
    try:
        value, end = DECODER.raw_decode(text, start)
    except Unusable:
        raise
    except (ValueError, RecursionError):
        reader = _Lenient(text, start)
        value, end = reader.value(0, in_object=False), reader.at
    if text.isascii() and "\\u" not in text and text.count("{") + text.count("[") < MOST_DEPTH:
        return value, end
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        raise Unusable("it contains half a surrogate pair, or nests too deeply") from None
    return value, end


def json_flaw_in(text: str) -> str | None:
    """Return why a text is no JSON value (RFC 8259), or why readers may differ on it."""
    try:
        json.loads(text, object_pairs_hook=_with_each_name_once, parse_constant=_refuse)
    except ValueError as error:
        return str(error)
    except RecursionError:
        return "it nests too deeply"
    return None


def _refuse(constant: str) -> NoReturn:
    raise Unparsable(f"{constant} is not a JSON number")


def _with_each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found and found[name] != value:
            shown = name[:100]
            raise Unusable(f"the name {shown!r} stands twice in one object, with different values")
        found[name] = value
    return found


DECODER = json.JSONDecoder(object_pairs_hook=_with_each_name_once)


class _Lenient:
    """A recursive descent over one value; `at` is the position after what was read."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at

    def value(self, depth: int, *, in_object: bool) -> Any:
        if depth > MOST_DEPTH:
            raise Unparsable("it nests too deeply")
        char = self._next()
        if char == "{":
            return self._object(depth)
        if char == "[":
            return self._array(depth)
        if char in CLOSING:
            return self._string(AFTER_MEMBER if in_object else AFTER_ITEM, in_object=in_object)
        return self._word()

    def _object(self, depth: int) -> dict[str, Any]:
        self.at += 1
        pairs: list[tuple[str, Any]] = []
        while self._skipping_commas() != "}":
            name = self._name()
            if self._next() not in COLONS:
                raise Unparsable(f"no colon after the name {name[:100]!r}")
            self.at += 1
            pairs.append((name, self.value(depth + 1, in_object=True)))
        self.at += 1
        return _with_each_name_once(pairs)

    def _array(self, depth: int) -> list[Any]:
        self.at += 1
        items: list[Any] = []
        while self._skipping_commas() != "]":
            items.append(self.value(depth + 1, in_object=False))
        self.at += 1
        return items

    def _next(self) -> str:
        """Return the next character that is neither blank nor in a comment."""
        if blank := BLANK.match(self._text, self.at):
            self.at = blank.end()
        if self.at >= len(self._text):
            raise Unusable("it ends within a JSON value: it is cut off")
        return self._text[self.at]

    def _skipping_commas(self) -> str:
        while (char := self._next()) in COMMAS:
            self.at += 1
        return char

    def _name(self) -> str:
        if self._next() in CLOSING:
            return str(self._string(re.compile(r"\s*[:\uff1a]"), in_object=True)).strip()
        if found := NAME.match(self._text, self.at):
            self.at = found.end()
            return found[0].rstrip()
        raise Unparsable(f"no name of a member at {self._text[self.at : self.at + 20]!r}")

    def _word(self) -> Any:
        found = BARE.match(self._text, self.at)
        if not found:
            raise Unparsable(f"no value at {self._text[self.at : self.at + 20]!r}")
        if found.end() == len(self._text):
            raise Unusable("it ends within a JSON value: it is cut off")
        self.at = found.end()
        word = unicodedata.normalize("NFKC", found[0])
        if CUT_NUMBER.fullmatch(word) or (SMALL_DIGIT.search(found[0]) and NUMBER.fullmatch(word)):
            raise Unparsable(f"{found[0][:20]} is no number")
        if word.casefold() in WORDS:
            return WORDS[word.casefold()]
        if NUMBER.fullmatch(word):
            is_whole = not set(word) & set(".eE") and len(word) <= MOST_DIGITS
            return int(word) if is_whole else float(word)
        return word

    def _string(self, after: re.Pattern[str], *, in_object: bool) -> str:
        for fence in FENCES:
            if self._text.startswith(fence, self.at):
                return self._fenced(fence)
        closing = CLOSING[self._text[self.at]]
        text, at, said = self._text, self.at + 1, list[str]()
        while at < len(text):
            char = text[at]
            if char == "\\":
                escaped, at = _escape(text, at)
                said.append(escaped)
                continue
            if char in closing and self._closes(at + 1, after, in_object=in_object):
                self.at = at + 1
                return "".join(said)
            said.append(char)
            at += 1
        raise Unusable("it ends within a string: it is cut off")

    def _closes(self, at: int, after: re.Pattern[str], *, in_object: bool) -> bool:
        """Return whether a quotation mark ends its string, by what comes after it."""
        if after.match(self._text, at):
            return True
        return in_object and NEXT_MEMBER.match(self._text, at) is not None

    def _fenced(self, fence: str) -> str:
        end = self._text.find(fence, self.at + 3)
        if end < 0:
            raise Unusable("it ends within a string: it is cut off")
        inside = self._text[self.at + 3 : end]
        self.at = end + 3
        first, line_end, rest = inside.partition("\n")
        if fence == "```" and line_end:
            return rest.removesuffix("\n")
        return inside if first.strip() or not line_end else rest.removesuffix("\n")


def _escape(text: str, at: int) -> tuple[str, int]:
    """Return the character of an escape and the position after it; an unknown one stays."""
    follows = text[at + 1 : at + 2]
    if follows == "u" and (digits := re.match(r"[0-9a-fA-F]{4}", text[at + 2 : at + 6])):
        first = int(digits[0], 16)
        second = re.match(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})", text[at + 6 : at + 12])
        if 0xD800 <= first < 0xDC00 and second:
            low = int(second[1], 16)
            return chr(0x10000 + ((first - 0xD800) << 10) + (low - 0xDC00)), at + 12
        return chr(first), at + 6
    return ESCAPES.get(follows, "\\" + follows), at + 2
