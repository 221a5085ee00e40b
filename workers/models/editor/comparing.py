"""The editor as judge of two texts: the one with the higher total of what it can measure."""

import json
from collections.abc import Sequence

from app.contract.judgement import Critique
from app.contract.requests import Criterion
from workers.engine.verdicts import total
from workers.models.editor.critic import judged

SAME = 1e-6


def preference(a: str, b: str, criteria: Sequence[Criterion]) -> str | None:
    """Return which text measures better, as JSON; None when not both can be measured on the same.

    A criterion that can be measured on one of them alone counts for neither.
    """
    verdicts = [judged(a, criteria), judged(b, criteria)]
    measured = set.intersection(*(_measured(it) for it in verdicts))
    common = [it for it in criteria if it.name in measured]
    scores = [total([s for s in it.scores if s.criterion in measured], common) for it in verdicts]
    if scores[0] is None or scores[1] is None:
        return None
    gain = scores[0] - scores[1]
    better = "tie" if abs(gain) <= SAME else "A" if gain > 0 else "B"
    reason = (
        f"A measures {scores[0]:g} and B {scores[1]:g} on {', '.join(it.name for it in common)}."
    )
    return json.dumps({"reason": reason, "better": better})


def _measured(verdict: Critique) -> set[str]:
    return {it.criterion for it in verdict.scores if it.score is not None}
