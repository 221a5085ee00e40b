"""Strategies that ask for more than drafts and scores: for plans, facts, answers and steps."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal
from unicodedata import normalize

from pydantic import Field, field_validator

from app.contract.calls import Rates
from app.contract.errors import FieldConflict
from app.contract.models import ROLES, Role
from app.contract.regexes import PatternError, compiled
from app.contract.reviews import A_WEEK_S
from app.contract.strategies import LanguageNeed, Strategy
from app.contract.tools import Tool
from app.contract.values import value

LONGEST = 2_000
"""Characters at the end of a text in which its answer is looked for."""

MAX_MEMORY = 1 << 15
"""Bytes of a compiled pattern: with `LONGEST` it costs milliseconds at worst."""

QUOTES = "\"'`\u00ab\u00bb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2039\u203a"
MARKS = f" *,:;?\u00bf\u00a1{QUOTES}"
BEFORE = re.compile(rf"\A(?:[{MARKS}]|- )+")
AFTER = f"{MARKS}.\u3002\u3001"
MINUS = {"\u2212": "-", "\u2013": "-"}
THOUSANDS = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,]|\.\d*,)")
NUMBER = re.compile(r"([+-]?)([$\u20ac\u00a3\u00a5]?)(0|[1-9]\d*|)(?:\.(\d*))?( ?%)?")
IN_BRACKETS = re.compile(r"\(?([^\s()]+)\)|\[?([^\s\[\]]+)\]")
EXCLAIMED = re.compile(rf"(?<=[^\W\d_]{{2}})[!{AFTER}]+\Z")
"""After a word; after a number or a single letter it may be a factorial."""


@lru_cache(maxsize=64)
def compile_answer(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern, or raise `PatternError`. Of several matches it finds the last.

    The pattern is in RE2 syntax and has exactly one group, which matches the answer.
    """
    alone = compiled(pattern, MAX_MEMORY, captures=True)
    if alone.groups != 1:
        raise PatternError(f"the pattern must have exactly one group, got {alone.groups}")
    return compiled(f"(?s:.*)(?:{pattern})", MAX_MEMORY, captures=True)


def answer_in(text: str, pattern: str | None) -> str | None:
    """Return the answer in a text, or None; without a pattern it is the whole text."""
    if pattern is None:
        return text
    found = compile_answer(pattern).search(text[-LONGEST:])
    return None if found is None else found[1]


def normalized(answer: str) -> str:
    """Return the normal form of an answer, by which two answers are compared; it may be empty.

    Unicode NFKC, without case, without white space, quotation marks and punctuation around it, and
    without brackets around a single word. Numbers are plain: `1,000` is `1000`, and an answer that
    is a number (with or without a currency or percent sign) has no trailing zeros: `2.50` is `2.5`.
    """
    text = " ".join(normalize("NFKC", answer).casefold().split())
    for sign, minus in MINUS.items():
        text = text.replace(sign, minus)
    text = THOUSANDS.sub(lambda found: found[0].replace(",", ""), _unwrapped(text))
    return _plain(text)


def _unwrapped(text: str) -> str:
    before = None
    while text != before:
        before = text
        text = EXCLAIMED.sub("", BEFORE.sub("", text).rstrip(AFTER))
        if bracketed := IN_BRACKETS.fullmatch(text):
            text = bracketed[1] or bracketed[2]
    return text


def _plain(text: str) -> str:
    found = NUMBER.fullmatch(text)
    if not found or not (found[3] or found[4]):
        return text
    sign, money, whole, rest, percent = (part or "" for part in found.groups())
    rest = rest.rstrip("0")
    number = (whole or "0") + (f".{rest}" if rest else "")
    return ("-" if sign == "-" and number != "0" else "") + money + number + percent.strip()


STEP = re.compile(r"(?m)^(\d{1,4})\.[ \t]")
"""How a step begins: at the start of a line, with its number, a full stop and a space."""


class NotAChain(ValueError):
    """The steps do not count 1, 2, 3 ...; the message says where."""


@value(slots=True)
class Chain:
    """A text whose lines that begin with a number and a full stop count 1, 2, 3 ... in order.

    The text before step 1 is the preamble. `starts` holds the position of each step.
    """

    text: str
    starts: tuple[int, ...]

    def before(self, step: int) -> str:
        """Return the preamble and every step before this one, byte for byte."""
        return self.text[: self.starts[step - 1]]

    def ends(self, step: int) -> int:
        """Return the end of a step: the start of the next one, or the end of the text."""
        return self.starts[step] if step < len(self.starts) else len(self.text)

    def step_at(self, place: int) -> int:
        """Return the number of the step that starts at a position."""
        return self.starts.index(place) + 1


