"""First drafts, revisions and further texts."""

from dataclasses import dataclass, field

from app.contract.judgement import Critique, Finding
from workers.engine.prompt_requests import IN_WORDS, Prompt, PromptRequest
from workers.engine.prompts import DATA_RULE, TEXT, at_least, closed, described, documents, fenced

WORDS = {IN_WORDS: True}

WRITE_VERSION = 1
WRITE_SYSTEM = f"""\
You write one text that does what the task asks and meets every criterion.
Use only facts from the task and the context documents; where a fact is missing, do without it.
Answer with the text alone: no preamble, no comment, no code fence around it.
{DATA_RULE}"""


@dataclass(frozen=True, slots=True)
class Write(PromptRequest):
    """Write a first draft."""

    def prompt(self) -> Prompt:
        return Prompt("write", WRITE_VERSION, WRITE_SYSTEM, "\n\n".join(described(self.task)))


REVISE_VERSION = 3
REVISE_SYSTEM = f"""\
You revise a draft. Mend what the review names, worst first, and meet every criterion.
What earlier attempts did not mend needs another way than theirs; what they mended stays mended.
Keep what is good, and keep facts, numbers, names, quotations and links as they are unless the
review says they are wrong; locked text stays as it is. Use only facts from the draft, the task and
the context documents.
Answer with the whole revised text alone: no preamble, no comment, no code fence around it.
{DATA_RULE}"""


@dataclass(frozen=True, slots=True)
class Revise(PromptRequest):
    """Revise a draft: fix what failed, and keep what is good."""

    draft: str
    failing: tuple[str, ...] = field(metadata=WORDS)
    critique: Critique
    findings: tuple[Finding, ...]
    mended: tuple[str, ...] = field(default=(), metadata=WORDS)
    """Issues that earlier revisions resolved, and that this one must not bring back."""

    def prompt(self) -> Prompt:
        return Prompt("revise", REVISE_VERSION, REVISE_SYSTEM, material(self))


def material(prompt_request: Revise) -> str:
    """Return what a reviser works on: task, draft, its locked texts, and the review."""
    locked = [it for it in prompt_request.task.locked if it in prompt_request.draft]
    parts = [
        *described(prompt_request.task),
        fenced("Draft", prompt_request.draft),
        *[fenced("Locked text, to be kept character for character", it) for it in locked],
        fenced("Review", review(prompt_request)),
    ]
    return "\n\n".join(parts)


def review(prompt_request: Revise) -> str:
    """Return the feedback as text: what failed first, then what to keep."""
    critique = prompt_request.critique
    sections = [
        ("Must be mended", prompt_request.failing),
        ("Weaknesses", critique.weaknesses),
        ("Suggestions", critique.suggestions),
        ("Mended by earlier revisions, and not to be undone", prompt_request.mended),
        ("Keep", critique.strengths),
    ]
    return "\n\n".join(
        f"{title}:\n" + "\n".join(f"- {line}" for line in lines)
        for title, lines in sections
        if lines
    )


AMEND_VERSION = 2
AMEND_SYSTEM = f"""\
You revise a draft by edits. Mend what the review names, worst first, and meet every
criterion. What earlier attempts did not mend needs another way than theirs; what they mended stays
mended. Leave everything else as it is, and keep facts, numbers, names, quotations and links unless
the review says they are wrong. Use only facts from the draft, the task and the context documents.
Every edit replaces words of the draft. `search` is copied from the draft character for character,
white space and punctuation included, and long enough to occur in it exactly once; `replace` stands
there afterwards, and is empty to delete. All edits are applied to the draft as it is given; no two
may overlap. Locked text stays as it is: no edit touches it.
Answer with one JSON object and nothing else:
{{"edits": {{"first": {{"search": "...", "replace": "..."}}, "more": [...]}}}}
{DATA_RULE}"""


@dataclass(frozen=True, slots=True)
class Amend(PromptRequest):
    """Revise a draft by search/replace edits of it."""

    revision: Revise

    def prompt(self) -> Prompt:
        edit = closed({"search": TEXT, "replace": TEXT})
        schema = closed({"edits": at_least(("first",), edit)})
        return Prompt("amend", AMEND_VERSION, AMEND_SYSTEM, material(self.revision), schema)


DERIVE_VERSION = 1
DERIVE_SYSTEM = f"""\
You write one further text from a finished one, such as its subject line or a summary.
The order says what the further text must be; the task says what the finished text was written for.
Use only facts from the finished text, the task and the context documents, and contradict none of
them. The finished text stays as it is.
Answer with the further text alone: no preamble, no comment, no code fence around it.
{DATA_RULE}
The order too says what is to be achieved."""


@dataclass(frozen=True, slots=True)
class Derive(PromptRequest):
    """Write a further text, as ordered, from a finished one."""

    draft: str
    order: str

    def prompt(self) -> Prompt:
        task = self.task
        given = [fenced("Task", task.instruction)] if task.instruction else []
        texts = [fenced("Finished text", self.draft), fenced("Order", self.order)]
        return Prompt(
            "derive", DERIVE_VERSION, DERIVE_SYSTEM, "\n\n".join([*given, *documents(task), *texts])
        )


REASON_VERSION = 1
FORM = """Every step begins on a line of its own with its number, a full stop and a space: "1. ",
"2. ", "3. " and so on without a gap. No other line begins with a number and a full stop. A step
says one thing, and how it follows from those before it. The last step gives the answer."""
REASON_SYSTEM = f"""\
You do what the task asks in numbered steps, and meet every criterion.
{FORM}
Use only facts from the task and the context documents; where a fact is missing, say so in a step.
Answer with the steps alone: no comment, no code fence around them.
{DATA_RULE}"""


@dataclass(frozen=True, slots=True)
class Reason(PromptRequest):
    """Write a first draft in numbered steps."""

    def prompt(self) -> Prompt:
        return Prompt("reason", REASON_VERSION, REASON_SYSTEM, "\n\n".join(described(self.task)))


REDO_VERSION = 1
REDO_SYSTEM = f"""\
You go on with an argument in numbered steps. The steps that stay are right: build on
them and do not repeat them. Do the steps that follow anew. Mend what the review names; keep of the
old steps what is right.
{FORM}
Begin with the number you are told, and count on from there.
Use only facts from the task, the context documents and the steps that stay.
Answer with the new steps alone: no comment, no code fence around them.
{DATA_RULE}"""


@dataclass(frozen=True, slots=True)
class Redo(PromptRequest):
    """Redo the steps from number `first` on; the `kept` text before them stays."""

    kept: str
    rest: str
    first: int
    failing: tuple[str, ...] = field(metadata=WORDS)
    critique: Critique

    def prompt(self) -> Prompt:
        critique = self.critique
        review = [*self.failing, *critique.weaknesses, *critique.suggestions]
        stays = [fenced("Steps that stay", self.kept)] if self.kept.strip() else []
        parts = [
            *described(self.task),
            *stays,
            fenced("Steps to do anew", self.rest),
            fenced("Review", "\n".join(f"- {line}" for line in review)),
            f"Begin with step {self.first}.",
        ]
        return Prompt("redo", REDO_VERSION, REDO_SYSTEM, "\n\n".join(parts))
