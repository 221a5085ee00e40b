"""The language between a strategy and whoever plays it.

A move is a value. A strategy awaits it; the driver (or a test) receives it from `send`, performs it
and sends the reply back. `within` prefixes the paths of all the moves of a part, and
nesting is `await`. Every path is used once per refinement: it is the key of the step.
"""

from collections.abc import Coroutine, Generator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from app.contract.judgement import CriterionScore, Critique, Finding
from app.contract.limits import Limits
from workers.engine.briefs import Brief, Prompt

Role = Literal["generator", "critic"]


class Stop(Exception):
    """Thrown in where a strategy waits for a move that is refused: budget, deadline or finish."""


class StepFailed(Exception):
    """Thrown in where a strategy waits for a step that cannot be done."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
