"""When a call is sent again, and after how long."""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

PASSING = frozenset({408, 409, 425, 429})
"""Statuses below 500 that say "not now": time-out, lock held, too early, too many requests."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds on one step: seconds to connect, to the first byte, and in all; `tries` in all.

    Between tries it waits a random time up to `backoff_s`, twice that, and so on, never more than
    `longest_backoff_s` ("full jitter": AWS Architecture Blog, Exponential Backoff And Jitter).
    """

    total_s: float
    first_byte_s: float | None = None
    connect_s: float = 10.0
    tries: int = 3
    backoff_s: float = 0.5
    longest_backoff_s: float = 8.0
    random: Callable[[], float] = random.random

    def wait_s(self, failures: int, retry_after_s: float | None) -> float:
        """Return the seconds until the next try: what the server asks for, and jitter on top."""
        most: float = min(self.backoff_s * 2.0 ** (failures - 1), self.longest_backoff_s)
        return (retry_after_s or 0.0) + self.random() * most


def may_pass(status: int, headers: Mapping[str, str]) -> bool:
    """True for a refusal that may be gone the next time; `x-should-retry: false` denies it."""
    passing = status in PASSING or status >= 500
    return passing and headers.get("x-should-retry") != "false"


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a `Retry-After` field (RFC 9110, 10.2.3), None without a valid one.

    A date is compared with the server's own `Date`, so that machines' clocks do not matter.
    """
    value = headers.get("Retry-After", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        at = _date(value)
        seconds = (at - (_date(headers.get("Date", "")) or _now())).total_seconds() if at else -1.0
        return max(0.0, seconds) if at else None
    return seconds if 0 <= seconds < math.inf else None


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _now() -> datetime:
    return datetime.now(UTC)
