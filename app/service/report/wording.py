"""What statuses, stop reasons, error codes and the like mean, in words: every one of them."""

from collections.abc import Mapping
from datetime import datetime

from app.contract.judgement import CriterionScore, IssueState, Usage, Verdict
from app.contract.reviews import OnTimeout, ReviewAction, ReviewWhen
from app.contract.status import Status, StopReason
from app.service.report.markdown import NOTHING, plain

STATUSES: Mapping[Status, str] = {
    Status.QUEUED: "It waits for a worker.",
    Status.RUNNING: "It is being worked on: what follows is how far it has come.",
    Status.PAUSED: "It waits for a person's word and holds no worker meanwhile.",
    Status.CANCELING: "It is being canceled: what was under way is being stopped.",
    Status.SUCCEEDED: "It has ended.",
    Status.FAILED: "It could not go on.",
    Status.CANCELED: "It was canceled.",
}

STOP_REASONS: Mapping[StopReason, str] = {
    StopReason.THRESHOLD_MET: "A draft was good enough: it reached the threshold and broke no rule"
    " that may stop one.",
    StopReason.VALIDATORS_PASSED: "A draft passed every validator.",
    StopReason.COMPLETED: "The strategy did all it had set out to do.",
    StopReason.INCOMPLETE: "It ended, and parts of it failed for good: they are missing.",
    StopReason.MAX_ITERATIONS: "As many drafts were written as `max_iterations` allows, and none of"
    " them was good enough.",
    StopReason.PLATEAU: "Revising brought no improvement any more, for as many drafts in a row as"
    " `patience` says.",
    StopReason.STABLE: "A revision was nearly the same text as the draft before it.",
    StopReason.OSCILLATING: "A revision came back to a text that had been judged before.",
    StopReason.BUDGET_EXHAUSTED: "The budget of tokens or dollars was used up, or too little was"
    " left of it for another call.",
    StopReason.DEADLINE: "The time it was given was over.",
    StopReason.FINISHED_EARLY: "Somebody asked it to finish with the best draft so far.",
    StopReason.APPROVED: "A reviewer approved the draft.",
    StopReason.REJECTED: "A reviewer rejected the draft: the best one so far is kept, and counts as"
    " not passed.",
    StopReason.CANCELED: "Work has stopped; what was judged until then is kept.",
    StopReason.ERROR: "An error ended it.",
}

ERRORS: Mapping[str, str] = {
    "budget_exhausted": "What was left of the budget did not allow this call beside the others.",
    "empty_answer": "A model kept answering a verification question with nothing.",
    "empty_draft": "A model kept answering with nothing where a draft was asked for.",
    "empty_step": "A model kept answering with nothing where a step of the plan was asked for.",
    "empty_text": "A model kept answering with nothing where a further text was asked for.",
    "finished_early": "A finish was asked for, and this step could be done without.",
    "internal_error": "An error in this server; its log says more.",
    "model_refused": "A model's server refused the call; sending it again would not have helped.",
    "model_unavailable": "A model could not be reached, or kept failing after every retry.",
    "nothing_judged": "Budget or time were over before any draft had been judged.",
    "poisoned": "Several workers in a row were lost while they worked on it.",
    "unreadable_comparison": "The comparison of two drafts could not be read, asked again or not.",
    "unreadable_criteria": "The list of criteria that a critic made could not be read.",
    "unreadable_critique": "A critic's verdict could not be read, asked again or not; none was"
    " invented in its place.",
    "unreadable_plan": "The plan that a model made could not be carried out.",
    "unreadable_reply": "A model's server answered with something that could not be read.",
    "unreadable_steps": "The numbered steps of a revision could not be read.",
    "unreadable_verification": "The questions or verdicts of a verification could not be read.",
    "unreadable_vote": "The vote on which answers agree could not be read.",
    "unusable_edits": "The edits that a model made could not be applied to the draft.",
    "validator_unavailable": "A validator could not be run or reached.",
}
"""By the code of a failed step or of a refinement's `error`."""

UNKNOWN_ERROR = "It could not go on."

SCORES_FROM: Mapping[str, str] = {
    "critique": "the weighted mean of the criteria, as critics judged them",
    "validators": "the share of validators that pass",
    "agreement": "the share of samples that give the same answer",
    "parts": "the score of the weakest part; the whole could not be judged any more",
    "review": "a reviewer's own judgement",
}

VERDICTS: Mapping[Verdict, str] = {
    "better": "The result is better than the draft it started from, whichever stands first.",
    "worse": "The result is worse than the draft it started from, whichever stands first.",
    "tie": "Neither the result nor the draft it started from is better.",
    "undecided": "Which of the two is better depended on which stood first: it is undecided.",
}

ACTIONS: Mapping[ReviewAction, str] = {
    "approve": "approved the draft",
    "reject": "rejected the draft",
    "revise": "asked for a revision",
    "replace": "gave a text in its place",
    "rate": "rated the draft",
}

TIMEOUTS: Mapping[OnTimeout, str] = {
    "approve": "the draft counts as approved",
    "reject": "the draft counts as rejected",
    "finish": "it ends with the best draft",
}

WHENS: Mapping[ReviewWhen, str] = {
    "each_iteration": "after every draft that was judged",
    "before_completion": "once, before it ends",
}

ISSUES: Mapping[IssueState, str] = {
    IssueState.NEW: "new",
    IssueState.CARRIED: "still there",
    IssueState.RESOLVED: "resolved",
    IssueState.RETURNED: "back again",
}


def reason_of(stop_reason: StopReason | None) -> str:
    """Return why it ended; empty while it has not."""
    return "" if stop_reason is None else STOP_REASONS[stop_reason]


def error_of(code: str) -> str:
    """Return what an error means; one that only a newer worker knows has words all the same."""
    return ERRORS.get(code, UNKNOWN_ERROR)


NOT_MEASURED = "not measured"


def score(value: float | None) -> str:
    """Two to four decimals, cut off: never rounded up to a threshold that was missed."""
    if value is None:
        return NOT_MEASURED
    whole, _, rest = f"{int(value * 10_000 + 1e-6) / 10_000:.4f}".partition(".")
    return f"{whole}.{rest.rstrip('0').ljust(2, '0')}"


def criterion(found: CriterionScore) -> str:
    """Name and score, and the spread where there were several opinions."""
    spread = f" (spread {score(found.spread)})" if found.spread is not None else ""
    return f"{plain(found.criterion)} {score(found.score)}{spread}"


def cost(usage: Usage) -> str:
    """US dollars."""
    return "unknown" if usage.cost_usd is None else f"{usage.cost_usd:.4f}"


def tokens(usage: Usage) -> str:
    """Input and output together."""
    return f"{usage.input_tokens + usage.output_tokens:,}"


def seconds(value: float) -> str:
    """One decimal."""
    return f"{value:,.1f}"


def duration(value: float) -> str:
    """The largest of days, hours, minutes and seconds that counts it whole."""
    for noun, unit in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if value % unit == 0:
            return counted(int(value // unit), noun)
    return f"{value:g} s"


def share(value: float) -> str:
    """Whole percent, cut off: what was touched is never called untouched."""
    return f"{int(value * 100 + 1e-6)} %"


def moment(value: datetime | None) -> str:
    """Date and time to the second, in UTC."""
    return NOTHING if value is None else f"{value:%Y-%m-%d %H:%M:%S} UTC"


def answer(value: bool | None) -> str:
    """Yes, no, or a dash while nobody knows."""
    return NOTHING if value is None else "yes" if value else "no"


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural where it has one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
