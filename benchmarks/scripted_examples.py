"""Examples of strategies that need a language model: a script replies instead, by step key."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.contract.endpoints import Endpoint
from app.contract.judgement import Usage
from workers.models.port import ModelCall, ModelReply
from workers.outbound.guarded_client import EndpointClient, EndpointUnavailable
from workers.validators.running import ServerResources
from workers.validators.sandbox import Interpreter, Sandbox, SandboxRun


@dataclass(frozen=True)
class ScriptedExample(EndpointClient):
    """A request, the model's reply to each step, and the answers of tools and endpoints."""

    request: Mapping[str, Any]
    says: Mapping[str, str]
    tool: Callable[[Mapping[str, Any]], str] | None = None
    words: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """What reviewers say, one after the other, by the key of the review; the last word decides."""

    async def complete(self, call: ModelCall) -> ModelReply:
        """Return the script's reply to the step. Raises `KeyError` without one."""
        return ModelReply(self.says[call.key], call.model, Usage(calls=1))

    async def post(self, endpoint: Endpoint, body: bytes, key: str, tenant: str = "") -> bytes:
        """Return the answer of a tool.

        Raises `EndpointUnavailable` where the tool has no answer.
        """
        assert self.tool is not None
        try:
            return self.tool(json.loads(body)["arguments"]).encode()
        except LookupError:
            raise EndpointUnavailable("tools.example.com answered 404: no such order") from None

    @property
    def resources(self) -> ServerResources:
        """What answers its tools, and runs its drafts."""
        return ServerResources(TrustingSandbox(), self)


class TrustingSandbox(Sandbox):
    """Calls a function of a script's drafts in this process: nobody else wrote them."""

    def __init__(self) -> None:
        super().__init__(Interpreter.own())

    async def run(
        self, program: str, draft: str, given: Mapping[str, Any], timeout_s: int
    ) -> SandboxRun:
        """Return what the function answers to each input."""
        defined: dict[str, Any] = {}
        exec(draft, defined)  # a script's own text
        function = defined[given["function"]]
        return SandboxRun([_answer(function, it) for it in given["inputs"]])


def _answer(function: Callable[..., Any], arguments: Sequence[Any]) -> dict[str, Any]:
    try:
        answer = {"returned": function(*arguments)}
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the draft
        answer = {"raised": [type(error).__name__], "error": repr(error)}
    return {"status": 0, "answer": json.dumps(answer), "errors": ""}


def _verdict(score: float, criterion: str = "quality") -> str:
    return json.dumps({"scores": [{"criterion": criterion, "score": score, "reason": "..."}]})


def _step(instruction: str, order: int | None = None) -> dict[str, Any]:
    is_call = order is not None
    return {
        "name": "",
        "instruction": instruction,
        "tool": "find_order" if is_call else None,
        "arguments": {"order": order} if is_call else None,
    }


def _revision(*steps: dict[str, Any], quote: str | None = None, step: int = 1) -> str:
    evidence = [] if quote is None else [{"step": step, "quote": quote}]
    return json.dumps(
        {"goal_met": {"met": quote is not None, "evidence": evidence}, "steps": steps}
    )


PLANNED = ScriptedExample(
    request={
        "task": "Answer the customer: when will the refund for order 4711 arrive?",
        "strategy": {"kind": "plan_execute", "max_steps": 6},
        "tools": [
            {
                "name": "find_order",
                "description": "Returns one order: what was refunded, and when.",
                "url": "https://tools.example.com/orders",
                "parameters": {"required": ["order"], "properties": {"order": {"type": "integer"}}},
            }
        ],
        "context": [
            {"name": "policy.md", "text": "A refund takes 14 days from the day it is sent."}
        ],
    },
    says={
        "plan": json.dumps(
            {"steps": [_step("Find the order.", 471), _step("Work out the date from policy.md.")]}
        ),
        "steps/1/replan": _revision(
            _step("Find it by its whole number.", 4711), _step("Work out the date from policy.md.")
        ),
        "steps/3/do": "Sent on 2 March and 14 days on its way: it arrives by 16 March.",
        "steps/3/replan": _revision(quote="by 16 March", step=3),
        "iterations/1/draft": "Your refund is on its way.",
        "iterations/1/critique": _verdict(0.6),
        "iterations/2/revise": "Your refund was sent on 2 March and arrives by 16 March.",
        "iterations/2/critique": _verdict(0.9),
    },
    tool=lambda arguments: {4711: "Order 4711: refunded, sent on 2 March."}[arguments["order"]],
)

