"""The words of a report for every status, stop reason, error code and other choice."""

from collections.abc import Mapping
from datetime import datetime

from app.contract.drafts import Escape
from app.contract.judgement import IssueState, Usage, Verdict
from app.contract.reviews import PausedOnTimeout, ReviewAction, ReviewWhen
from app.contract.status import Status

OF_A_LATER_RELEASE = "A later release of Hone added this, and this server cannot explain it."

STATUSES: Mapping[Status, str] = {
    Status.QUEUED: "It waits for a worker.",
    Status.RUNNING: "It is in progress: the report shows it so far.",
    Status.PAUSED: "It waits for a person and occupies no worker.",
    Status.CANCELING: "It is being canceled: the steps in progress are being stopped.",
    Status.SUCCEEDED: "It has ended.",
    Status.FAILED: "It could not continue.",
    Status.CANCELED: "It was canceled.",
}

ERRORS: Mapping[str, str] = {
    "budget_exhausted": "The rest of the budget was too small for this call and those in progress.",
    "content_filtered": "A content filter of the provider withheld the prompt or the reply.",
    "empty_answer": "A model repeatedly sent an empty reply to a verification question.",
    "empty_draft": "A model repeatedly sent an empty reply instead of a draft.",
    "empty_summary": "A model repeatedly sent an empty reply instead of a summary.",
    "empty_step": "A model repeatedly sent an empty reply instead of a step of the plan.",
    "empty_text": "A model repeatedly sent an empty reply instead of an additional text.",
    "finished_early": "An early finish was requested, and this step was not required for it.",
    "incompatible": "Its journal was written by another version of Hone, whose steps this one would"
    " not repeat; it did not continue, rather than mix the two.",
    "internal_error": "An internal error of this server; its log has the details.",
    "model_refused": "A model or its server refused the call; a retry would not have helped.",
    "model_unavailable": "A model was unreachable, or failed again after every retry.",
    "nothing_judged": "Its strategy ended, or a limit was reached, before any draft was judged.",
    "prompt_too_long": "The texts are longer than the model, or its server, accepts.",
    "poisoned": "It killed the process that worked on it, again and again.",
    "reply_overlong": "A text could not be edited, and is too long for its model to rewrite.",
    "reply_cut_off": "A model's reply was cut off by the limit on its length, also with more room.",
    "reply_refused": "A model refused to do what it was asked, as its server says.",
    "unknown_model": "The server has no model of that name, or not for this API key.",
    "unreadable_comparison": "A comparison of two drafts could not be parsed, even after retries.",
    "unreadable_criteria": "A critic's list of criteria could not be parsed.",
    "unreadable_critique": "A critic's verdict could not be parsed, even after retries; no verdict"
    " was invented instead.",
    "unreadable_draft": "A model repeatedly sent something else than one JSON object as a draft.",
    "unreadable_plan": "A model's plan could not be carried out.",
    "unreadable_reply": "A model's server sent a reply that could not be parsed.",
    "unreadable_outline": "The outline of the parts could not be parsed.",
    "unreadable_steps": "The numbered steps of a revision could not be parsed.",
    "unreadable_verification": "The questions or verdicts of a verification could not be parsed.",
    "unreadable_vote": "The vote on which answers agree could not be parsed.",
    "unusable_passages": "A model repeatedly sent no usable texts for the marked passages.",
    "unusable_edits": "The edits that a model made could not be applied to the draft.",
    "validator_unavailable": "A validator could not run, or its endpoint was unreachable.",
}
"""By the code of a failed step or of a refinement's `error`."""

UNKNOWN_ERROR = "It could not continue."

SCORES_FROM: Mapping[str, str] = {
    "critique": "the weighted mean of the criteria, as critics judged them",
    "validators": "the share of validators that pass, or the score of one",
    "agreement": "the share of samples with the same answer",
    "parts": "the lowest score of a part; the whole could not be judged",
    "review": "the score of a reviewer",
}

CAVEATS: Mapping[str, str] = {
    "stage_given_up": "**Given up.** A stage, pass or part was not finished.",
    "goal_not_met": "**Goal not met.**",
    "unverified": "**Not verified.** What the draft says was not proven right or wrong.",
    "validator_skipped": "**Not checked.** A validator did not run on the draft.",
    "text_missing": "**Missing.**",
    "item_dropped": "**Left out.** Something could not be used.",
    "lower_score": "**Lower score.** Another draft scored more.",
    "forgeable": "**Can be forged.** A hostile draft could have forged the verdict of its tests.",
    "summarized": "**By summaries.** The whole is too long for one prompt.",
}

