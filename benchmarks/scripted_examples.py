"""Examples of strategies that need a language model: a script replies instead, by step key."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.contract.endpoints import Endpoint
from app.contract.judgement import Usage
from workers.models.port import ModelCall, ModelReply
from workers.outbound.guarded_client import EndpointUnavailable


@dataclass(frozen=True)
class ScriptedExample:
    """A request, the model's reply to each step, and the answers of the tools."""

    request: Mapping[str, Any]
    says: Mapping[str, str]
    tool: Callable[[Mapping[str, Any]], str] | None = None

    async def complete(self, call: ModelCall) -> ModelReply:
        """Return the script's reply to the step. Raises `KeyError` without one."""
        return ModelReply(self.says[call.key], call.model, Usage(calls=1))

    async def post(self, endpoint: Endpoint, body: bytes, key: str, tenant: str = "") -> bytes:
        """Return the tool's answer. Raises `EndpointUnavailable` without one."""
        assert self.tool is not None
        try:
            return self.tool(json.loads(body)["arguments"]).encode()
        except LookupError:
            raise EndpointUnavailable("tools.example.com answered 404: no such order") from None


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
        "steps/2/replan": _revision(_step("Work out the date from policy.md.")),
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