def chain_of(text: str) -> Chain:
    """Parse a text as a chain, or raise `NotAChain`."""
    return Chain(text, _starts(text, 1))


def steps_from(text: str, first: int) -> str:
    """Return the steps from `first` on, without the text before them, or raise `NotAChain`."""
    starts = (step.start() for step in STEP.finditer(text) if int(step[1]) == first)
    steps = text[next(starts, len(text)) :]
    _starts(steps, first)
    return steps


def _starts(text: str, first: int) -> tuple[int, ...]:
    found = list(STEP.finditer(text))
    if not found:
        raise NotAChain(f'no line begins with "{first}. ": number the steps')
    for number, step in enumerate(found, first):
        if int(step[1]) != number:
            raise NotAChain(f'a line begins with "{step[1]}. " where step {number} is expected')
    return tuple(step.start() for step in found)


if TYPE_CHECKING:
    from app.contract.requests import RefinementRequest


class PlanExecuteStrategy(Strategy):
    """Plan, carry out steps, observe, revise the plan, until the goal is met; then write.

    The task is the goal. A step is carried out by the model or by one of the request's `tools`,
    side by side with those that it does not need; the plan is revised when one failed, when
    something was learnt, before a call once anything was observed since it was planned, and when
    none remains. The verdict that the goal is met must quote the observations. The result is
    written from the observations, judged, and revised as in `iterative`. (Plan-and-Solve, arXiv
    2305.04091; ReAct, arXiv 2210.03629; replanning as in ADaPT, arXiv
    2311.05772.)
    """

    kind: Literal["plan_execute"]
    approval: Literal["before_call"] | None = Field(
        None,
        description="`before_call`: a reviewer is asked before a tool with `effects` is called."
        " Null: no one is asked.",
    )
    approval_timeout_s: float = Field(
        A_WEEK_S,
        gt=0,
        le=A_WEEK_S,
        description="Timeout of one approval in seconds; then the call is not made.",
    )
    max_steps: int = Field(8, ge=1, le=30, description="Maximum number of steps carried out.")
    revise: Literal["when_learnt", "each_step"] = Field(
        "when_learnt",
        description="When the plan is confirmed or revised. `when_learnt`: when a step failed, when"
        " something was learnt, and before a call once anything was observed since it was planned."
        " `each_step`: after each step, too; after steps side by side once.",
    )

    needs_language: ClassVar[LanguageNeed | None] = LanguageNeed(
        "plans and carries out steps", roles=("generator",)
    )
    judges_criteria: ClassVar[bool] = True
    uses_tools: ClassVar[bool] = True
    prepares: ClassVar[int] = 2  # the plan, and one step of it
    plan_steps: ClassVar[tuple[str, ...]] = ("plan", "replan")

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        planned = rates.ask * (2 * rates.turns(self.max_steps) + 1)
        return planned + rates.search(max_iterations, has_draft=draft is not None)

    def replies_in_prompt(self, draft: str | None) -> int:
        return self.max_steps + 1  # the observations, and the plan

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        if request.task is None:
            yield FieldConflict("/task", "`task` is required for plan_execute: it is the goal")
        if self.approval and not any(tool.effects for tool in request.tools):
            detail = "no tool of the request has `effects`: there is nothing to approve"
            yield FieldConflict("/strategy/approval", detail)

    def asks_before_calls(self) -> bool:
        return self.approval is not None


