"""The figures of one run: what happened, how long it took, and what was promised and not kept."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil, inf
from statistics import mean

from tests.faults.history import CLAIMS, History, Loss, StoredRefinement

RECOVERY_GOAL_S = 7.0
CANCEL_GOAL_S = 2.0
LOST_ENTRY_GOAL_S = 7.0
ACCEPTING_GOAL_S = 2.0
BACK_GOAL_S = 5.0


@dataclass(frozen=True)
class Seconds:
    """Durations, by their percentiles."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Seconds":
        return cls(tuple(sorted(values)))

    def __bool__(self) -> bool:
        return bool(self.values)

    def percentile(self, percent: int) -> float:
        """Return the smallest value that so many percent do not exceed."""
        return self.values[max(ceil(len(self.values) * percent / 100) - 1, 0)]

    def __str__(self) -> str:
        if not self.values:
            return "-"
        shown = (self.percentile(50), self.percentile(99), self.values[-1])
        return " / ".join(f"{it:.1f}" if it >= 1 else f"{it:.2f}" for it in shown) + " s"


NONE = Seconds(())


@dataclass(frozen=True)
class Figures:
    """The figures of one row with one seed."""

    row: str
    seed: int
    statuses: Mapping[str, int] = field(default_factory=dict)
    faults: Mapping[str, int] = field(default_factory=dict)
    repeated: int = 0
    in_hand: int = 0
    recovery: Seconds = NONE
    canceling: Seconds = NONE
    pickup: Seconds = NONE
    leaving: Seconds = NONE
    accepting: Seconds = NONE
    """From when a new primary answers, or that of a cluster was killed, to the next submission."""
    starting: Seconds = NONE
    """From the submission of the other provider's refinements to their claim."""
    refused: int = 0
    pace: float | None = None
    """The time that all calls took, in multiples of what the provider's limit allows."""
    slowdown: float | None = None
    """How much longer refinements of the other provider took once this one was limited."""
    watchers: int = 0
    cuts: int = 0
    unavailable: Seconds = NONE
    took_s: float = 0.0
    broken: tuple[str, ...] = ()
    goals: Mapping[str, float] = field(default_factory=dict)
    ratios: Mapping[str, float] = field(default_factory=dict)

    @property
    def missed(self) -> Iterator[str]:
        """The durations that were promised and not kept."""
        for name, goal_s in self.goals.items():
            seconds: Seconds = getattr(self, name)
            if seconds and seconds.percentile(99) > goal_s:
                yield f"{name} p99 {seconds.percentile(99):.1f} s, promised {goal_s:g} s"
        for name, most in self.ratios.items():
            ratio: float | None = getattr(self, name)
            if ratio is None or ratio > most:
                yield f"{name} {ratio}, promised {most:g}"

    @property
    def measured_ratios(self) -> tuple[tuple[str, float], ...]:
        """The ratios that this row measures."""
        found = (("pace", self.pace), ("slowdown", self.slowdown))
        return tuple((name, ratio) for name, ratio in found if ratio is not None)

    @property
    def is_kept(self) -> bool:
        """Whether every promise was kept."""
        return not self.broken and not any(True for _ in self.missed)

    @property
    def line(self) -> str:
        """Everything, in one line."""
        parts = [
            f"{self.row:<14} seed {self.seed}: " + _counted(self.statuses),
            _counted(self.faults) or "no fault",
            f"{self.repeated} calls repeated of {self.in_hand} in hand",
        ]
        parts += [
            f"{name} {seconds}"
            for name, seconds in (
                ("recovery p50/p99/max", self.recovery),
                ("canceled in", self.canceling),
                ("lost entries found in", self.pickup),
                ("left in", self.leaving),
                ("accepted again in", self.accepting),
                ("started in", self.starting),
            )
            if seconds
        ]
        if self.refused:
            parts.append(f"{self.refused} calls refused")
        parts += [f"{name} {ratio:.2f}" for name, ratio in self.measured_ratios]
        if self.watchers:
            parts.append(f"{self.watchers} watchers, {self.cuts} cuts")
        if self.unavailable:
            slowest = self.unavailable.values[-1]
            parts.append(f"{len(self.unavailable.values)} x 503, slowest {slowest:.1f} s")
        parts.append(f"{self.took_s:.0f} s")
        if missed := [*self.missed]:
            parts.append(f"MISSED: {missed}")
        if self.broken:
            parts.append(f"BROKEN {len(self.broken)}: {self.broken[:3]}")
        return "; ".join(parts)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def statuses(history: History) -> Counter[str]:
    """Return how many refinements ended how."""
    return Counter(it.status for it in history.refinements.values())


