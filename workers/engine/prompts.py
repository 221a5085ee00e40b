"""Prompt requests and their words; one that a single strategy uses may be in its module.

A prompt has two messages. The system message is the same for every call of a refinement and holds
no text of a client, since models are trained to obey it above all else. The user message begins
with what all calls share, byte for byte, so that providers can cache it: context documents, task,
criteria. The instructions of the part follow, then what it works on, and at last how the text is
marked in the reply: marks differ from step to step.
"""

import json
import re
import string
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache
from pkgutil import get_data
from typing import Any, ClassVar, Self
from unicodedata import is_normalized, normalize

from app.contract.drafts import EditMode, is_long, sha256_of
from app.contract.judgement import (
    FEWEST_LISTED,
    LONGEST_NAME,
    LONGEST_QUESTION,
    MOST_LISTED,
    Criterion,
    Critics,
    Critique,
    Finding,
    PanelMember,
    Span,
)
from app.contract.models import Role
from app.contract.requests import ContextDocument, Grounding, RoleInstructions
from app.contract.statistics import Learnt
from app.contract.tools import Tool
from app.contract.values import value
from app.contract.versions import ENGINE_VERSION
from workers.engine.replies.likeness import Told, number_of_words
from workers.engine.replies.texts import asking_for, number_for

IN_WORDS = "in_words"
"""Metadata of a field that says in words what other fields hold: no part of the step's hash."""


def canonical(arguments: Mapping[str, Any] | None) -> str:
    """Return arguments as JSON with sorted names."""
    return json.dumps(arguments or {}, ensure_ascii=False, sort_keys=True)


@value(slots=True)
class Place:
    """Where a part stands in a larger text: its number, from 1, and the titles of all parts."""

    number: int
    titles: tuple[str, ...]
    before: str = ""
    """The text that stands before it, or its end, if there is one."""
    first: int = 1
    """The number of the part that has the first of the titles."""
    parts: int = 0
    """How many parts there are, if the titles are only those of its neighbours."""
    is_open: bool = False
    """Whether how many parts there will be is open; then the titles are those before it."""


@value(slots=True)
class JsonDocument:
    """A text that is one JSON object: a strict schema of it, and what else is checked, in words."""

    schema: Mapping[str, Any]
    checks: tuple[str, ...] = ()


@value(slots=True)
class ValidatorScore:
    """A score that a validator gives: where it comes from, and what it counts as."""

    source: str
    criterion: Criterion
    decides: bool = False
    """Whether it is the score of the draft, whatever critics say."""


@value(slots=True)
class ItemChecks:
    """What the validators of one stage, pass or part demand of its drafts."""

    scope: str
    checks: tuple[str, ...]
    """What the validators check, in words."""
    measures: tuple[ValidatorScore, ...]
    demanding: int = 0
    """How many of them count as passed or failed."""