class ChainOfVerificationStrategy(Strategy):
    """Draft, ask about its facts, answer without seeing it, revise from the contradictions.

    Every draft is judged and verified; a draft that an answer contradicts does not pass. If the
    request has `tools`, questions may be looked up with them. (Factored Chain-of-Verification,
    arXiv 2309.11495; answers from tools as in CRITIC, arXiv 2305.11738.)
    """

    kind: Literal["chain_of_verification"]
    max_questions: int = Field(
        5, ge=1, le=12, description="Maximum number of questions about a draft."
    )
    look_up: bool = Field(
        True,
        description="Whether the request's `tools` without `effects` may answer questions: a critic"
        " picks a tool and its arguments for each of them, or none.",
    )

    needs_language: ClassVar[LanguageNeed | None] = LanguageNeed(
        "asks and answers questions about what a text says"
    )
    judges_criteria: ClassVar[bool] = True
    follows_feedback: ClassVar[bool] = True
    asks_critic: ClassVar[bool] = True
    uses_tools: ClassVar[bool] = True
    plan_steps: ClassVar[tuple[str, ...]] = ("lookups",)

    def may_call(self, tool: Tool) -> bool:
        return self.look_up and not tool.effects

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        asked = 2 + int(self.look_up and rates.has_look_ups) + rates.turns(self.max_questions)
        verified = rates.judge + rates.ask * asked
        return replace(rates, judge=verified).search(max_iterations, has_draft=draft is not None)

    def replies_in_prompt(self, draft: str | None) -> int:
        return self.max_questions + 1  # the answers, and the draft


class SelfConsistencyStrategy(Strategy):
    """Answer the task up to n times in parallel, and return the most frequent answer.

    No criteria are judged: the score is the share of samples that agree. (Self-consistency, arXiv
    2203.11171; `vote: "judge"` for prose, Universal Self-Consistency, arXiv 2311.17311.)
    """

    kind: Literal["self_consistency"]
    n: int = Field(5, ge=2, le=20, description="Maximum number of samples.")
    vote: Literal["exact", "judge"] = Field(
        "exact",
        description="`exact`: answers agree if they are equal after normalization; `judge`: if a"
        " critic decides that they mean the same.",
    )
    weigh: bool = Field(
        False,
        description="Whether a critic reads the reasoning behind each different answer and says how"
        " likely it is right: the answer with the highest number of samples times this wins.",
    )
    stop_early: bool = Field(
        True,
        description="Whether no more samples are drawn once they could change neither the answer"
        " nor whether it passes; with `vote: exact` and without `weigh`. False: all are drawn at"
        " once, which is faster.",
    )
    answer: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="RE2 pattern with one group that finds the answer in the last 2,000 characters"
        " of a sample; the last match counts. Without it the whole sample is the answer.",
    )

    @field_validator("answer")
    @classmethod
    def _answer_compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            compile_answer(pattern)
        return pattern

    needs_language: ClassVar[LanguageNeed | None] = LanguageNeed(
        "answers a task several times and compares the answers"
    )
    judges_criteria: ClassVar[bool] = False
    counts_scores: ClassVar[bool] = False

    def roles(self) -> tuple[Role, ...]:
        return ROLES if self.vote == "judge" or self.weigh else ("generator",)

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        return rates.ask * (self.n + (self.vote == "judge") + self.weigh)

    def replies_in_prompt(self, draft: str | None) -> int:
        return self.n

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        yield from self.refused_tools(request)  # they are named before the draft
        if request.draft is not None:
            yield FieldConflict(
                "/draft", "`draft` is not supported by self_consistency: give a `task` alone"
            )

    def drawn_at_least(self) -> int:
        return self.n

    def escalates(self, max_iterations: int) -> bool:
        return False


class ReasoningRevisionStrategy(Strategy):
    """Reason in numbered steps; find the first faulty one and redo it and the steps after it.

    The steps before it stay byte for byte. A chain with a faulty step does not pass. (Step-level
    correction, StepCo, arXiv 2410.12934; models correct an error once its location is given, arXiv
    2311.08516.)
    """

    kind: Literal["reasoning_revision"]
    calculator: bool = Field(
        True,
        description="Whether the equations in the steps, such as `9 / 12 = 0.75`, are calculated: a"
        " step with a wrong one is faulty, whatever the critic says.",
    )

    needs_language: ClassVar[LanguageNeed | None] = LanguageNeed(
        "reasons in steps and finds the faulty one"
    )
    judges_criteria: ClassVar[bool] = True
    asks_critic: ClassVar[bool] = True

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        redone = replace(rates, revise=rates.ask, judge=rates.judge + rates.ask)
        return redone.search(max_iterations, has_draft=draft is not None)

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        yield from self.refused_tools(request)  # they are named before the draft
        if request.draft is not None:
            try:
                chain_of(request.draft)
            except NotAChain as error:
                yield FieldConflict(
                    "/draft", f"`draft` must be numbered steps for reasoning_revision: {error}"
                )