VERIFIED = ScriptedExample(
    request={
        "task": "How long does a refund take? Answer from policy.md.",
        "strategy": {"kind": "chain_of_verification"},
        "context": [
            {"name": "policy.md", "text": "A refund takes 14 days from the day it is sent."}
        ],
    },
    says={
        "iterations/1/draft": "A refund takes 30 days.",
        "iterations/1/critique": _verdict(0.9),
        "iterations/1/verify/questions": json.dumps(
            {"questions": [{"claim": "takes 30 days", "question": "How long does it take?"}]}
        ),
        "iterations/1/verify/answers/1": "14 days.",
        "iterations/1/verify/contradictions": json.dumps(
            {
                "contradictions": [
                    {
                        "claim": "takes 30 days",
                        "answer": 1,
                        "contradiction": "It takes 14 days.",
                        "fix": "Write 14 days.",
                    }
                ]
            }
        ),
        "iterations/2/revise": "A refund takes 14 days.",
        "iterations/2/critique": _verdict(0.9),
        "iterations/2/verify/questions": json.dumps(
            {"questions": [{"claim": "takes 14 days", "question": "How long does it take?"}]}
        ),
        "iterations/2/verify/answers/1": "14 days.",
        "iterations/2/verify/contradictions": json.dumps({"contradictions": []}),
    },
)

AGREED = ScriptedExample(
    request={
        "task": "A parcel of 12 weighs 9 kg. What do 7 of them weigh? End with `Answer: <kg>`.",
        "strategy": {"kind": "self_consistency", "n": 3, "answer": r"Answer: ([\d.]+)"},
        "threshold": 0.6,
    },
    says={
        "iterations/1/draft": "One weighs 0.75 kg, seven 5.25 kg. <answer>Answer: 5.25</answer>",
        "iterations/2/draft": "7 of 12 is about a half. <answer>Answer: 4.5</answer>",
        "iterations/3/draft": "9 / 12 x 7 = 5.25 <answer>Answer: 5.25</answer>",
    },
)

KEPT_STEPS = "1. One weighs 9 / 12 = 0.75 kg.\n2. Seven weigh 7 x 0.75 = 5.25 kg.\n"


def _all_correct(count: int) -> str:
    steps = {
        f"s{number}": {"why": "It follows.", "correct": True} for number in range(1, count + 1)
    }
    return json.dumps({"steps": steps})


REASONED = ScriptedExample(
    request={
        "task": "A parcel of 12 weighs 9 kg, and a kilogram costs 2.40 euros to send. What does it"
        " cost to send 7 of them and a letter of 1.10 euros? Reason step by step.",
        "strategy": {"kind": "reasoning_revision"},
    },
    says={
        "iterations/1/draft": f"{KEPT_STEPS}3. They cost 5.25 x 2.40 = 13.60 euros.\n"
        "4. With the letter it is 13.60 + 1.10 = 14.70 euros.",
        "iterations/1/critique": _verdict(0.7),
        "iterations/1/verify": _all_correct(4),  # the critic does not see it; the calculator does
        "iterations/2/revise": "3. They cost 5.25 x 2.40 = 12.60 euros.\n"
        "4. With the letter it is 12.60 + 1.10 = 13.70 euros.",
        "iterations/2/critique": _verdict(0.9),
        "iterations/2/verify": _all_correct(4),
    },
)

SCRIPTED: Mapping[str, ScriptedExample] = {
    "chain_of_verification": VERIFIED,
    "self_consistency": AGREED,
    "reasoning_revision": REASONED,
    "plan_execute": PLANNED,
}


REPORT = ScriptedExample(
    request={
        "task": "A report on our returns for the owner of the shop.",
        "strategy": {
            "kind": "nested",
            "parts": [
                {"name": "figures", "instructions": "How many come back.", "threshold": 0.95},
                {"name": "reasons", "instructions": "Why they come back.", "threshold": 0.7},
            ],
        },
        "outputs": [
            {"name": "title", "instructions": "A title for the report."},
            {"name": "summary", "instructions": "The report in one sentence."},
        ],
        "context": [{"name": "returns.md", "text": "12 of 400 came back, 9 of them broken."}],
    },
    says={
        "parts/figures/iterations/1/draft": "Some come back.",
        "parts/figures/iterations/1/critique": _verdict(0.8),
        "parts/figures/iterations/2/revise": "12 of 400 parcels came back.",
        "parts/figures/iterations/2/critique": _verdict(0.97),
        "parts/reasons/iterations/1/draft": "9 of the 12 were broken.",
        "parts/reasons/iterations/1/critique": _verdict(0.75),
        "iterations/1/critique": _verdict(0.9),
        "outputs/title": "Three in a hundred come back",
        "outputs/summary": "12 of 400 parcels came back, 9 of them broken.",
    },
)

DAWN = " ".join(f"The harbour woke, and boat {number} came home." for number in range(1, 41))