ESCAPES: Mapping[Escape, str] = {
    "fresh_draft": "The drafts had stood still, so it was written anew from the same findings.",
    "temperature": "The drafts had stood still, so it was revised at a higher temperature.",
}

VERDICTS: Mapping[Verdict, str] = {
    "better": "The result is better than the draft it started from, in both orders.",
    "worse": "The result is worse than the draft it started from, in both orders.",
    "tie": "Neither the result nor the draft it started from is better.",
    "undecided": "Undecided: which of the two is better depended on their order.",
}

ACTIONS: Mapping[ReviewAction, str] = {
    "approve": "approved the draft",
    "reject": "rejected the draft",
    "revise": "asked for a revision",
    "replace": "replaced the draft",
    "rate": "rated the draft",
    "resume": "let it continue",
}

TIMEOUTS: Mapping[PausedOnTimeout, str] = {
    "approve": "the draft counts as approved",
    "reject": "the draft counts as rejected",
    "finish": "it ends with the best draft",
    "resume": "it continues",
}

WHENS: Mapping[ReviewWhen, str] = {
    "each_iteration": "after every judged draft",
    "before_completion": "once, before it ends",
}

ISSUES: Mapping[IssueState, str] = {
    IssueState.NEW: "new",
    IssueState.CARRIED: "carried",
    IssueState.RESOLVED: "resolved",
    IssueState.RETURNED: "returned",
}


LIMITS: Mapping[str, str] = {
    "threshold": "threshold",
    "max_iterations": "maximum drafts",
    "patience": "maximum drafts in a row without improvement",
    "confidence": "minimum probability that the threshold is truly met",
    "min_improvement": "minimum improvement",
    "max_similarity": "similarity that counts as stable",
    "tolerance": "tolerance below the best score",
    "escape": "one draft in another way before a standstill ends it",
    "max_seconds": "maximum seconds",
    "max_wait_seconds": "maximum seconds of waits for models",
    "max_tokens": "maximum tokens",
    "max_cost_usd": "maximum cost (USD)",
}

STEPS: Mapping[str, str] = {"ask": "model call", "check": "validation", "call": "tool call"}

PLANS: Mapping[str, str] = {"replan": "The revised plan", "lookups": "What is looked up"}
"""Names of replies, by the last part of the step's key; any other reply is a plan."""

COMPARED: Mapping[str, str] = {
    "earlier": "the earlier draft",
    "result": "the result",
    "tie": "neither",
}


def error_of(code: str) -> str:
    """Return the meaning of an error code; a code of a newer worker has a general one."""
    return ERRORS.get(code, UNKNOWN_ERROR)


NOT_MEASURED = "not measured"


def score(value: float | None) -> str:
    """Return two to four decimals, truncated: never rounded up to a threshold that was missed."""
    if value is None:
        return NOT_MEASURED
    whole, _, rest = f"{int(value * 10_000 + 1e-6) / 10_000:.4f}".partition(".")
    return f"{whole}.{rest.rstrip('0').ljust(2, '0')}"


def signed_score(value: float) -> str:
    """Return a difference of scores with its sign, and two to four decimals."""
    text = score(abs(value))
    return f"{'-' if value < 0 else '+'}{text}" if float(text) else text


def cost(usage: Usage) -> str:
    """Return the cost in US dollars."""
    return "unknown" if usage.cost_usd is None else f"{usage.cost_usd:.4f}"


def cost_text(usage: Usage) -> str:
    """Return the cost with its unit."""
    return "cost unknown" if usage.cost_usd is None else f"{cost(usage)} USD"


def tokens(usage: Usage) -> str:
    """Return the number of input and output tokens together."""
    return f"{usage.input_tokens + usage.output_tokens:,}"


def seconds(value: float) -> str:
    """Return seconds with one decimal."""
    return f"{value:,.1f}"


def duration(value: float) -> str:
    """Return whole days, hours or minutes, in the largest possible unit, else seconds."""
    for noun, unit in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if value % unit == 0:
            return count_text(int(value // unit), noun)
    return f"{value:g} s"


def share(value: float) -> str:
    """Return whole percent, truncated: a changed text is never 100 % untouched."""
    return f"{int(value * 100 + 1e-6)} %"


def time_text(value: datetime | None) -> str:
    """Return date and time to the second, in UTC; nothing for None."""
    return "" if value is None else f"{value:%Y-%m-%d %H:%M:%S} UTC"


def figure(value: object) -> str:
    """Return a setting: yes or no, a number, or none."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else f"{value:,}"


def count_text(number: int, noun: str) -> str:
    """Return a number with its noun, in singular or plural."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


FORMATS = (
    *(score, signed_score, cost, cost_text, tokens, seconds, duration, share, time_text),
    *(figure, count_text),
)
"""Functions that the template calls as filters."""
