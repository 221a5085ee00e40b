"""First drafts, revisions and further texts."""

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar

from app.contract.judgement import Critique, Finding, Span
from app.contract.values import value
from workers.engine.likeness import Told
from workers.engine.prompt_requests import IN_WORDS, JsonDocument, Prompt, PromptRequest, Task
from workers.engine.prompts import (
    DIVERSE,
    TEXT,
    assembled,
    at_least,
    checks,
    closed,
    each,
    fenced,
    grounded,
)

WORDS = {IN_WORDS: True}

WRITE_VERSION = 4
WRITE = """\
Write one text that does what the task asks and meets every criterion. {grounded}"""


@value(slots=True)
class Write(PromptRequest):
    """Write a first draft."""

    def prompt(self) -> Prompt:
        words = WRITE.format(grounded=grounded(self.task))
        document = self.task.document
        return _written(
            self.task, "write", WRITE_VERSION, words, document=document, answer="the text"
        )


SOLVE_VERSION = 1
OPENS, CLOSES = "<answer>", "</answer>"
SOLVE = f"""\
Do what the task asks. {{grounded}}
First reason, step by step and as long as you need. Then write the text that the task asks for, in
the form it asks for, between {OPENS} and {CLOSES}. Only what stands there is read."""


@value(slots=True)
class Solve(PromptRequest):
    """Reason, and write a text as the answer."""

    pattern: str | None = field(default=None, metadata=WORDS)
    """The pattern in RE2 syntax that finds the answer in the text."""

    def prompt(self) -> Prompt:
        words = SOLVE.format(grounded=grounded(self.task))
        found = [
            fenced(
                self.task,
                "checks",
                f"The answer is found in the text by the regular expression (RE2) {self.pattern}",
            )
        ]
        return _written(self.task, "solve", SOLVE_VERSION, words, *(found if self.pattern else ()))


REVISE_VERSION = 6
REVISE = """\
Revise the draft. Mend what the review names, worst first, and meet every criterion.
What earlier attempts did not mend needs another way than theirs; what they mended stays mended.
Keep what is good, and keep facts, numbers, names, quotations and links as they are unless
the review says they are wrong; locked text stays as it is. {grounded}"""


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
        words = REVISE.format(grounded=grounded(self.task, "the draft"))
        given, document = material(self), self.task.document
        return _written(
            self.task,
            "revise",
            REVISE_VERSION,
            words,
            *given,
            document=document,
            answer="the whole revised text",
        )


def material(prompt_request: Revise) -> list[str]:
    """Return what a reviser works on: the draft, its locked texts, and the review."""
    task = prompt_request.task
    locked = [it for it in task.locked if it in prompt_request.draft]
    return [
        fenced(task, "draft", prompt_request.draft),
        *[fenced(task, "locked text", it) for it in locked],
        fenced(task, "review", review(prompt_request)),
    ]


def review(prompt_request: Revise) -> str:
    """Return the feedback as text: what failed first, then what to keep; each flaw once."""
    critique, told = prompt_request.critique, Told(prompt_request.failing)
    weaknesses = tuple([it for it in critique.weaknesses if not told.says(it)])
    if weaknesses:
        told = Told((*prompt_request.failing, *weaknesses))
    sections = [
        ("Must be mended", prompt_request.failing),
        ("Weaknesses", weaknesses),
        ("Suggestions", tuple([it for it in critique.suggestions if not told.says(it)])),
        ("Tried before on this draft, and judged no better", prompt_request.tried),
        ("Mended by earlier revisions, and not to be undone", prompt_request.mended),
        ("Keep", critique.strengths),
    ]
    return "\n\n".join([f"{title}:\n{_listed(lines)}" for title, lines in sections if lines])


def _listed(lines: Sequence[str]) -> str:
    return "\n".join([f"- {line}" for line in lines])


AVOIDED = "Wrong with every text written so far; write a new one, in another way"


def _written(
    task: Task,
    name: str,
    version: int,
    words: str,
    *material: str,
    schema: dict[str, object] | None = None,
    document: JsonDocument | None = None,
    answer: str | None = None,
) -> Prompt:
    """Return a prompt that asks for a draft: it says what will be checked.

    For a document its schema is the format of the reply. A draft that is written anew is told what
    was wrong with the texts before it.
    """
    given = checks(task, document)
    if task.avoids:
        given.append(fenced(task, "review", f"{AVOIDED}:\n{_listed(task.avoids)}"))
    return assembled(
        task,
        name,
        version,
        words,
        *given,
        *material,
        schema=schema if document is None else dict(document.schema),
        temperature=DIVERSE if task.is_sampled else None,
        is_document=document is not None,
        answer=answer,
    )