STORY = ScriptedExample(
    request={
        "task": "A story for children about a day in a harbour, in at most five short chapters.",
        "strategy": {"kind": "nested", "parts": "auto", "order": "sequence", "max_parts": 5},
    },
    says={
        "outline": "1. Dawn: the boats come home.\n2. Noon: a dog is lost.\n3. Dusk: it is found.",
        "parts/part-1/iterations/1/draft": "It was dawn.",
        "parts/part-1/iterations/1/critique": _verdict(0.6),
        "parts/part-1/iterations/2/revise": DAWN,
        "parts/part-1/iterations/2/critique": _verdict(0.9),
        "parts/part-1/summary": "At dawn all boats come home.",
        "parts/part-2/iterations/1/draft": "At noon Pim the dog was gone.",
        "parts/part-2/iterations/1/critique": _verdict(0.9),
        "parts/part-3/iterations/1/draft": "At dusk Pim slept in a boat.",
        "parts/part-3/iterations/1/critique": _verdict(0.9),
        "iterations/1/critique": _verdict(0.9),
    },
)

LISTED = "- the buyer\n\n- the seller\n\n      # as of today"


def contract(sections: int, *revised: int) -> ScriptedExample:
    """Return a contract in so many sections, of which these are revised."""
    numbers = range(1, sections + 1)
    draft = "# Contract\n\n"
    says = {"iterations/0/critique": _verdict(0.7), "iterations/1/critique": _verdict(0.9)}
    for number in numbers:
        text = "Somebody pays, some day." if number in revised else LISTED
        draft += f"## {number}. Clause\n\n{text}" + "\n" * (1 + number % 3)
        at = f"parts/section-{number}/iterations"
        says[f"{at}/0/critique"] = _verdict(0.5 if number in revised else 0.95)
        says[f"{at}/1/revise"] = f"## {number}. Clause\n\nThe buyer pays within 14 days."
        says[f"{at}/1/critique"] = _verdict(0.9)
    return ScriptedExample({"draft": draft, "strategy": {"kind": "nested"}}, says)


TURNOVER = "SELECT name, sum(total) FROM customers JOIN orders ON customer = customers.id"

QUERY = ScriptedExample(
    request={
        "task": "One SQLite query for the turnover of each customer, the highest first. Canceled"
        " orders do not count.",
        "strategy": {"kind": "self_correction"},
        "validators": [
            {
                "kind": "sql",
                "dialect": "sqlite",
                "tables": {
                    "customers": ["id", "name"],
                    "orders": ["id", "customer", "total", "canceled"],
                },
                "rows": {
                    "customers": [[1, "Ada"], [2, "Ben"]],
                    "orders": [[1, 1, 12.5, 0], [2, 1, 3, 0], [3, 2, 40, 1], [4, 2, 9, 0]],
                },
                "expected_rows": [["Ada", 15.5], ["Ben", 9]],
                "in_order": True,
            }
        ],
    },
    says={
        "iterations/1/draft": f"{TURNOVER.replace('total', 'amount')} GROUP BY name",
        "iterations/2/revise": f"{TURNOVER} GROUP BY name ORDER BY sum(total) DESC",
        "iterations/3/revise": f"{TURNOVER} WHERE NOT canceled GROUP BY name"
        " ORDER BY sum(total) DESC",
    },
)

VISIBLE = ({"input": [20], "expected": 85}, {"input": [21], "expected": 100})
HIDDEN = (
    {"input": [1], "expected": 85},
    {"input": [500], "expected": 160},
    {"input": [1000], "expected": 275},
    {"input": [0], "raises": "ValueError"},
    {"input": [1001], "raises": "ValueError"},
)


def postage(comparison: str, refused: str) -> str:
    """Return a function as a model writes it."""
    return f"""\
```python
PRICES = {{20: 85, 50: 100, 500: 160, 1_000: 275}}


def postage(grams):
{refused}    return next(price for most, price in PRICES.items() if grams {comparison} most)
```"""


FUNCTION = ScriptedExample(
    request={
        "task": "A Python function `postage(grams)`: the price of a letter in cents. Up to 20 g it"
        " is 85, up to 50 g 100, up to 500 g 160, up to 1,000 g 275. Other weights are a"
        " ValueError.",
        "strategy": {"kind": "self_correction"},
        "validators": [
            {"kind": "python_cases", "function": "postage", "cases": VISIBLE},
            {
                "kind": "python_cases",
                "function": "postage",
                "visible": False,
                "cases": HIDDEN,
                "score": {"as": "decides", "name": "hidden cases"},
            },
        ],
    },
    says={
        "iterations/1/draft": postage("<", ""),
        "iterations/2/revise": postage("<=", ""),
        "iterations/3/revise": postage(
            "<=", "    if not 0 < grams <= 1_000:\n        raise ValueError(grams)\n"
        ),
    },
)

