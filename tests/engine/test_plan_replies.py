"""Whatever a planner answers, it is a plan that can be carried out or is returned with why."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.scripted_replies import replied, revised
from workers.engine.prompts import Task, Write
from workers.engine.replies.reader import Unreadable
from workers.engine.strategies.plan_execute import (
    Observation,
    PlannedStep,
    plan_reader,
    revision_reader,
)

TOOLS = ("look_up", "send")
SEEN = (
    Observation(1, PlannedStep("Look."), ok=True, text="Refunds take\n14 days."),
    Observation(2, PlannedStep("Send.", tool="send"), ok=False, text="it answered 404"),
)
NAMES = st.sampled_from(
    ["steps", "goal_met", "met", "evidence", "step", "quote", "instruction", "tool", "arguments"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "send", "{}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
STEPS = st.fixed_dictionaries(
    {"instruction": VALUES | st.text()},
    optional={"tool": st.sampled_from([None, *TOOLS, "other"]) | VALUES, "arguments": VALUES},
)


@given(
    st.text() | VALUES.map(json.dumps) | st.lists(STEPS).map(lambda it: json.dumps({"steps": it}))
)
def test_a_plan_is_read_or_returned(reply: str) -> None:
    try:
        steps = plan_reader(TOOLS)(replied(reply)).steps
    except Unreadable:
        return
    assert 1 <= len(steps) <= 30
    for step in steps:
        assert step.instruction
        assert step.tool in (None, *TOOLS)
        assert (step.arguments is None) is (step.tool is None)
        json.dumps(step.arguments, allow_nan=False).encode()


def is_no_example(quote: str) -> bool:
    """Three dots stand for words in the form asked for; a reply that repeats them is no answer."""
    return quote.strip() != "..."


@given(st.integers(0, 3), st.text("Refunds tak14dy.\n40 ", max_size=12).filter(is_no_example))
def test_a_goal_is_met_only_by_enough_words_that_stand_in_the_step_they_name(
    step: int, quote: str
) -> None:
    read = revision_reader(TOOLS, SEEN)(replied(revised(met=True, evidence=((step, quote),))))
    words = " ".join(quote.split())
    stands = step == 1 and words.strip(". ") in "Refunds take 14 days."
    assert not read.is_met or stands
    assert read.is_met or not (stands and len(re.findall(r"\w+", words)) > 2)
    assert (read.unproven is None) is read.is_met


@pytest.mark.parametrize(
    ("said", "is_met"),
    [
        ([(1, "14 days")], True),
        ([(1, "made up"), (1, "14 days")], True),
        ([(2, "it answered 404")], False),
        ([(3, "14 days")], False),
    ],
)
def test_evidence_is_looked_up(said: list[tuple[int, str]], is_met: bool) -> None:
    read: Any = revision_reader(TOOLS, SEEN)(replied(revised(met=True, evidence=tuple(said))))
    assert read.is_met is is_met


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"goal_met": False, "steps": []}, "goal_met: it is not an object"),
        ({"goal_met": {"met": False}, "steps": "none"}, "steps: it is not a list"),
        ({"goal_met": {"met": False}, "steps": ["Look."]}, "steps/0: it is not an object"),
        (
            {"goal_met": {"met": True, "evidence": "14 days"}, "steps": []},
            "goal_met/evidence: it is not a list",
        ),
        (
            {
                "goal_met": {"met": False},
                "steps": [{"instruction": "Look.", "tool": "send", "arguments": "id 7"}],
            },
            "steps/0/arguments: the text is not a JSON object",
        ),
    ],
)
def test_what_is_wrong_with_a_plan_is_said_in_terms_of_json(
    wrong: dict[str, object], said: str
) -> None:
    with pytest.raises(Unreadable, match=f"^{said}$"):
        revision_reader(TOOLS, SEEN)(replied(json.dumps(wrong)))


PAGE = "## Opening hours\n\nThe shop opens at 9 and closes at 18:30 on all days of the week."


@pytest.mark.parametrize(
    ("text", "quote", "is_met"),
    [
        (PAGE, "a", False),
        (PAGE, "9", False),
        (PAGE, "18:30", False),
        (PAGE, "of the", False),
        (PAGE, "Opening", False),
        (PAGE, "##", False),
        (PAGE, "of the week", True),
        (PAGE, "at 9", True),
        (PAGE, "Opening hours", True),
        ("42", "42", True),
        ("42", "4", False),
        (" No.\n", "no", False),
        (" No.\n", "No", True),
        ('{"total": 42, "open": true}', '"total": 42', True),
        ('{"total": 42, "open": true}', "42", False),
        ("店は九時に開きます。", "店", False),
        ("店は九時に開きます。", "九時に開きます", True),
    ],
)
def test_evidence_is_three_words_or_a_whole_line(text: str, quote: str, is_met: bool) -> None:
    assert is_proven(text, quote) is is_met


def is_proven(text: str, quote: str) -> bool:
    seen = (Observation(1, PlannedStep("Look."), ok=True, text=text),)
    asked = Write(Task("Explain refunds.", None, (), "482913"))
    read = revision_reader(TOOLS, seen)
    return read(replied(revised(met=True, evidence=((1, quote),)), asked)).is_met