@value()
class Task:
    """What the text must achieve, what it is judged on and what may be used.

    What follows from that for every prompt is computed once.
    """

    instruction: str | None
    draft: str | None
    criteria: tuple[Criterion, ...]
    nonce: str
    """Eight letters in the tags around texts: a text that was written before cannot close them."""
    context: tuple[ContextDocument, ...] = ()
    has_validators: bool = False
    """Whether the request's validators check its drafts."""
    own: tuple[ItemChecks, ...] = ()
    """The validators of the stage, pass or part that it is, beside those of the request."""
    scope: str = ""
    """What the scopes of items within it begin with."""
    is_clients_draft: bool = True
    """False for a draft that an earlier part of the strategy made."""
    demanding: int = 0
    """How many validators count as passed or failed: neither those that only warn nor those that
    give a score."""
    measures: tuple[ValidatorScore, ...] = ()
    """The scores that validators give."""
    schemas: tuple[Mapping[str, Any] | bool, ...] = ()
    """JSON Schemas that the draft must satisfy."""
    tools: tuple[Tool, ...] = ()
    """What a plan may call."""
    feedback: str | None = None
    """What is to change in the client's draft before one is judged."""
    spans: tuple[Span, ...] = ()
    """The passages of the client's draft that alone may change; empty if all may."""
    critics: Critics = Critics()
    """Who judges every draft."""
    edits: EditMode = "full"
    """How a draft is revised."""
    locked: tuple[str, ...] = ()
    """Texts of the client's draft that every draft must keep, character for character."""
    is_reviewed: bool = False
    """Whether a reviewer sees every draft of the outermost search."""
    engine_version: int = ENGINE_VERSION
    """The version of the engine that plays it; code that two versions do differently reads it."""
    grounding: Grounding = "context"
    """Which facts may be used."""
    instructions: RoleInstructions = RoleInstructions()
    """The house style of each role."""
    checks: tuple[str, ...] = ()
    """What the validators check, in words."""
    whole: JsonDocument | None = None
    """What the whole text is, if the format of a reply can demand it."""
    part: tuple[str, ...] = ()
    """What this part of the work is about, the whole first; empty for the whole text."""
    place: Place | None = None
    """Where the text stands, if it is a part of a larger one."""
    avoids: tuple[str, ...] = ()
    """What was wrong with the texts before a draft that is written anew."""
    accepted: frozenset[str] = frozenset()
    """Codes of caveats that do not keep a draft from passing."""
    is_sampled: bool = False
    """Whether the same is asked for several times, so that the texts should differ."""
    is_object: bool = False
    """Whether the client's draft is an object: then drafts have the form of its text."""
    generators: int = 1
    """How many generators there are; the next one writes when those before it are stuck."""
    escalate_after: int = 2
    """Judged drafts of one generator after which the next one writes."""
    writer: str | None = None
    """The number of the generator that writes; None: the first one."""
    learnt: Learnt | None = None
    """What scores of ended refinements of this kind taught, as it was when this one began."""
    is_exact: bool = False
    """Whether the critic gives equal texts equal scores and measures without noise."""

    @cached_property
    def sha256(self) -> str:
        """The hash of what it says to do, and of the texts and criteria that it gives."""
        documents = [(document.name, document.sha256) for document in self.context]
        criteria = [(criterion.name, criterion.description) for criterion in self.criteria]
        return sha256_of(json.dumps([self.instruction, self.draft, documents, criteria]))

    @cached_property
    def system(self) -> str:
        """The system message of every prompt."""
        return filled(FRAGMENTS["system"], nonce=self.nonce)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The key of each criterion in replies: `c1`, `c2` and so on, in their order."""
        return keys_for(tuple([criterion.name for criterion in self.criteria]))

    @cached_property
    def described(self) -> Mapping[str, str]:
        """Name and description of each criterion by its key."""
        said = [
            f"{criterion.name}: {criterion.description}"
            if criterion.description
            else criterion.name
            for criterion in self.criteria
        ]
        return dict(zip(self.keys, said, strict=True))

    @cached_property
    def beginning(self) -> str:
        """What user messages begin with."""
        return _shared(self, with_aim=True)

    @cached_property
    def beginning_without_aim(self) -> str:
        """What user messages begin with where the criteria are left out."""
        return _shared(self, with_aim=False)

    @cached_property
    def scopes(self) -> tuple[str, ...]:
        """Whose validators check its drafts: the path of an item, and `` for the request."""
        return (*([""] if self.has_validators else []), *[checks.scope for checks in self.own])

    @cached_property
    def counted(self) -> tuple[ValidatorScore, ...]:
        """The scores of validators that check its drafts."""
        own = [measure for checks in self.own for measure in checks.measures]
        return (*(self.measures if self.has_validators else ()), *own)

    @cached_property
    def demanded(self) -> int:
        """How many validators that check its drafts count as passed or failed."""
        return self.demanding * self.has_validators + sum(checks.demanding for checks in self.own)

    @property
    def is_long(self) -> bool:
        """Whether the client's draft is too long to be judged in one prompt."""
        return self.is_clients_draft and is_long(self.draft)

    @cached_property
    def document(self) -> JsonDocument | None:
        """What a draft must be; None for a part, and for a text on the way to the whole.

        An object is one all the way.
        """
        is_whole = (self.has_validators or self.is_object) and self.place is None
        return self.whole if is_whole else None


RETRY = 0.7
"""The temperature of another try, where that of the first is 0."""