AMEND_VERSION = 2
AMEND = """\
Revise the draft by edits. Mend what the review names, worst first, and meet every criterion.
What earlier attempts did not mend needs another way than theirs; what they mended stays mended.
Leave everything else as it is, and keep facts, numbers, names, quotations and links unless
the review says they are wrong. {grounded}
Every edit replaces words of the draft. `search` is copied from the draft character for character,
white space and punctuation included, and long enough to occur in it exactly once; `replace` stands
there afterwards, and is empty to delete. All edits are applied to the draft as it is given; no two
may overlap. Locked text stays as it is: no edit touches it.
Answer with one JSON object and nothing else:
{{"edits": {{"first": {{"search": "...", "replace": "..."}}, "more": [...]}}}}"""


@value(slots=True)
class Amend(PromptRequest):
    """Revise a draft by search/replace edits of it."""

    revision: Revise

    def prompt(self) -> Prompt:
        schema = closed({"edits": at_least(("first",), closed({"search": TEXT, "replace": TEXT}))})
        words = AMEND.format(grounded=grounded(self.task, "the draft"))
        given = material(self.revision)
        return _written(self.task, "amend", AMEND_VERSION, words, *given, schema=schema)


PASSAGES_VERSION = 1
PASSAGES = """\
Revise only the marked passages of a draft. Do in them what the review says, and nothing that it
does not ask for. All that stands around them stays as it is: what you write takes the place of the
passage alone, so it must go on from what stands before it and lead to what stands after it, and
repeat neither. Keep facts, numbers, names, quotations and links unless the review says they are
wrong; locked text stays as it is. {grounded}
Answer with one JSON object and nothing else. It has the new text of each passage, without comment;
an empty text deletes the passage:
{{"passages": {{{form}}}}}"""
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
        return tuple(self.revision.draft[it.start : it.end] for it in self.spans)

    @property
    def marked(self) -> str:
        """All of them together."""
        return "".join(self.passages)

    def prompt(self) -> Prompt:
        task, said = self.task, self.revision
        names = [f"p{number}" for number in range(1, len(self.spans) + 1)]
        words = PASSAGES.format(
            grounded=grounded(task, "the draft"), form=", ".join(f'"{it}": "..."' for it in names)
        )
        marked = zip(names, self.spans, strict=True)
        given = [it for name, span in marked for it in self._at(name, span)]
        locked = [it for it in task.locked if any(it in passage for passage in self.passages)]
        return _written(
            task,
            "passages",
            PASSAGES_VERSION,
            words,
            *given,
            *[fenced(task, "locked text", it) for it in locked],
            fenced(task, "review", review(said)),
            schema=closed({"passages": each("p", len(names), TEXT)}),
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
        return [fenced(self.task, label, text) for label, text in shown]


DERIVE_VERSION = 3
DERIVE = """\
Write one further text from a finished one, such as its subject line or a summary. The order says
what the further text must be; the task says what the finished text was written for. {grounded}
Contradict nothing in the finished text, which stays as it is, and write in its language unless the
order asks for another one."""


@value(slots=True)
class Derive(PromptRequest):
    """Write a further text, as ordered, from a finished one."""

    draft: str
    order: str

    def prompt(self) -> Prompt:
        return assembled(
            self.task,
            "derive",
            DERIVE_VERSION,
            DERIVE.format(grounded=grounded(self.task, "the finished text")),
            fenced(self.task, "finished text", self.draft),
            fenced(self.task, "order", self.order),
            with_aim=False,
            answer="the further text",
        )


REASON_VERSION = 3
FORM = """Every step begins on a line of its own with its number, a full stop and a space: "1. ",
"2. ", "3. " and so on without a gap. No other line begins with a number and a full stop. A step
says one thing, and how it follows from those before it. The last step gives the answer."""
REASON = f"""\
Do what the task asks in numbered steps, and meet every criterion.
{FORM}
{{grounded}}"""


@value(slots=True)
class Reason(PromptRequest):
    """Write a first draft in numbered steps."""

    def prompt(self) -> Prompt:
        words = REASON.format(grounded=grounded(self.task))
        return _written(self.task, "reason", REASON_VERSION, words, answer="the steps")


REDO_VERSION = 3
REDO = f"""\
Go on with an argument in numbered steps, in its language. The steps that stay are right: build on
them and do not repeat them. Do the steps that follow anew. Mend what the review names; keep of the
old steps what is right.
{FORM}
{{grounded}}
Begin with step {{first}}."""


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
        stays = [fenced(task, "steps that stay", self.kept)] if self.kept.strip() else []
        words = REDO.format(grounded=grounded(task, "the steps that stay"), first=self.first)
        given = (*stays, fenced(task, "steps to do anew", self.rest))
        given = (*given, fenced(task, "review", review(said)))
        return _written(task, "redo", REDO_VERSION, words, *given, answer="the new steps alone")
