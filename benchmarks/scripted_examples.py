"""Examples of strategies that only a language model can play: a script plays it, by step key."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.contract.judgement import Usage
from workers.endpoints import EndpointUnavailable
from workers.models.port import ModelCall, ModelReply


@dataclass(frozen=True)
class ScriptedExample:
    """A request, what the models say to each step, and what the tools answer."""

    request: Mapping[str, Any]
    says: Mapping[str, str]
    tool: Callable[[Mapping[str, Any]], str] | None = None

    async def complete(self, call: ModelCall) -> ModelReply:
        """Say what the script has for the step; KeyError when it has nothing."""
        return ModelReply(self.says[call.key], call.model, Usage(calls=1))

    async def post(self, url: str, body: bytes, key: str, timeout_s: float) -> bytes:
        """Answer as the tool does. Raises `EndpointUnavailable` when it has nothing."""
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

SCRIPTED: Mapping[str, ScriptedExample] = {"plan_execute": PLANNED}
