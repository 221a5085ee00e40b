"""The steps that are being performed right now, and aborting them."""

import asyncio
from collections.abc import Callable

from app.contract.events import StepCompleted, StepFailed
from workers.engine.moves import Deed
from workers.performing import Performer


class InFlight:
    """Performs steps, each in a task of its own."""

    def __init__(self, performer: Performer) -> None:
        self._performer = performer
        self._tasks: dict[asyncio.Task[StepCompleted | StepFailed], Deed] = {}

    async def perform(self, move: Deed) -> StepCompleted | StepFailed | None:
        """Return what goes into the journal, or None when the step was aborted."""
        task = asyncio.get_running_loop().create_task(self._performer.perform(move))
        self._tasks[task] = move
        try:
            return await task
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if me is not None and me.cancelling():
                raise
            return None
        finally:
            del self._tasks[task]

    def abort(self, is_refused: Callable[[Deed], bool]) -> None:
        """Abort every step that is refused now."""
        for task, move in self._tasks.items():
            if is_refused(move):
                task.cancel()
