"""What a provider allows: rate limits of several kinds, with the fields by which it reports them.

They take the time as an argument, so that a simulation and a model server share them.
"""

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol

Kind = Literal["sliding", "bucket", "fixed"]
Fields = Literal["none", "openai", "anthropic"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a call is allowed, how many more are, and when calls are allowed again.

    `reset_s`: until the whole limit is there again; `retry_s`: until one call is allowed.
    """

    is_allowed: bool
    limit: int
    remaining: int
    reset_s: float
    retry_s: float


class Allowance(Protocol):
    """Counts calls."""

    def admit(self, now: float) -> Verdict:
        """Count a call at this time, in seconds, if it is allowed; times must not go back."""


class SlidingWindow:
    """At most `limit` calls in any `window_s` seconds; refused calls do not count."""

    def __init__(self, limit: int, window_s: float) -> None:
        self._limit, self._window_s = limit, window_s
        self._admitted: deque[float] = deque()

    def admit(self, now: float) -> Verdict:
        """Count a call if it is allowed."""
        admitted = self._admitted
        while admitted and admitted[0] <= now - self._window_s:
            admitted.popleft()
        is_allowed = len(admitted) < self._limit
        if is_allowed:
            admitted.append(now)
        reset_s = admitted[-1] + self._window_s - now
        retry_s = 0.0 if is_allowed else admitted[0] + self._window_s - now
        return Verdict(is_allowed, self._limit, self._limit - len(admitted), reset_s, retry_s)


class RefillingBucket:
    """A bucket of `limit` calls that fills within `window_s` seconds, as OpenAI's does."""

    def __init__(self, limit: int, window_s: float) -> None:
        self._limit, self._per_s = limit, limit / window_s
        self._level, self._at = float(limit), 0.0

    def admit(self, now: float) -> Verdict:
        """Count a call if it is allowed."""
        self._level = min(self._limit, self._level + (now - self._at) * self._per_s)
        self._at = now
        is_allowed = self._level >= 1
        if is_allowed:
            self._level -= 1
        return Verdict(
            is_allowed,
            self._limit,
            int(self._level),
            (self._limit - self._level) / self._per_s,
            0.0 if is_allowed else (1 - self._level) / self._per_s,
        )


class FixedWindow:
    """At most `limit` calls in each window of `window_s` seconds; windows start at 0."""

    def __init__(self, limit: int, window_s: float) -> None:
        self._limit, self._window_s = limit, window_s
        self._window, self._count = -1, 0

    def admit(self, now: float) -> Verdict:
        """Count a call if it is allowed."""
        window = int(now // self._window_s)
        if window != self._window:
            self._window, self._count = window, 0
        is_allowed = self._count < self._limit
        self._count += is_allowed
        rest_s = (window + 1) * self._window_s - now
        remaining = self._limit - self._count
        return Verdict(is_allowed, self._limit, remaining, rest_s, 0.0 if is_allowed else rest_s)


KINDS: dict[Kind, type[SlidingWindow] | type[RefillingBucket] | type[FixedWindow]] = {
    "sliding": SlidingWindow,
    "bucket": RefillingBucket,
    "fixed": FixedWindow,
}


def reported(verdict: Verdict, fields: Fields, now: datetime | None = None) -> dict[str, str]:
    """Return the header fields in which a provider reports its limit of requests."""
    if fields == "none":
        return {}
    limit, remaining = str(verdict.limit), str(verdict.remaining)
    if fields == "openai":
        return {
            "x-ratelimit-limit-requests": limit,
            "x-ratelimit-remaining-requests": remaining,
            "x-ratelimit-reset-requests": f"{verdict.reset_s * 1000:.0f}ms",
        }
    reset = (now or datetime.now(UTC)) + timedelta(seconds=verdict.reset_s)
    return {
        "anthropic-ratelimit-requests-limit": limit,
        "anthropic-ratelimit-requests-remaining": remaining,
        "anthropic-ratelimit-requests-reset": reset.isoformat().replace("+00:00", "Z"),
    }
