"""python -m benchmarks.unlimited: a worker whose model calls pass no limiter, to compare with."""

import sys

from workers.__main__ import main as work
from workers.model_registry import ModelRegistry
from workers.models.rate_limiter import ModelGate


def no_gate(_registry: ModelRegistry, _name: str) -> ModelGate | None:
    """Let every call through."""
    return None


if __name__ == "__main__":
    if not hasattr(ModelRegistry, "_gate"):
        sys.exit("the registry asks for its gates in another way: change this module")
    setattr(ModelRegistry, "_gate", no_gate)  # noqa: B010 - mypy forbids an assignment
    sys.exit(work())
