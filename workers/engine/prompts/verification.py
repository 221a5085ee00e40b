"""Verification questions about what a draft states (Chain-of-Verification, arXiv:2309.11495)."""

from dataclasses import field

from app.contract.values import value
from workers.engine.prompt_requests import IN_WORDS, Prompt, PromptRequest
from workers.engine.prompts import (
    SCORES,
    TEXT,
    VERDICT,
    assembled,
    closed,
    described,
    each,
    fenced,
    listed,
)

QUESTIONS_VERSION = 3
QUESTIONS = """\
You ask the questions by which the statements of fact in a draft are verified. You did
not write it. Take the statements that matter most and are likeliest to be wrong: numbers, dates,
names, causes, conditions, what is promised. For each of them copy the claim, word for word as it
stands in the draft, and ask one question whose answer confirms or refutes it.
Whoever answers has never seen the draft and must not learn from the question what it says. So name
what the question is about, never speak of a draft or a text, and ask openly: "How many days do
customers have?", not "Do customers have 30 days?".
Opinions, advice and wording need no question. Ask at least one question.
Answer with one JSON object and nothing else:
{"questions": [{"claim": "<words of the draft>", "question": "<open question>"}]}"""

QUESTIONS_SCHEMA = listed("questions", closed({"claim": TEXT, "question": TEXT}))


@value(slots=True)
class Question(PromptRequest):
    """Ask at most `most` open questions about what a draft states."""

    draft: str
    most: int

    def prompt(self) -> Prompt:
        return assembled(
            self.task,
            "questions",
            QUESTIONS_VERSION,
            QUESTIONS,
            fenced(self.task, "draft", self.draft),
            f"Ask at most {self.most}, the most important first.",
            role="critic",
            schema=QUESTIONS_SCHEMA,
            temperature=VERDICT,
        )


LOOKUPS_VERSION = 1
LOOKUPS = """\
You decide which questions of fact are looked up, and how. Each question is answered afterwards by
somebody who sees the task, the documents and, if you ask for it, the result of one call of a tool.
Ask for a call where a tool can settle the question and the documents do not. Its arguments are what
the parameters of the tool ask for. They hold what the question, the task or the documents say, and
nothing that is guessed: where an argument is not known, nothing is looked up.
Give every question, q1 for question 1, the name of a tool and the arguments, written as the text of
a JSON object; null and null where nothing is looked up. Answer with one JSON object and nothing
else:
{"lookups": {"q1": {"tool": "<name>", "arguments": "<JSON object>"},
  "q2": {"tool": null, "arguments": null}}}"""

_LOOKED_UP = closed(
    {"tool": {"type": ["string", "null"]}, "arguments": {"type": ["string", "null"]}}
)


@value(slots=True)
class LookUp(PromptRequest):
    """Say which tool is called, with which arguments, before each question is answered."""

    questions: tuple[str, ...]

    def prompt(self) -> Prompt:
        questions = (
            fenced(self.task, f"question {number}", asked)
            for number, asked in enumerate(self.questions, 1)
        )
        return assembled(
            self.task,
            "lookups",
            LOOKUPS_VERSION,
            LOOKUPS,
            *(described(self.task, tool) for tool in self.task.tools),
            *questions,
            role="critic",
            schema=closed({"lookups": each("q", len(self.questions), _LOOKED_UP)}),
            temperature=VERDICT,
            with_aim=False,
        )


ANSWER_VERSION = 3
ANSWER = """\
You answer one question of fact. Answer from {sources} where
they say it, else from what you know for certain. Answer in one to three sentences with the fact
itself. If you do not know for certain, answer with this one English word: unknown"""


@value(slots=True)
class Answer(PromptRequest):
    """Answer one question without seeing the draft it is about."""

    question: str
    call: str = ""
    """What was called to answer it: the tool and its arguments."""
    found: str = ""
    """The result of that call."""

    def prompt(self) -> Prompt:
        found, sources = list[str](), "the task and the documents"
        if self.call:
            found = [fenced(self.task, "looked up", f"{self.call}\n\n{self.found}")]
            sources = "the task, the documents and what was looked up"
        return assembled(
            self.task,
            "answer",
            ANSWER_VERSION,
            ANSWER.format(sources=sources),
            *found,
            fenced(self.task, "question", self.question),
            role="critic",
            temperature=VERDICT,
            with_aim=False,
        )


CONTRADICTIONS_VERSION = 2
CONTRADICTIONS = """\
You compare a draft with answers given by somebody who has not seen it. Report every
statement of the draft that an answer contradicts: both cannot be true. An answer that says less, or
more, or the same in other words contradicts nothing; nor does one that is unsure. Where a
document settles the matter, it is right, whatever draft and answer say.
For each contradiction copy the claim word for word as it stands in the draft, say what
contradicts what, and how the draft is to be mended. Every answer has a list, a1 for answer 1, which
is empty when the answer contradicts nothing. Answer with one JSON object and nothing else:
{"answers": {"a1": [{"claim": "<words of the draft>",
  "contradiction": "<what contradicts what>", "fix": "<what to write instead>"}], "a2": []}}"""