def repeated(history: History) -> int:
    """Return how many calls had a key that was called before."""
    return len(history.calls) - len({call.key for call in history.calls})


def in_hand(history: History) -> int:
    """Return how many calls lost workers had in hand, added up."""
    return sum(len([*_lost_calls(history, loss)]) for loss in history.losses if loss.ports)


def recovery(history: History) -> Seconds:
    """Return, for each refinement in hand at a kill, the seconds until its next claim.

    Those in which no worker took work, because all were starting, do not count.
    """
    found = []
    for loss in history.losses:
        if loss.kind == "kill":
            for refinement_id in set(_lost_calls(history, loss)):
                found += [
                    after - unmanned(history, loss.at, loss.at + after)
                    for after in _claimed_after(history, refinement_id, loss.at)
                ]
    return Seconds.of(found)


def unmanned(history: History, since: float = 0.0, until: float = inf) -> float:
    """Return for how many seconds of that time no worker took work."""
    return sum(max(0.0, min(it[1], until) - max(it[0], since)) for it in history.unmanned)


def _lost_calls(history: History, loss: Loss) -> Iterator[str]:
    for call in history.calls:
        it = history.refinements.get(call.refinement_id)
        if it and loss.excuses(call, it.journaled_at(call)):
            yield it.id


def _claimed_after(history: History, refinement_id: str, at: float) -> list[float]:
    entries = history.refinements[refinement_id].entries
    claims = [entry.at - at for entry in entries if entry.type in CLAIMS]
    return [after for after in claims if after > 0][:1]


def canceling(history: History) -> Seconds:
    """Return the seconds from each accepted cancel to `canceled`."""
    found = []
    for it in history.refinements.values():
        at = {entry.type: entry.at for entry in it.entries}
        if "refinement.canceled" in at:
            ended = at["refinement.canceled"]
            found.append(ended - at.get("refinement.canceling", ended))
    return Seconds.of(found)


def pickup(history: History, lost: Mapping[str, float]) -> Seconds:
    """Return the seconds from the loss of each queue entry to the start of its refinement."""
    return Seconds.of(
        [
            after
            for refinement_id, at in lost.items()
            if refinement_id in history.refinements
            for after in _claimed_after(history, refinement_id, at)
        ]
    )


def accepting(promoted_at: Sequence[float], accepted_at: Sequence[float]) -> Seconds:
    """Return the seconds from each moment at which a primary answered to the next submission."""
    after = [[at - since for at in accepted_at if at > since] for since in promoted_at]
    return Seconds.of([min(it) for it in after if it])


def pace(history: History, limit_per_s: float) -> float:
    """Return how long all calls took, in multiples of what the provider's limit allows."""
    ended = [call.ended_at for call in history.calls if call.ended_at is not None]
    took_s = max(ended) - min(call.began_at for call in (*history.calls, *history.refused))
    return took_s * limit_per_s / len(history.calls)


def most_at_once(history: History) -> int:
    """Return how many calls were under way at one time, at most."""
    calls = (*history.calls, *history.refused)
    changes = [(call.began_at, 1) for call in calls]
    changes += [(call.ended_at, -1) for call in calls if call.ended_at is not None]
    return max(accumulate(change for _, change in sorted(changes)), default=0)


def _of_the_other(history: History) -> tuple[list[StoredRefinement], list[StoredRefinement]]:
    """Return the other provider's refinements: those that ran alone, and the later ones."""
    shapes = {it.ids[0]: it.shape for it in history.submissions if it.ids}
    found = [it for it in history.refinements.values() if it.entries]  # the checker names the rest
    first_at = min((it.entries[0].at for it in found if shapes[it.id] != "other"), default=0.0)
    others = [it for it in found if shapes[it.id] == "other"]
    alone = [it for it in others if it.entries[-1].at < first_at]
    return alone, [it for it in others if it not in alone]


def slowdown(history: History) -> float | None:
    """Return how much longer the other provider's refinements took beside those of the first one.

    None unless some of them ran alone before.
    """
    alone, beside = [
        [it.entries[-1].at - it.entries[0].at for it in some] for some in _of_the_other(history)
    ]
    return mean(beside) / mean(alone) if alone and beside else None


def starting(history: History) -> Seconds:
    """Return how long the other provider's refinements waited for a worker beside the first's."""
    _, beside = _of_the_other(history)
    started = [
        (it, next((entry.at for entry in it.entries if entry.type in CLAIMS), None))
        for it in beside
    ]
    return Seconds.of([at - it.entries[0].at for it, at in started if at is not None])
