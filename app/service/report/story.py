"""What a report is made of: the refinement as it stands, as it was asked for, and its journal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from app.contract.events import Event, EventData, Queued, StepCompleted, StepFailed
from app.contract.requests import RefinementRequest
from app.contract.snapshot import Iteration, Snapshot
from app.service.iterations import iterations_of

Data = TypeVar("Data", bound=EventData)


@dataclass(frozen=True, slots=True)
class Story:
    """One refinement; its events are those up to the snapshot's last one."""

    snapshot: Snapshot
    request: RefinementRequest
    events: tuple[Event, ...]
    iterations: tuple[Iteration, ...]

    @property
    def queued(self) -> Queued:
        """How it began: strategy, models, limits."""
        [(_, queued)] = self.of(Queued)
        return queued

    def of(self, kind: type[Data]) -> tuple[tuple[datetime, Data], ...]:
        """Return what events of one kind carry, with when."""
        return tuple((it.at, it.data) for it in self.events if isinstance(it.data, kind))

    def steps(self) -> Iterator[StepCompleted | StepFailed]:
        """Give every step that was done or could not be."""
        for event in self.events:
            if isinstance(event.data, StepCompleted | StepFailed):
                yield event.data

    def first(self) -> Iteration | None:
        """Return the draft that the outermost search began with."""
        outermost = [it for it in self.iterations if it.path == f"iterations/{it.iteration}"]
        return next(iter(outermost or self.iterations), None)

    def best(self) -> Iteration | None:
        """Return the iteration of the result, or of the best draft while there is none."""
        best = self.snapshot.best
        return next(
            (it for it in self.iterations if best and it.path == best.path),
            None,
        )


def story_of(snapshot: Snapshot, request: RefinementRequest, events: Sequence[Event]) -> Story:
    """Return the story up to the snapshot; what was journaled since is left out."""
    told = tuple(it for it in events if it.event <= snapshot.last_event)
    return Story(snapshot, request, told, iterations_of(told, request))