LATE = "The carrier had lost your parcel, so it came a week late."
OFFERED = f"{LATE} We pay you 10 euros back."

LETTER = ScriptedExample(
    request={
        "task": "Answer the complaint about order 4711: why was it late?",
        "strategy": {"kind": "iterative"},
        "context": [
            {
                "name": "order.md",
                "text": "Order 4711: promised for 2 March, lost by the carrier, delivered on 9"
                " March. We pay 10 euros back.",
            }
        ],
        "review": {
            "when": "before_completion",
            "reviewers": ["ann", "bob"],
            "timeout_s": 172_800,
            "on_timeout": "reject",
        },
        "webhook": {
            "url": "https://letters.example.com/publish",
            "events": ["refinement.completed"],
        },
    },
    says={
        "iterations/1/draft": LATE,
        "iterations/1/critique": _verdict(0.9),
        "reviews/1/iterations/1/revise": OFFERED,
        "reviews/1/iterations/1/critique": _verdict(0.95),
    },
    words={
        "reviews/1": (
            {"action": "approve", "reviewer": "ann"},
            {"action": "revise", "reviewer": "bob", "feedback": "Say what we offer."},
        ),
        "reviews/2": (
            {"action": "approve", "reviewer": "bob"},
            {"action": "approve", "reviewer": "ann"},
        ),
    },
)


def _called(name: str, tool: str, *needs: str, **arguments: Any) -> dict[str, Any]:
    said = {"name": name, "instruction": f"Find out: {name}." if not needs else name, "tool": tool}
    return {**said, "arguments": json.dumps(arguments), "needs": needs}


def _place(name: str) -> dict[str, Any]:
    return _called(f"the {name}", "find_table", place=name)


PLACES = {
    "harbour": "The harbour: a table for 8, 24 euros a guest.",
    "garden": "The garden: a table for 12 on Friday, 31 euros a guest.",
}


def find_or_book_table(arguments: Mapping[str, Any]) -> str:
    """Answer for a place what is free there, or that it is booked."""
    if arguments["place"] not in PLACES:
        raise EndpointUnavailable("tools.example.com answered 404: the mill is closed on Fridays")
    if "seats" in arguments:
        return f"Booked: {arguments['seats']} seats on Friday at 7 pm, number 553."
    return PLACES[arguments["place"]]


BOOKING = _called(
    "Book the garden for 12, the only table that is large enough.",
    "book_table",
    "the garden",
    place="garden",
    seats=12,
)
TABLE = {"place": {"type": "string"}}

DINNER = ScriptedExample(
    request={
        "task": "Dinner for 12 on Friday at the harbour, the garden or the mill: book the table"
        " that fits, and write the team where we eat.",
        "strategy": {"kind": "plan_execute", "approval": "before_call"},
        "tools": [
            {
                "name": "find_table",
                "description": "Returns the tables that are free at a place on Friday.",
                "url": "https://tools.example.com/tables",
                "parameters": {"required": ["place"], "properties": TABLE},
            },
            {
                "name": "book_table",
                "description": "Books a table for Friday; returns the number of the booking.",
                "url": "https://tools.example.com/bookings",
                "effects": True,
                "parameters": {
                    "required": ["place", "seats"],
                    "properties": {**TABLE, "seats": {"type": "integer"}},
                },
            },
        ],
    },
    says={
        "plan": json.dumps({"steps": [_place("harbour"), _place("garden"), _place("mill")]}),
        "steps/3/replan": _revision({**BOOKING, "needs": ["the garden"]}),
        "steps/4/replan": _revision(),
        "iterations/1/draft": "Friday is not booked yet. The garden has a table for 12, at 31 euros"
        " a guest; that was too expensive. The harbour seats 8, the mill is closed.",
        "iterations/1/critique": _verdict(0.9),
    },
    tool=find_or_book_table,
    words={
        "steps/4/approval": (
            {"action": "reject", "feedback": "Too expensive: at most 25 euros a guest."},
        )
    },
)

BOOKED = {
    "steps/4/replan": _revision(quote="number 553", step=4),
    "iterations/1/draft": "We eat in the garden on Friday at 7 pm, 12 seats, booking 553.",
}
"""What the model says instead if the call is approved."""

COMPOSED: Mapping[str, ScriptedExample] = {
    "a report on topics": REPORT,
    "a story in chapters": STORY,
    "SQL that returns the rows expected": QUERY,
    "a function and its hidden cases": FUNCTION,
    "a booking that is refused": DINNER,
    "a contract of 60 sections": contract(60, 17, 42),
    "a letter that two people approve": LETTER,
}
"""What strategies make of each other, by a name."""