@value(slots=True)
class Prompt:
    """What is sent to a language model. `schema` (JSON Schema) is set if the reply must be JSON."""

    name: str
    version: int
    system: str
    user: str
    schema: dict[str, object] | None = None
    is_document: bool = False
    """Whether the JSON is the text itself, so that the words do not say what the schema says."""
    shared: int = 0
    """Characters at the start of `user` that, after the same `system`, are the same in every call
    about the same task, context and criteria: worth caching."""
    worded: int = 0
    """Characters at the start of `user` up to which, from there on, it has the template's words."""
    temperature: float | None = None
    """The temperature of this kind of call, unless the client names one; None is the model's."""
    mark: str | None = None
    """The number of the marks between which the reply has its text; None if it has none."""

    @property
    def asks_for_text(self) -> bool:
        """Whether the reply is a text, not an object about one."""
        return self.schema is None or self.is_document or self.wants_text_alone

    @property
    def wants_text_alone(self) -> bool:
        """Whether a text that was to stand between marks is now asked for in an object."""
        return self.schema is not None and self.mark is not None

    def repeated(self, correction: str) -> Self:
        """Return the prompt of another try: the correction stands at its end, and then the marks.

        At temperature 0 a model that repeats itself until it is cut off would do so again.
        """
        temperature = RETRY if self.temperature == 0 else self.temperature
        user = f"{self.user}\n\n{correction}"
        if self.mark is not None and not self.wants_text_alone:
            user += f"\n\n{asking_for('it', self.mark)}"
        return replace(self, user=user, temperature=temperature)


@value(slots=True)
class PromptRequest:
    """What a model is asked to do about a task, as data; `prompt` puts it into words.

    The class is no `ABC`, since types are looked at several times per call, and an `ABC` takes
    longer.
    """

    task: Task
    revises: ClassVar[bool] = False
    """Whether the text that it asks for takes the place of its `draft`."""

    def prompt(self) -> Prompt:
        """Return the prompt. Other words need a new version; recorded replies keep theirs."""
        raise NotImplementedError


VERDICT = 0.0
"""The temperature of judgements: the same draft gets the same verdict."""

DIVERSE = 1.0
"""The temperature of texts that one prompt asks for several times, and that should differ."""


@value(slots=True)
class Template:
    """The words of one kind of prompt, and how it is asked, as `prompts.toml` has them."""

    version: int
    words: str
    role: Role = "generator"
    verdict: bool = False
    aim: bool = True
    draft: bool = False
    document: bool = False
    answer: str | None = None
    facts: Sequence[str] = ()


_READ = tomllib.loads((get_data(__package__, "prompts.toml") or b"").decode())
FRAGMENTS: Mapping[str, str] = _READ.pop("fragments")
"""Words that several prompts have, or that only some of a kind have."""

TEMPLATES: Mapping[str, Template] = {name: Template(**given) for name, given in _READ.items()}

PLACEHOLDER = re.compile(r"\{(\w+)\}")


def filled(words: str, /, **values: object) -> str:
    """Return words with these values, and fragments, in the places that are named for them."""
    known = {**FRAGMENTS, **values}
    return PLACEHOLDER.sub(lambda found: str(known.get(found[1], found[0])), words)


@lru_cache(maxsize=256)
def _instructions(name: str, grounding: Grounding, **values: object) -> str:
    template = TEMPLATES[name]
    return filled(template.words, grounded=_facts(grounding, template.facts), **values)


def worded(
    task: Task,
    name: str,
    /,
    *material: str,
    schema: dict[str, object] | None = None,
    temperature: float | None = None,
    **values: object,
) -> Prompt:
    """Return the prompt that `prompts.toml` has under a name, with these values in its words.

    A prompt for a draft says what will be checked and, if the draft is written anew, what was wrong
    with the texts before it. For a document its schema is the format of the reply.
    """
    template = TEMPLATES[name]
    words = _instructions(name, task.grounding, **values)
    document = task.document if template.document else None
    if temperature is None and (template.verdict or (template.draft and task.is_sampled)):
        temperature = VERDICT if template.verdict else DIVERSE
    return assembled(
        task,
        name,
        template.version,
        words,
        *(_demands(task, document) if template.draft else ()),
        *material,
        role=template.role,
        schema=schema if document is None else dict(document.schema),
        temperature=temperature,
        with_aim=template.aim,
        is_document=document is not None,
        answer=template.answer,
    )


