"""Examples for the OpenAPI document; a test validates each of them against its contract."""

from typing import Any

from app.store.redis.codec import links

Example = dict[str, Any]

REFINEMENT_ID = "ref_01JD3Y3V3G5ZC1Q6E0M8W2R9TB"
WEBHOOK_ID = "msg_01JD3Y3V3G5ZC1Q6E0M8W2R9TB_11"
BATCH_ID = "batch_01JD3Y3V3G5ZC1Q6E0M8W2R9TB"
ENDPOINT_ID = "ep_5f0c1b2a3d4e5f6071829304"
SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

REQUESTS: dict[str, Example] = {
    "improve a draft": {
        "task": "Explain our refund policy to a customer in under 120 words.",
        "draft": "In the event that you are desirous of a refund, it is possible to obtain one.",
        "validators": [{"kind": "length", "max_words": 120}],
        "metadata": {"ticket": "4711"},
    },
    "with a preset": {"preset": "support-mail", "task": "Explain our refund policy."},
    "have the result sent": {
        "draft": "In the event that you are desirous of a refund, it is possible to obtain one.",
        "webhook": {
            "url": "https://example.com/hook",
            "events": ["refinement.completed", "refinement.failed"],
            "headers": {"Authorization": "Bearer 4711"},
        },
    },
    "judge a draft": {
        "draft": "Refunds take 14 days.",
        "criteria": [{"name": "conciseness", "description": "No word too many.", "floor": 0.8}],
        "strategy": {"kind": "critique"},
    },
    "judge with a panel and a checklist": {
        "task": "Explain our refund policy to a customer in under 120 words.",
        "draft": "Refunds take 14 days.",
        "criteria": "auto",
        "critics": {
            "samples": 3,
            "panel": [
                {"name": "customer", "perspective": "A customer who is annoyed already."},
                {"name": "devil", "model": "anthropic:claude-sonnet-5", "adversarial": True},
            ],
        },
        "strategy": {"kind": "critique"},
        "models": {"critic": {"model": "openai:gpt-5-mini", "temperature": 1}},
    },
    "plan with a tool": {
        "task": "Answer the customer: when will the refund for order 4711 arrive?",
        "strategy": {"kind": "plan_execute", "max_steps": 6},
        "tools": [
            {
                "name": "find_order",
                "description": "Returns one order as JSON: payments, and refunds with their dates.",
                "url": "https://tools.example.com/orders",
                "parameters": {
                    "type": "object",
                    "required": ["order"],
                    "properties": {"order": {"type": "integer"}},
                },
            }
        ],
        "models": {"generator": "openai:gpt-5-mini", "critic": "openai:gpt-5-mini"},
    },
    "choose the models": {
        "task": "Explain our refund policy to a customer in under 120 words.",
        "context": [{"name": "policy.md", "text": "Refunds within 14 days, to the same card."}],
        "criteria": [
            {"name": "accuracy", "description": "Only what policy.md says.", "weight": 2},
            {"name": "tone", "description": "Warm, plain, no jargon.", "floor": 0.6},
        ],
        "threshold": 0.9,
        "max_iterations": 5,
        "stop": {"max_tokens": 200_000},
        "models": {
            "generator": "openai:gpt-5-mini",
            "critic": {
                "model": "anthropic:claude-sonnet-5",
                "temperature": 0,
                "max_output_tokens": 2_000,
                "fallbacks": ["openai:gpt-5-mini"],
            },
        },
    },
    "select the generator automatically": {
        "task": "Explain our refund policy to a customer in under 120 words.",
        "models": {
            "select": "auto",
            "candidates": ["openai:gpt-5-mini", "openai:gpt-6-luna", "anthropic:claude-haiku-4-5"],
            "critic": "anthropic:claude-sonnet-5",
        },
    },
}

CHANGES: dict[str, Example] = {
    "lower the threshold": {"threshold": 0.7},
    "allow more iterations and time": {"max_iterations": 10, "max_seconds": 1_800},
}

REVIEWS: dict[str, Example] = {
    "approve": {"action": "approve"},
    "reject": {"action": "reject", "feedback": "We do not send this kind of letter."},
    "revise": {"action": "revise", "feedback": "Say first that nothing has to be paid back."},
    "revise one passage": {
        "action": "revise",
        "feedback": "Name the day on which the 14 days begin.",
        "spans": [{"quote": "within 14 days"}],
    },
    "replace": {"action": "replace", "draft": "Refunds take 14 days. Nothing else changes."},
    "rate": {"action": "rate", "score": 0.4, "path": "iterations/2/review"},
    "resume": {"action": "resume", "path": "pauses/7"},
    "one of several": {"action": "approve", "reviewer": "ann"},
}

PAUSES: dict[str, Example] = {
    "for a week at most": {},
    "for an hour": {"timeout_s": 3_600, "on_timeout": "resume"},
}

RATINGS: dict[str, Example] = {
    "a score": {"path": "iterations/2", "score": 0.8, "by": "Ann", "note": "Still a bit stiff."},
    "a preference": {"path": "iterations/1", "better_than": "iterations/3"},
}

PROVIDER_KEYS: dict[str, Example] = {"a key of OpenAI": {"api_key": "sk-proj-4711"}}

PRESET_NAME = "support-mail"
PRESETS: dict[str, Example] = {
    PRESET_NAME: {
        "criteria": [
            {"name": "accuracy", "description": "Only what policy.md says.", "weight": 2},
            {"name": "tone", "description": "Warm, plain, no jargon.", "floor": 0.6},
        ],
        "instructions": {"generator": "Write to one person, and sign as the support team."},
        "models": {"generator": "openai:gpt-5-mini", "critic": "anthropic:claude-sonnet-5"},
        "stop": {"max_cost_usd": 0.05},
    }
}

