"""Whether the result is better than what there was at the beginning, asked in both orders."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.contract.comparisons import Comparison, Order, Side, Verdict
from workers.engine.asking import ask, question
from workers.engine.briefs import Compare, Task
from workers.engine.inner import informed
from workers.engine.moves import Judged, Move, Play, StepFailed, Stop, relayed
from workers.engine.reading import Said, read_as
from workers.engine.search import Outcome
from workers.engine.steps import surviving

UNREADABLE = "unreadable_comparison"


class _Preference(Said):
    reason: str
    better: Literal["A", "B", "tie"]


@dataclass(frozen=True, slots=True)
class Earlier:
    """The draft that a result is compared with."""

    path: str
    text: str


async def compared(task: Task, strategy: Play[Outcome]) -> Outcome:
    """Play a strategy and compare what it came to with the client's draft.

    Without one it is compared with the first draft that the outermost search judged. The same text
    is a tie. When it cannot be asked, or no answer can be read, there is no comparison.
    """
    seen = [Earlier("iterations/0", task.draft)] if task.draft is not None else []
    outcome = await relayed(strategy, _noting(seen))
    result = outcome.best.scored.draft.text
    earlier = seen[0] if seen else Earlier(outcome.best.path, result)
    task = informed(task, outcome.observed)
    return replace(outcome, comparison=await _comparison(task, earlier, result))


async def _comparison(task: Task, earlier: Earlier, result: str) -> Comparison | None:
    if earlier.text == result:
        return Comparison(against=earlier.path, verdict="tie", orders=())
    parts = (
        _asked(task, "compare/1", "earlier", earlier.text, result),
        _asked(task, "compare/2", "result", result, earlier.text),
    )
    try:
        one, other = await surviving("compare", parts)
    except (Stop, StepFailed):
        return None
    if one is None or other is None:
        return None
    return Comparison(against=earlier.path, verdict=_verdict(one, other), orders=(one, other))


def _noting(seen: list[Earlier]) -> Callable[[Move[Any]], Move[Any]]:
    """Return a relay that takes down the first draft judged in the outermost search."""

    def outward(move: Move[Any]) -> Move[Any]:
        if isinstance(move, Judged) and not seen and move.path == move.judgement.path:
            seen.append(Earlier(move.path, move.judgement.scored.draft.text))
        return move

    return outward


async def _asked(task: Task, path: str, first: Side, a: str, b: str) -> Order:
    """Ask which of two texts is better; who asks knows which is which, who answers does not."""
    asked = question(path, "critic", Compare(task, a, b))
    said = await ask(asked, lambda reply: read_as(_Preference, reply), UNREADABLE)
    second: Side = "result" if first == "earlier" else "earlier"
    sides: dict[str, Side | Literal["tie"]] = {"A": first, "B": second, "tie": "tie"}
    return Order(first=first, better=sides[said.better], reason=said.reason)


def _verdict(one: Order, other: Order) -> Verdict:
    if one.better != other.better:
        return "undecided"
    verdicts: dict[str, Verdict] = {"result": "better", "earlier": "worse", "tie": "tie"}
    return verdicts[one.better]
