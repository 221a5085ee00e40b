"""The editor as a model: it answers prompt requests, and refuses what a language model must do."""

import asyncio
import json
import subprocess
import sys
from itertools import count

import pytest

from app.contract.editor import measure_for
from app.contract.judgement import QUALITY, Criterion, Critique, Finding
from app.contract.requests import RefinementRequest
from tests.engine.engine_driver import EngineDriver
from tests.engine.scripted_replies import replied
from tests.models.calls import call
from workers.editor import editor_reply
from workers.engine.judging import critique_reader
from workers.engine.moves import Ask
from workers.engine.pipeline import criteria_in
from workers.engine.prompts import Compare, Judge, ListCriteria, PromptRequest, Revise, Task, Write
from workers.model_registry import Editor
from workers.models.port import ModelRefused, ModelReply

DRAFT = "In order to go, we recieve it."


def task(*criteria: Criterion) -> Task:
    return Task(None, DRAFT, criteria or (QUALITY,), "482913")


def revise(draft: str, *findings: Finding) -> Revise:
    return Revise(task(), draft, (), Critique(scores=()), findings)


async def answer(prompt_request: PromptRequest) -> ModelReply:
    return await Editor().complete(call(prompt_request))


async def test_a_verdict_is_in_the_form_that_the_engine_reads() -> None:
    reply = await answer(Judge(task(), DRAFT))
    critique = critique_reader((QUALITY,), DRAFT)(replied(reply.text))
    assert critique.scores[0].score is not None
    assert {it.quote for it in critique.findings} == {"In order to", "recieve"}
    assert set(json.loads(reply.text)) >= {"scores", "findings", "suggestions"}


async def test_a_revision_is_the_text_alone() -> None:
    assert (await answer(revise("We recieve it."))).text == "We receive it."
    assert (await answer(revise("We get it."))).text == "We get it."


async def test_a_validator_that_wants_fewer_words_is_heard() -> None:
    rough = "We recieve, recieve and recieve it in order to go."
    too_long = Finding(
        source="validators/0",
        kind="length",
        message="the draft has 11 words, expected at most 9",
    )
    assert "in order to" in (await answer(revise(rough))).text
    assert "in order to" not in (await answer(revise(rough, too_long))).text


@pytest.mark.parametrize(
    ("instruction", "draft", "bound"),
    [
        ("Explain refunds.", DRAFT, None),
        (None, DRAFT, None),
        ("Explain refunds in under 120 words.", DRAFT, "Has it at most 119 words?"),
        ("Use at least 3 sentences.", DRAFT, "Has it at least 3 sentences?"),
        ("Write 100 to 150 words.", DRAFT, "Is it between 100 and 150 words long?"),
        ("For an 8th grade reader.", DRAFT, "Can it be read at grade 8?"),
        ("Give the policy as JSON.", DRAFT, "Is it valid JSON?"),
        ("Repair it.", '{"days": 14', "Is it valid JSON?"),
    ],
)
async def test_the_criteria_it_lists_are_those_that_it_can_measure(
    instruction: str | None, draft: str, bound: str | None
) -> None:
    reply = await answer(ListCriteria(Task(instruction, draft, (), "482913")))
    criteria = criteria_in(replied(reply.text))
    assert all(map(measure_for, criteria))
    assert [it.description for it in criteria[:-5]] == ([bound] if bound else [])
    asked = measure_for(Criterion(name="length", description=instruction or ""))
    if asked is not None and bound is not None:
        assert measure_for(criteria[0]) == asked


async def test_of_two_texts_it_prefers_the_one_that_measures_better_wherever_it_stands() -> None:
    rough, plain = DRAFT, "To go, we receive it."
    replies = [await answer(Compare(task(), *pair)) for pair in [(rough, plain), (plain, rough)]]
    said = [json.loads(it.text) for it in replies]
    assert [it["better"] for it in said] == ["B", "A"]
    assert "on quality" in said[0]["reason"]
    assert json.loads((await answer(Compare(task(), rough, rough))).text)["better"] == "tie"


async def test_it_refuses_to_compare_what_it_cannot_measure() -> None:
    with pytest.raises(ModelRefused, match="both texts"):
        await answer(Compare(task(Criterion(name="readability")), DRAFT, '{"days": 14}'))


async def test_it_costs_one_call_and_no_tokens() -> None:
    reply = await answer(Judge(task(), DRAFT))
    assert reply.usage.model_dump(exclude={"seconds"}) == {
        "calls": 1,
        "input_tokens": 0,
        "output_tokens": 0,
        "cached_tokens": 0,
        "thinking_tokens": 0,
        "cost_usd": 0.0,
    }
    assert reply.model == "offline:editor"


async def test_it_refuses_to_write_and_says_what_to_do() -> None:
    with pytest.raises(ModelRefused, match="give a draft"):
        await answer(Write(task()))


async def test_of_what_it_cannot_measure_its_verdict_has_no_score_and_the_reason() -> None:
    accuracy = Criterion(name="accuracy")
    reply = await answer(Judge(task(accuracy), DRAFT))
    (found,) = critique_reader((accuracy,), DRAFT)(replied(reply.text)).scores
    assert found.score is None
    assert "Not measured" in found.reason


async def test_calls_side_by_side_do_not_mix() -> None:
    drafts = [f"Draft {number}: we recieve it." for number in range(20)]
    replies = await asyncio.gather(*(answer(revise(draft)) for draft in drafts))
    assert [it.text for it in replies] == [it.replace("recieve", "receive") for it in drafts]


WATCHED = """
import os, sys
seen = []
sys.addaudithook(lambda event, args: seen.append((event, args)))
from app.contract.judgement import QUALITY
from workers.editor.critic import judged
from workers.editor.reviser import revised
draft = "In order to recieve it at the end of the day, please note that it was done by the team."
judged(draft, (QUALITY,)); revised(draft, (QUALITY,)); revised("{'a': 1,}", (QUALITY,))
opened = [str(args[0]) for event, args in seen if event == "open"]
print([event for event, _ in seen if event.startswith(("socket.", "urllib.", "subprocess."))])
print([path for path in opened if "proselintrc" in path or path.startswith(sys.argv[1])])
"""


def test_neither_the_network_nor_a_home_directory_is_looked_at(tmp_path: object) -> None:
    run = subprocess.run(
        [sys.executable, "-c", WATCHED, str(tmp_path)],
        env={"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.splitlines() == ["[]", "[]"]


@pytest.mark.parametrize(("text", "reason"), [("No.", "too little"), ("12 34 !", "no English")])
def test_a_text_that_cannot_be_judged_ends_without_a_score_and_the_reason_is_said(
    text: str, reason: str
) -> None:
    model = EngineDriver(iter(()), iter(()))
    model.critic = (edited(model.asked("critic")[-1]) for _ in count())
    model.writer = (edited(model.asked("generator")[-1]) for _ in count())
    outcome = model.play(RefinementRequest(draft=text))
    assert (outcome.best.scored.score, outcome.passed) == (None, False)
    (told,) = outcome.best.scored.caveats
    assert told.code == "item_dropped"
    assert reason in told.detail


def edited(move: Ask) -> str:
    return editor_reply(move.prompt_request)
