"""The pages on events, on errors and on how a refinement ends, from the contract."""

from collections.abc import Iterator
from inspect import cleandoc, getdoc

from app.api.openapi import KINDS, promise_of
from app.contract import Contract
from app.contract.events import DATA_OF, DELTA, StepDelta
from app.contract.status import ENDED_BY, MOVES
from app.service.report.wording import ERRORS
from documentation.schemas import Schema, cell, fields_of

OBJECTS = "objects.md"

FIXES = {
    "budget_exhausted": "Raise `stop.max_cost_usd` or `stop.max_tokens` with the retry.",
    "content_filtered": "Change the task or the draft, or use another provider.",
    "empty_answer": "Retry, or let another model answer.",
    "empty_draft": "Retry; if it stays so, another generator, or `fallbacks`.",
    "empty_step": "Retry; if it stays so, another generator, or `fallbacks`.",
    "empty_summary": "Retry; if it stays so, another generator, or `fallbacks`.",
    "empty_text": "Retry; if it stays so, another generator, or `fallbacks`.",
    "finished_early": "Nothing: you asked for it.",
    "incompatible": "Submit it again, or run a worker of the release that began it.",
    "internal_error": "Retry; if it fails again, report it with what the worker's log says.",
    "model_refused": "`detail` quotes the provider: [connect a model](../providers/index.md).",
    "model_unavailable": "Look at `GET /v1/models` and the provider's status, then retry.",
    "nothing_judged": "Retry with larger limits; `detail` says what it waited for.",
    "prompt_too_long": "Shorten the context, use `nested`, or a model that takes more.",
    "poisoned": "Report it: `detail` says what was seen. The same request would do it again.",
    "reply_overlong": "Use the strategy `nested`, or a model with longer replies.",
    "reply_cut_off": "Use `edits`, the strategy `nested`, or a model with longer replies.",
    "reply_refused": "Change the task or the draft, or use another model.",
    "unknown_model": "Submit it with a model that `GET /v1/models` lists.",
    "unreadable_comparison": "Retry, or use another critic.",
    "unreadable_criteria": "Name the criteria yourself, or use another critic.",
    "unreadable_critique": "Use another critic: this one does not keep to the format.",
    "unreadable_draft": "Use another generator, or a plain text instead of JSON.",
    "unreadable_outline": "Name the `parts` yourself, or use another generator.",
    "unreadable_plan": "Retry, or use another generator.",
    "unreadable_reply": "Not a compatible server: [connect a model](../providers/index.md).",
    "unreadable_steps": "Retry, or use another generator.",
    "unreadable_verification": "Retry, or use another critic.",
    "unreadable_vote": "Retry, or use another critic.",
    "unusable_edits": 'Set `edits` to `"full"`, or use another generator.',
    "unusable_passages": "Mark whole sentences, or use another generator.",
    "validator_unavailable": "Look after the endpoint, or set `on_fail` to `warn`.",
}
"""What to do about each code of a failed refinement or step."""


def events() -> str:
    """Return the page of all events."""
    lines = ["# Events", "", EVENTS, ""]
    for kind, data in DATA_OF.items():
        lines += [f"## `{kind}`", ""]
        if kind.is_terminal:
            lines += [
                f"The last event. Its data is the final [snapshot]({OBJECTS}#snapshot), whole.",
                "",
            ]
        else:
            lines += _data(data)
    lines += [f"## `{DELTA}`", "", "Only in a stream with `?deltas=true`, without a number.", ""]
    return "\n".join([*lines, *_data(StepDelta)])


def _data(data: type[Contract]) -> Iterator[str]:
    schema: Schema = data.model_json_schema()
    yield from (cleandoc(getdoc(data) or ""), "", *fields_of(schema, OBJECTS))


def endings() -> str:
    """Return the page of statuses, stop reasons and failures."""
    lines = ["# Statuses, stop reasons and failures", "", INTRODUCTION, "", "## Statuses", ""]
    lines += ["| status | can become |", "|---|---|"]
    for status, moves in MOVES.items():
        after = ", ".join(f"`{it}`" for it in sorted(moves)) or "nothing: it has ended"
        lines.append(f"| `{status}` | {after} |")
    lines += ["", "## Stop reasons", "", "| `stop_reason` | |", "|---|---|"]
    lines += [f"| `{reason}` | {cell(meaning)} |" for reason, meaning in ENDED_BY.items()]
    lines += ["", "## Failures", "", FAILURES, "", "| code | cause | what to do |", "|---|---|---|"]
    lines += [f"| `{code}` | {cell(why)} | {FIXES.get(code, '')} |" for code, why in ERRORS.items()]
    return "\n".join([*lines, ""])


def errors() -> str:
    """Return the page of all errors of requests: the cause of each, and what to do."""
    lines = ["# Errors", "", PROBLEMS, ""]
    for kind in KINDS:
        lines += [f"## {kind.status} `{kind.code}`", "", promise_of(kind), "", kind.fix, ""]
    return "\n".join(lines)


PROBLEMS = (
    "Every error is `application/problem+json` (RFC 9457). Its `code` is stable, `detail` says what"
    " is wrong with this request, and `errors` points into its body. `type` leads to this page on"
    " the server itself: `/docs/errors#not_found`."
)
EVENTS = (
    "The journal of a refinement, numbered from 1 without gaps. `GET /v1/refinements/{id}/events`"
    " streams it as [server-sent events](../watching.md), or has it in pages. Each event has"
    " `event` (its number), `type`, `at` and `data`; below is the `data` of each type."
)
INTRODUCTION = (
    "The words of a [snapshot](objects.md#snapshot). What they mean for `passed` and `result` is in"
    " [how a refinement ends](../endings.md); the errors of requests are in"
    " [errors](errors.md)."
)
FAILURES = (
    "`error.code` of a refinement that failed, and `code` of `step.failed`. The best draft that was"
    " judged is in `result`. `POST /v1/refinements/{id}/retry` goes on without paying again for"
    " what was recorded."
)