RETRIES: dict[str, Example] = {
    "as it was": {},
    "with a larger budget": {"max_cost_usd": 0.5, "max_seconds": 1_800},
}

CONTINUATIONS: dict[str, Example] = {
    "with more iterations": {"max_iterations": 10},
    "with other criteria": {
        "criteria": [{"name": "tone", "description": "Warm, plain, no jargon."}],
    },
    "with feedback about one passage": {
        "feedback": "Name the day on which the 14 days begin.",
        "spans": [{"quote": "within 14 days"}],
    },
    "with a reviewer": {"threshold": 0.95, "review": {"when": "before_completion"}},
}

ENDPOINTS: dict[str, Example] = {"one that is called": {"url": "https://example.com/hook"}}

LINKS = links(REFINEMENT_ID).model_dump()

SNAPSHOT: Example = {
    "id": REFINEMENT_ID,
    "status": "running",
    "outcome": None,
    "reason": None,
    "stop_reason": None,
    "strategy": "iterative",
    "phase": ["iterations/2/critique"],
    "iteration": 2,
    "max_iterations": 3,
    "threshold": 0.85,
    "best": {"iteration": 1, "path": "iterations/1", "score": 0.71, "sha256": SHA256},
    "scores": [
        {"iteration": 0, "path": "iterations/0", "score": 0.55},
        {"iteration": 1, "path": "iterations/1", "score": 0.71},
    ],
    "usage": {
        "calls": 3,
        "input_tokens": 2120,
        "output_tokens": 830,
        "cost_usd": 0.0062,
        "seconds": 9.2,
    },
    "result": None,
    "error": None,
    "review": None,
    "parent": None,
    "batch": None,
    "custom_id": None,
    "submitted_by": None,
    "created_at": "2025-11-21T09:30:00.000Z",
    "started_at": "2025-11-21T09:30:00.012Z",
    "ended_at": None,
    "expires_at": None,
    "last_event": 9,
    "metadata": {"ticket": "4711"},
    "links": LINKS,
}

INSIGHTS: Example = {
    "since": "2025-08-24",
    "data": [
        {
            "by": "strategy",
            "value": "iterative",
            "refinements": 214,
            "cases": 214,
            "gain": {"mean": 0.1312, "low": 0.1104, "high": 0.152},
            "change": {"mean": 0.1312, "low": 0.1104, "high": 0.152},
            "kept": 0.864,
            "mean_usage": {"calls": 5.2, "tokens": 6920.4, "cost_usd": 0.0119, "seconds": 21.7},
        },
        {
            "by": "step",
            "value": "revision",
            "refinements": 203,
            "cases": 391,
            "gain": {"mean": 0.0718, "low": 0.0603, "high": 0.0833},
            "change": {"mean": 0.0537, "low": 0.0409, "high": 0.0665},
            "kept": 0.726,
            "mean_usage": {"calls": 2.0, "tokens": 2734.8, "cost_usd": 0.0046, "seconds": 8.9},
        },
    ],
}

_NOT_PASSED: Example = {
    "refinements": 4,
    "calls": 31,
    "input_tokens": 42_810,
    "output_tokens": 15_022,
    "cached_tokens": 9_600,
    "cost_usd": 0.0407,
    "unpriced_calls": 0,
}
_USED: Example = {
    "refinements": 61,
    "calls": 298,
    "input_tokens": 402_771,
    "output_tokens": 139_405,
    "cached_tokens": 96_000,
    "cost_usd": 0.3794,
    "unpriced_calls": 0,
    "not_passed": _NOT_PASSED,
}
USAGE: Example = {
    "from": "2025-11-21",
    "to": "2025-11-21",
    "as_of": "2025-11-21T09:30:12.417Z",
    "data": [{"group": {"day": "2025-11-21", "model": "openai:gpt-5-mini"}, **_USED}],
    "total": _USED,
}

USAGE_CSV = (
    "day,model,refinements,calls,input_tokens,output_tokens,cached_tokens,cost_usd,unpriced_calls,"
    "not_passed_refinements,not_passed_calls,not_passed_input_tokens,not_passed_output_tokens,"
    "not_passed_cached_tokens,not_passed_cost_usd,not_passed_unpriced_calls\r\n"
    "2025-11-21,openai:gpt-5-mini,61,298,402771,139405,96000,0.379400000,0,"
    "4,31,42810,15022,9600,0.040700000,0\r\n"
)

EVENT: Example = {
    "event": 2,
    "type": "refinement.started",
    "at": "2025-11-21T09:30:00.012Z",
    "data": {"token": 1},
}

EVENT_PAGE: Example = {"data": [EVENT], "has_more": True, "next_after": 2}

REPORT = f"""# Refinement `{REFINEMENT_ID}`

**Passed.** The score is 0.91; the threshold is 0.85.
"""

KEYS: dict[str, Example] = {
    "for a service": {"name": "mail service", "scopes": ["submit", "read"]},
    "for a tenant": {"tenant": "acme", "expires_at": "2031-01-01T00:00:00Z"},
}

ROTATIONS: dict[str, Example] = {
    "at once": {"overlap_s": 0},
    "within a week": {"overlap_s": 604_800},
}

TOKENS: dict[str, Example] = {"for five minutes": {"expires_in_s": 300}}

QUOTAS: dict[str, Example] = {
    "for a customer": {"requests_per_minute": 600, "in_flight": 50, "models": ["openai:*"]},
    "none": {},
}

BATCH = """\
{"batch": {"defaults": {"threshold": 0.9}, "metadata": {"campaign": "spring"}}}
{"custom_id": "mail-1", "request": {"draft": "In the event that you are desirous of it, ask."}}
{"custom_id": "mail-2", "request": {"draft": "At this point in time we are open."}}
"""
