"""python -m benchmarks.unobserved api|worker: Hone whose metrics count nothing, to compare with."""

import sys
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from app.cli import main as command_line
from workers.__main__ import main as work

CHANGES = ("inc", "dec", "set", "observe")


def nothing(*_args: Any, **_kwargs: Any) -> None:
    """Count nothing."""


def unlabelled(metric: Any, *_args: Any, **_kwargs: Any) -> Any:
    """Return the same metric for all labels."""
    return metric


def count_nothing() -> None:
    """Let all metrics of this process do nothing."""
    for kind in (Counter, Gauge, Histogram):
        does_nothing = {"labels": unlabelled, **dict.fromkeys(CHANGES, nothing)}
        for name, instead in does_nothing.items():
            if hasattr(kind, name):
                setattr(kind, name, instead)


if __name__ == "__main__":
    count_nothing()
    if sys.argv[1] == "worker":
        sys.exit(work())
    command_line()
