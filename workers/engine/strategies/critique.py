"""Judges a draft without revising it."""

from app.contract.limits import Limits
from app.contract.status import StopReason
from app.contract.strategies.loops import CritiqueStrategy
from workers.engine.drafting import heeded
from workers.engine.judging import judge
from workers.engine.moves import Draft, within
from workers.engine.prompts import Task
from workers.engine.search import Outcome, Search


async def critique(task: Task, limits: Limits, _plan: CritiqueStrategy) -> Outcome:
    """Judge the given draft once, by validators and critic; only a reviewer can have it revised."""
    with Search.of(task, limits) as search:
        search.is_last = True
        given = Draft(task.draft or "", is_reply=task.is_clients_draft)
        await search.judged(await within("iterations/0", judge(task, given)))
        await heeded(task, search)
        search.reason = search.decided or StopReason.COMPLETED
    return search.outcome()
