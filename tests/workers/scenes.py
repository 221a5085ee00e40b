"""A scene for every kind of strategy: a request, and models whose answers depend on the step alone.

Each is played with all its appends and once more for every append that kills its worker.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.workers.stage import Answers, scores


@dataclass(frozen=True)
class Scene:
    """What is asked for, and who answers; every worker gets models of its own."""

    request: Mapping[str, Any]
    models: Callable[[], Answers]


SCENES: dict[str, Scene] = {
    "iterative": Scene({}, lambda: scores(0.4, 0.7, 0.6)),
    "critique": Scene({"draft": "We refund."}, lambda: scores(0.4)),
}
