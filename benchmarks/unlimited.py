"""python -m benchmarks.unlimited: a worker whose model calls pass no limiter, to compare with."""

import sys

from workers import model_registry
from workers.__main__ import main as work

GATES = "_described"
"""What names the limits of a model; without them its calls pass no gate."""

if not hasattr(model_registry, GATES):
    raise ImportError("the registry asks for its gates in another way: change this module")


def no_gate(*_: object) -> None:
    """Let every call through."""


if __name__ == "__main__":
    setattr(model_registry, GATES, no_gate)
    sys.exit(work())
