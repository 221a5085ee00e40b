"""The editor takes linear time whatever the draft, ends, and lets others in meanwhile."""

import asyncio
import time
from dataclasses import replace

import pytest

from app.contract.judgement import QUALITY, Criterion, Critique
from tests.models.calls import call
from workers.editor import EditorCannot
from workers.editor.critic import judged
from workers.editor.long_texts import LONG, LongTexts
from workers.editor.reviser import revised
from workers.engine.prompts import Revise, Task
from workers.model_registry import Editor

pytestmark = pytest.mark.long

LENGTH = 60_000
PROSE = "The cat and the dog are in the house. " * 20
CRITERIA = (QUALITY, Criterion(name="length", description="at most 100 sentences"))
VALID_JSON = (Criterion(name="json", description="Is it valid JSON?"),)


def filled(text: str) -> str:
    return (text * LENGTH)[:LENGTH]


HOSTILE: dict[str, str] = {
    "an endless word with slips": PROSE + filled("abc!!abc!!"),
    "signs of a path": filled("-/"),
    "signs of a home": filled("~/."),
    "comments never closed": "[1," + filled("/*,"),
    "empty lines in JSON": "[1," + "\n" * LENGTH + "2",
    "fences never closed": filled("```a\n"),
    "numbers of a list": filled("1. "),
    "a wordy phrase": filled("in order to "),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_draft_takes_linear_time(name: str) -> None:
    """Each takes a second at most; before the rules were linear it was 15 s to minutes."""
    started = time.process_time()
    judged(HOSTILE[name], CRITERIA)
    revised(HOSTILE[name], CRITERIA)
    revised(HOSTILE[name], VALID_JSON)
    assert time.process_time() - started < 6


def test_a_number_beyond_all_bounds_is_left_as_it_is() -> None:
    assert revised("[1e1000000, 2,]", VALID_JSON) == "[1e1000000, 2,]"


def revise(draft: str) -> Revise:
    return Revise(Task(None, draft, (QUALITY,), "482913"), draft, (), Critique(scores=()), ())


def test_a_text_that_takes_too_long_is_refused_and_the_next_is_edited() -> None:
    long_texts = LongTexts(cpu_s=0.05)
    try:
        with pytest.raises(EditorCannot, match=r"more than 0\.05 s"):
            long_texts.answer(revise(filled("in order to ")))
    finally:
        long_texts.close()
    long_texts = LongTexts()
    try:
        assert long_texts.answer(revise("We go in order to eat.")) == "We go to eat."
    finally:
        long_texts.close()


async def test_a_short_text_does_not_wait_for_long_ones() -> None:
    editor = Editor()
    ended: list[str] = []

    async def edit(refinement: str, draft: str) -> None:
        await editor.complete(replace(call(revise(draft)), key=f"{refinement}/draft"))
        ended.append(refinement)

    text = filled("in order to ")
    assert len(text) > LONG
    await asyncio.gather(
        edit("long", text), edit("long", text), edit("short", "We go in order to eat.")
    )
    assert ended == ["short", "long", "long"]
