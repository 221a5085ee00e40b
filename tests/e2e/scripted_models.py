"""Models of the end-to-end tests: what the benchmark's model answers, with one thing changed."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace

from benchmarks.model_replies import (
    HANG,
    AskedPrompt,
    Behaviour,
    ModelServerReply,
    chat,
    critique,
    improving,
)

DRAFT = re.compile(rb"Draft number (\d+)")


def key_of(asked: AskedPrompt) -> str:
    """Return the step's key, without the refinement's id."""
    return (asked.header("Idempotency-Key") or "").partition("/")[2]


def answering(change: Callable[[str, AskedPrompt], ModelServerReply | None]) -> Behaviour:
    """Return the improving model, except where `change` answers for the step's key."""
    return lambda asked: change(key_of(asked), asked) or improving(asked)


def hanging_at(key: str) -> Behaviour:
    """Return a model that never answers one step."""
    return answering(lambda asked, _: HANG if asked == key else None)


def slow_at(key: str, delay_s: float) -> Behaviour:
    """Return a model that takes its time for one step."""
    return answering(
        lambda asked, call: replace(improving(call), delay_s=delay_s) if asked == key else None
    )


def held_at(key: str, released: asyncio.Event) -> Behaviour:
    """Return a model that ends its answer to one step once that is released."""
    return answering(
        lambda asked, call: replace(improving(call), after=released) if asked == key else None
    )


def scoring(*scores: float) -> Behaviour:
    """Return a critic that gives drafts 1, 2, 3 ... these scores, and the usual writer."""

    def judge(key: str, asked: AskedPrompt) -> ModelServerReply | None:
        if not key.endswith("/critique"):
            return None
        number = int(key.split("/")[1])
        return chat(critique(1, "quality").replace("0.4", str(scores[number - 1])))

    return answering(judge)