_CONTRADICTIONS: dict[str, object] = {
    "type": "array",
    "items": closed({"claim": TEXT, "contradiction": TEXT, "fix": TEXT}),
}


@value(slots=True)
class Contradict(PromptRequest):
    """Say where a draft and independent answers (question, answer) contradict each other."""

    draft: str
    answered: tuple[tuple[str, str], ...]

    def prompt(self) -> Prompt:
        answers = [
            fenced(self.task, f"answer {number}", f"{asked}\n\n{answer}")
            for number, (asked, answer) in enumerate(self.answered, 1)
        ]
        return assembled(
            self.task,
            "contradictions",
            CONTRADICTIONS_VERSION,
            CONTRADICTIONS,
            fenced(self.task, "draft", self.draft),
            *answers,
            role="critic",
            schema=closed({"answers": each("a", len(self.answered), _CONTRADICTIONS)}),
            temperature=VERDICT,
        )


STEPS_VERSION = 3
STEPS = """\
You check an argument in numbered steps that you did not write. Go through it step by
step, from the first. Work each one out for yourself from the task, the documents and the
steps before it, then compare. A step is faulty when it states something false, calculates wrongly,
does not follow from what stands before it, or leaves the task behind. Wording, length and an
unusual way are no faults. What a calculator says of an equation is exact; whether it is the right
equation is for you to say.
Say of each step in a sentence why it holds or what is wrong with it, and whether it is correct.
What follows from a faulty step is not correct either: one word why is enough then.
Answer with one JSON object and nothing else, with a verdict on every step, s1 for step 1:
{"steps": {"s1": {"why": "<why it holds, or what is wrong>", "correct": true}}}"""

_CHECKED = closed({"why": TEXT, "correct": {"type": "boolean"}})


@value(slots=True)
class CheckSteps(PromptRequest):
    """Say of each numbered step whether it is correct."""

    draft: str
    count: int = field(default=0, metadata={IN_WORDS: True})
    """The number of its steps."""
    calculated: str = field(default="", metadata={IN_WORDS: True})
    """What a calculator says of the equations in the steps, a line each."""

    def prompt(self) -> Prompt:
        known = [fenced(self.task, "calculator", self.calculated)] if self.calculated else []
        return assembled(
            self.task,
            "steps",
            STEPS_VERSION,
            STEPS,
            fenced(self.task, "steps", self.draft),
            *known,
            role="critic",
            schema=closed({"steps": each("s", self.count, _CHECKED)}),
            temperature=VERDICT,
            with_aim=False,
        )


VOTE_VERSION = 2
VOTE = """\
You are given several answers to one task, written independently of each other. Put
those into one group that give the same answer: whoever acts on one would act the same on the other.
How it is worded, how long it is and how it was reasoned makes no difference; another result,
another decision or a contradicting fact does. Do not judge which answer is right.
Give every answer the number of its group, a1 for answer 1: answers that are the same have the same
number, and an answer that no other shares has a number of its own.
Answer with one JSON object and nothing else: {"groups": {"a1": 1, "a2": 2, "a3": 1}}"""


@value(slots=True)
class Vote(PromptRequest):
    """Say which of several answers to a task are the same."""

    answers: tuple[str, ...]

    def prompt(self) -> Prompt:
        count = len(self.answers)
        group: dict[str, object] = {"type": "integer", "enum": list(range(1, count + 1))}
        answers = (
            fenced(self.task, f"answer {number}", text)
            for number, text in enumerate(self.answers, 1)
        )
        return assembled(
            self.task,
            "vote",
            VOTE_VERSION,
            VOTE,
            *answers,
            role="critic",
            schema=closed({"groups": each("a", count, group)}),
            temperature=VERDICT,
            with_aim=False,
        )


WEIGH_VERSION = 1
WEIGH = """\
You are given different answers to one task, each with the reasoning that led to it. At
most one of them is right. Check each reasoning from its beginning: what the task says, each
calculation, each conclusion. Do not trust how sure it sounds, how long it is, or its place in the
order. Then say of each answer how likely it is right, as a score from 0 (certainly wrong) to 1
(certainly right): `why` first, in one sentence that names the fault or what you have verified.
Answer with one JSON object and nothing else:
{"a1": {"why": "<one sentence>", "score": 0.9}, "a2": {"why": "<one sentence>", "score": 0.1}}"""


@value(slots=True)
class Weigh(PromptRequest):
    """Say how likely each of several different answers is right, from the reasoning behind it."""

    answers: tuple[str, ...]
    reasoning: tuple[str, ...]
    """What was thought before each answer; empty where that is not known."""

    def prompt(self) -> Prompt:
        verdict = closed({"why": TEXT, "score": {"type": "number", "enum": SCORES}})
        shown = (
            block
            for number, (answer, why) in enumerate(
                zip(self.answers, self.reasoning, strict=True), 1
            )
            for block in (
                fenced(self.task, f"answer {number}", answer),
                *([fenced(self.task, f"reasoning {number}", why)] if why else ()),
            )
        )
        return assembled(
            self.task,
            "weigh",
            WEIGH_VERSION,
            WEIGH,
            *shown,
            role="critic",
            schema=each("a", len(self.answers), verdict),
            temperature=VERDICT,
            with_aim=False,
        )