def assembled(
    task: Task,
    name: str,
    version: int,
    instructions: str,
    *material: str,
    role: Role = "generator",
    schema: dict[str, object] | None = None,
    temperature: float | None = None,
    with_aim: bool = True,
    is_document: bool = False,
    answer: str | None = None,
) -> Prompt:
    """Return the prompt of one part: what all parts share, then its instructions and material.

    Without the aim the criteria are left out, and nothing is said where there is no task. `answer`
    is what the last line asks for between marks, unless the reply has a schema.
    """
    shared = task.beginning if with_aim else task.beginning_without_aim
    own = [instructions]
    if style := getattr(task.instructions, role):
        own.append(tagged_text(task, "style", style))
    if task.place is not None or task.part:
        own += _place(task)
    own += material
    user, mark = shared + "\n\n".join(own), None
    if answer is not None and schema is None:
        mark = number_for(task.nonce, name, own, user)
        user += f"\n\n{asking_for(answer, mark)}"
    return Prompt(
        name,
        version,
        task.system,
        user,
        schema,
        is_document,
        shared=len(shared),
        worded=len(shared) + len(instructions),
        temperature=temperature,
        mark=mark,
    )


def tagged_text(task: Task, label: str, text: str) -> str:
    """Return a text between tags that no text can contain, named by `label`.

    The tags carry the nonce of the refinement, which the text then has in no form.
    """
    return f"<{label} {task.nonce}>\n{harmless(text, task.nonce)}\n</{label} {task.nonce}>"


def numbered_texts(task: Task, label: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield texts between tags, named by `label` and their number from 1."""
    for number, text in enumerate(texts, 1):
        yield tagged_text(task, f"{label} {number}", text)


def described(task: Task, tool: Tool) -> str:
    """Return what a tool does and the schema of its arguments, between tags."""
    return tagged_text(
        task, "tool", f"{tool.name}: {tool.description}\nparameters: {canonical(tool.parameters)}"
    )


STYLED_FORMS = (
    (0xAA, 0x1F3), (0x2B0, 0x2E4), (0x1D2C, 0x1DBF), (0x1E9A, 0x1E9B), (0x2070, 0x218F),
    (0x2460, 0x24FF), (0x2C7C, 0x2C7D), (0x3200, 0x33FF), (0xA7F1, 0xA7F9), (0xAB5C, 0xAB5F),
    (0xFB00, 0xFB06), (0xFF10, 0xFF5A), (0x10780, 0x107BA), (0x1CCD6, 0x1CCF9),
    (0x1D400, 0x1D7FF), (0x1F100, 0x1F190), (0x1FBF0, 0x1FBF9),
)  # fmt: skip
STYLED = {
    place: plain
    for first, last in STYLED_FORMS
    for place in range(first, last + 1)
    if (plain := normalize("NFKD", chr(place))) != normalize("NFD", chr(place))
}
"""What stands for Latin letters and digits in another form: full-width, bold, circled ..."""

NOT_IN_NONCES = bytes(set(range(256)) - {*f"{string.digits}{string.ascii_letters}".encode()})
LOWERED = bytes(range(256)).lower()


def harmless(text: str, nonce: str) -> str:
    """Return a text without the nonce, in whatever form a model may recognise it.

    Full-width and other styled forms and capitals make no difference, nor what stands between its
    characters: white space, signs, invisible characters. So the form of the brackets makes none.
    """
    if nonce.encode() not in _normal(text):
        return text
    places = [place for place, letter in enumerate(text) for _ in _normal(letter)]
    instead = b"0" if nonce.isalpha() else b"x"  # no part of a nonce, so it makes no new one
    kept, end = "", 0
    for found in re.finditer(nonce.encode(), b"".join(map(_normal, text))):
        kept += text[end : places[found.start()]] + instead.decode()
        end = places[found.end() - 1] + 1
    return kept + text[end:]


def _normal(text: str) -> bytes:
    """Return the digits and small Latin letters that a text has or stands for."""
    is_plain = text.isascii() or is_normalized("NFKC", text)
    if not is_plain and not STYLED.keys().isdisjoint(map(ord, set(text))):
        text = text.translate(STYLED)
    return text.encode(errors="ignore").translate(LOWERED, NOT_IN_NONCES)


def grounded(task: Task, *given: str) -> str:
    """Return which facts a writer may use: those of `given`, or what it knows as well."""
    return _facts(task.grounding, given)


def _facts(grounding: Grounding, given: Sequence[str]) -> str:
    if grounding == "open":
        return FRAGMENTS["open_facts"]
    sources = f"{', '.join([*given, 'the task'])} and the documents"
    return filled(FRAGMENTS["given_facts"], sources=sources)


def _demands(task: Task, document: JsonDocument | None) -> Iterator[str]:
    """Yield what the validators will check, for a writer, and what was wrong with former texts.

    The schema of a document is the format of the reply, and not said again.
    """
    lines: list[str] = []
    if task.is_object or document is not None:
        lines.append(FRAGMENTS["is_object" if document is None else "is_document"])
    if task.has_validators:
        lines += task.checks if document is None else document.checks
    for own in task.own:
        lines += own.checks
    if lines:
        yield tagged_text(task, "checks", f"The text\n{_listed(lines)}")
    if task.avoids:
        yield tagged_text(task, "review", f"{FRAGMENTS['avoided']}:\n{_listed(task.avoids)}")


def _shared(task: Task, *, with_aim: bool) -> str:
    texts = [
        tagged_text(task, "document", f"{document.name}\n\n{document.text}")
        for document in task.context
    ]
    if task.instruction:
        texts.append(tagged_text(task, "task", task.instruction))
    elif with_aim:
        texts.append(FRAGMENTS["no_task"])
    if with_aim and task.criteria:
        lines = [f"{key}. {said}" for key, said in task.described.items()]
        texts.append(tagged_text(task, "criteria", "\n".join(lines)))
    return "".join(f"{shown}\n\n" for shown in texts)


LIKE_A_KEY = re.compile(r"c\d+", re.IGNORECASE)


@lru_cache(maxsize=512)
def keys_for(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys of criteria with these names: `c1`, `c2` and so on, in their order.

    Where a criterion is named like a key, the keys are longer, so that no name means two.
    """
    is_taken = any(LIKE_A_KEY.fullmatch(name.strip()) for name in names)
    prefix = "criterion_" if is_taken else "c"
    return tuple(f"{prefix}{number}" for number in range(1, len(names) + 1))


def _place(task: Task) -> Iterator[str]:
    """Yield what part of a larger piece of work this is, and where it stands in it."""
    if task.place is not None:
        place = task.place
        if place.is_open:
            yield f"The text is part {place.number} of a larger one, which is not finished yet."
        else:
            count = place.parts or len(place.titles)
            yield f"The text is part {place.number} of {count} of a larger one:"
        titles = (f"{number}. {title}" for number, title in enumerate(place.titles, place.first))
        if place.titles:
            yield tagged_text(task, "parts", "\n".join(titles))
        if place.before:
            yield tagged_text(task, "what stands before it", place.before)
    if task.part:
        yield tagged_text(task, "part", "\n".join(task.part))


SCORES = [round(step / 20, 2) for step in range(21)]
"""The scores that a schema allows: it leaves no way to write one on another scale."""

TEXT: dict[str, object] = {"type": "string"}


def closed(properties: dict[str, object]) -> dict[str, object]:
    """Return an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def at_least(names: Sequence[str], items: dict[str, object]) -> dict[str, object]:
    """Return an object with an item under each of these names, and others in `more`.

    The object stands for a list that must not be empty: OpenAI's strict schemas have no `minItems`.
    """
    return closed({**dict.fromkeys(names, items), "more": {"type": "array", "items": items}})


def each(prefix: str, count: int, item: dict[str, object]) -> dict[str, object]:
    """Return an object with one required member for each of `count` things, numbered from 1."""
    return closed({f"{prefix}{number}": item for number in range(1, count + 1)})


def object_with_list(name: str, items: dict[str, object]) -> dict[str, object]:
    """Return an object that holds one list."""
    return closed({name: {"type": "array", "items": items}})


@value(slots=True)
class Summaries:
    """What critics are shown of a draft that is too long for one prompt, and how long that is."""

    texts: tuple[str, ...]
    """A summary of each part, in their order."""
    facts: tuple[str, ...]
    words: int
    characters: int


@value(slots=True)
class Judge(PromptRequest):
    """Judge a draft, blind: no threshold, no earlier score, no iteration, no author.

    `member` is the critic of the panel that judges, if there is a panel. `turn` says which
    criterion is scored first, counted from 0: samples begin with different ones, as a score
    depends on those before it.
    """

    draft: str
    member: PanelMember | None = None
    turn: int = field(default=0, metadata={IN_WORDS: True})
    parts: Summaries | None = None
    """Set if the draft stands for another one, of whose parts it has the summaries."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the criteria, in the order in which they are scored."""
        keys = self.task.keys
        first = self.turn % len(keys) if keys else 0
        return keys[first:] + keys[:first]

    def prompt(self) -> Prompt:
        """Ask for a verdict on one draft, in the role of a panel's critic if there is one."""
        task = self.task
        return worded(
            task,
            "critique",
            *_examples(task),
            *self._shown(),
            *_seen_by(task, self.member),
            self._closing(),
            schema=schema_for(self),
            temperature=VERDICT if task.critics.samples == 1 else DIVERSE,
        )

    def _shown(self) -> Iterator[str]:
        """Yield what the critic is shown of the draft."""
        if self.parts is None:
            yield tagged_text(self.task, "draft", self.draft)
            return
        yield FRAGMENTS["by_parts"]
        yield from numbered_texts(self.task, "summary of part", self.parts.texts)
        if self.parts.facts:
            yield tagged_text(self.task, "facts", "\n".join(self.parts.facts))

    def _closing(self) -> str:
        """Return what stands behind the draft: its length, as models cannot count, and the order.

        The order of the criteria in the prompt stays: providers cache what begins with it.
        """
        keys, words, characters = self.keys, number_of_words(self.draft), len(self.draft)
        if self.parts is not None:
            words, characters = self.parts.words, self.parts.characters
        order = f", in the order {', '.join(keys)}" if keys != self.task.keys else ""
        return FRAGMENTS["closing"].format(words=words, characters=characters, order=order)


def _examples(task: Task) -> Iterator[str]:
    """Yield the examples that anchor the scale, all in one block."""
    texts = [
        f"{criterion.name}, {example.score:g}"
        f"{f', because {example.why}' if example.why else ''}:\n{example.text}"
        for criterion in task.criteria
        for example in criterion.examples
    ]
    if texts:
        shown = tagged_text(task, "examples", "\n\n".join(texts))
        yield f"{FRAGMENTS['examples']}\n{shown}"


def _seen_by(task: Task, member: PanelMember | None) -> Iterator[str]:
    """Yield the role of one critic of a panel: late, so that the panel shares what is before it."""
    if member and member.adversarial:
        yield FRAGMENTS["adversarial"]
    if member and member.perspective:
        yield FRAGMENTS["perspective"]
        yield tagged_text(task, "perspective", member.perspective)


TEXT_OR_NULL: dict[str, object] = {"type": ["string", "null"]}


def schema_for(prompt_request: Judge, *, may_lack: bool = True) -> dict[str, object]:
    """Return the JSON Schema of the reply, in the subset that structured output accepts.

    Servers generate members in the order of the schema, some in that of the alphabet: in both the
    findings come before the scores, and evidence and reason before each score. Every criterion has
    a required member. With `may_lack` one among several criteria may go without a score; no schema
    can say that not all may. It is shared with other prompts: do not change it.
    """
    described, keys = prompt_request.task.described, prompt_request.keys
    return _schema(keys, tuple([described[key] for key in keys]), may_lack and len(keys) > 1)


@lru_cache(maxsize=256)
def _schema(keys: tuple[str, ...], criteria: tuple[str, ...], may_lack: bool) -> dict[str, object]:
    score: dict[str, object] = {
        "type": ["number", "null"] if may_lack else "number",
        "enum": [*SCORES, *[None] * may_lack],
    }
    texts: dict[str, object] = {"type": "array", "items": TEXT}
    finding = closed(
        {
            "kind": {"type": "string", "enum": list(keys)},
            "message": TEXT,
            "fix": TEXT_OR_NULL,
            "quote": TEXT_OR_NULL,
        }
    )
    scores = {
        key: {
            **closed({"evidence": texts, "reason": TEXT, "score": score}),
            "description": criterion,
        }
        for key, criterion in zip(keys, criteria, strict=True)
    }
    return closed(
        {
            "findings": {"type": "array", "items": finding},
            "strengths": texts,
            "weaknesses": texts,
            "suggestions": texts,
            "scores": closed(dict(scores)),
        }
    )


COMPARE_SCHEMA = closed({"reason": TEXT, "better": {"type": "string", "enum": ["A", "B", "tie"]}})


@value(slots=True)
class Compare(PromptRequest):
    """Say which of two texts does the task better, blind like a critique."""

    a: str
    b: str

    def prompt(self) -> Prompt:
        texts = tagged_text(self.task, "text A", self.a), tagged_text(self.task, "text B", self.b)
        return worded(self.task, "compare", *texts, schema=COMPARE_SCHEMA)


@value(slots=True)
class ListCriteria(PromptRequest):
    """List what a text will be judged on, from the task; from its draft only if there is none."""

    def prompt(self) -> Prompt:
        """Ask for the criteria; a draft is shown only when there is no task."""
        task = self.task
        is_shown = task.draft is not None and task.instruction is None
        return worded(
            task,
            "checklist",
            *([tagged_text(task, "draft", task.draft or "")] if is_shown else []),
            schema=CHECKLIST_SCHEMA,
            fewest=FEWEST_LISTED,
            most=MOST_LISTED,
            longest_name=LONGEST_NAME,
            longest_question=LONGEST_QUESTION,
        )


CHECKLIST_SCHEMA = closed(
    {
        "criteria": at_least(
            ("first", "second", "third"), closed({"name": TEXT, "description": TEXT})
        )
    }
)


WORDS = {IN_WORDS: True}


@value(slots=True)
class Write(PromptRequest):
    """Write a first draft."""

    def prompt(self) -> Prompt:
        return worded(self.task, "write")


OPENS, CLOSES = "<answer>", "</answer>"
"""The marks around an answer that is reasoned for; the words of the prompt have them too."""


@value(slots=True)
class Solve(PromptRequest):
    """Reason, and write a text as the answer."""

    pattern: str | None = field(default=None, metadata=WORDS)
    """The pattern in RE2 syntax that finds the answer in the text."""

    def prompt(self) -> Prompt:
        said = f"The answer is found in the text by the regular expression (RE2) {self.pattern}"
        found = [tagged_text(self.task, "checks", said)] if self.pattern else []
        return worded(self.task, "solve", *found)


@value(slots=True)
class Revise(PromptRequest):
    """Revise a draft: fix what failed, and keep what is good."""

    revises: ClassVar[bool] = True
    draft: str
    failing: tuple[str, ...] = field(metadata=WORDS)
    critique: Critique
    findings: tuple[Finding, ...]
    mended: tuple[str, ...] = field(default=(), metadata=WORDS)
    """Issues that earlier revisions resolved, and that this one must not bring back."""
    tried: tuple[str, ...] = field(default=(), metadata=WORDS)
    """Earlier revisions of this draft that were no better: what they changed, and why."""

    def prompt(self) -> Prompt:
        return worded(self.task, "revise", *revision_material(self))


def revision_material(prompt_request: Revise) -> list[str]:
    """Return what a reviser works on: the draft, its locked texts, and the review."""
    task = prompt_request.task
    locked = [words for words in task.locked if words in prompt_request.draft]
    return [
        tagged_text(task, "draft", prompt_request.draft),
        *[tagged_text(task, "locked text", words) for words in locked],
        tagged_text(task, "review", review_text(prompt_request)),
    ]


def review_text(prompt_request: Revise) -> str:
    """Return the feedback as text: what failed first, then what to keep; each flaw once."""
    critique, told = prompt_request.critique, Told(prompt_request.failing)
    weaknesses = tuple([weakness for weakness in critique.weaknesses if not told.says(weakness)])
    if weaknesses:
        told = Told((*prompt_request.failing, *weaknesses))
    sections = [
        ("Must be mended", prompt_request.failing),
        ("Weaknesses", weaknesses),
        (
            "Suggestions",
            tuple([suggestion for suggestion in critique.suggestions if not told.says(suggestion)]),
        ),
        ("Tried before on this draft, and judged no better", prompt_request.tried),
        ("Mended by earlier revisions, and not to be undone", prompt_request.mended),
        ("Keep", critique.strengths),
    ]
    return "\n\n".join([f"{title}:\n{_listed(lines)}" for title, lines in sections if lines])


def _listed(lines: Sequence[str]) -> str:
    return "\n".join([f"- {line}" for line in lines])


@value(slots=True)
class Amend(PromptRequest):
    """Revise a draft by search/replace edits of it."""

    revision: Revise

    def prompt(self) -> Prompt:
        schema = closed({"edits": at_least(("first",), closed({"search": TEXT, "replace": TEXT}))})
        return worded(self.task, "amend", *revision_material(self.revision), schema=schema)


SURROUNDINGS = 2_000
"""Characters of a draft before and after a passage that are shown."""


@value(slots=True)
class RevisePassages(PromptRequest):
    """Revise passages of a draft; what is around them stays."""

    revision: Revise
    spans: tuple[Span, ...]

    @property
    def passages(self) -> tuple[str, ...]:
        """The passages as they are."""
        return tuple(self.revision.draft[span.start : span.end] for span in self.spans)

    @property
    def marked(self) -> str:
        """All of them together."""
        return "".join(self.passages)

    def prompt(self) -> Prompt:
        task, said = self.task, self.revision
        names = [f"p{number}" for number in range(1, len(self.spans) + 1)]
        marked = zip(names, self.spans, strict=True)
        given = [shown for name, span in marked for shown in self._at(name, span)]
        locked = [
            words for words in task.locked if any(words in passage for passage in self.passages)
        ]
        return worded(
            task,
            "passages",
            *given,
            *[tagged_text(task, "locked text", words) for words in locked],
            tagged_text(task, "review", review_text(said)),
            schema=closed({"passages": each("p", len(names), TEXT)}),
            form=", ".join(f'"{name}": "..."' for name in names),
        )

    def _at(self, name: str, span: Span) -> list[str]:
        """Return a passage and what stands around it, each under its name."""
        draft = self.revision.draft
        before = draft[max(0, span.start - SURROUNDINGS) : span.start]
        after = draft[span.end : span.end + SURROUNDINGS]
        found = (
            (f"before {name}", before),
            (f"passage {name}", draft[span.start : span.end]),
            (f"after {name}", after),
        )
        shown = ((label, text) for label, text in found if text or label.startswith("passage"))
        return [tagged_text(self.task, label, text) for label, text in shown]


@value(slots=True)
class Derive(PromptRequest):
    """Write a further text, as ordered, from a finished one."""

    draft: str
    order: str

    def prompt(self) -> Prompt:
        text = tagged_text(self.task, "finished text", self.draft)
        return worded(self.task, "derive", text, tagged_text(self.task, "order", self.order))


@value(slots=True)
class Reason(PromptRequest):
    """Write a first draft in numbered steps."""

    def prompt(self) -> Prompt:
        return worded(self.task, "reason")


@value(slots=True)
class Redo(PromptRequest):
    """Redo the steps from number `first` on; the `kept` text before them stays."""

    kept: str
    rest: str
    first: int
    failing: tuple[str, ...] = field(metadata=WORDS)
    critique: Critique
    tried: tuple[str, ...] = field(default=(), metadata=WORDS)
    """Earlier revisions of this text that were no better: what they changed, and why."""

    def prompt(self) -> Prompt:
        task = self.task
        said = Revise(task, self.kept, self.failing, self.critique, (), tried=self.tried)
        stays = [tagged_text(task, "steps that stay", self.kept)] if self.kept.strip() else []
        given = (*stays, tagged_text(task, "steps to do anew", self.rest))
        review = tagged_text(task, "review", review_text(said))
        return worded(task, "redo", *given, review, first=self.first)
