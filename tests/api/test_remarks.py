"""What proposals are made of: remarks, texts that are held out, and shares of a budget."""

from typing import Any

import httpx
import pytest

from app.contract.access import OPERATOR
from app.contract.errors import InvalidRequest
from app.contract.judgement import Criterion
from app.store import Store, WorkerStore
from hone_extras.compare.comparison import TextOutcome
from hone_extras.learn.learning import shares_of
from hone_extras.learn.proof import compared, confidence_of
from hone_extras.learn.proposal import LearnedSetting
from hone_extras.learn.remarks import Remark, RemarkedText, RemarkedTexts, divided, remarked_texts
from hone_extras.learn.requests import PRESENT, PROPOSED, Trial
from tests.api.api_client import DRAFT, ended, paused

MADE = [f"ref_{number:026}" for number in range(40)]


def texts(count: int, kind: Any = "edit") -> list[RemarkedText]:
    return [
        RemarkedText((name,), {"task": name}, (Remark(name, kind, None, "Shorter."),))
        for name in MADE[:count]
    ]


def ids(found: list[RemarkedText]) -> set[str]:
    return {text.ids[0] for text in found}


def test_no_text_is_both_evidence_and_proof() -> None:
    written_from, held_out = divided(texts(40), 12)
    assert len(held_out) == 12
    assert not ids(written_from) & ids(held_out)
    assert ids(written_from) | ids(held_out) == set(MADE)


def test_a_text_stays_on_its_side_whatever_order_they_come_in() -> None:
    forwards, backwards = divided(texts(30), 20), divided(texts(30)[::-1], 20)
    assert [ids(side) for side in forwards] == [ids(side) for side in backwards]
    assert len(ids(divided(texts(40), 20)[1]) & ids(forwards[1])) >= 10


def test_a_text_of_which_only_a_critic_spoke_is_not_held_out() -> None:
    spoken, silent = texts(12), texts(20, "returned_issue")[12:]
    written_from, held_out = divided([*spoken, *silent], 20)
    assert ids(held_out) < ids(spoken)
    assert ids(silent) < ids(written_from)


def test_a_continuation_and_a_repetition_are_of_the_same_text() -> None:
    collected = RemarkedTexts()
    first, second, other = texts(3)
    collected.add(MADE[0], None, first)
    collected.add(MADE[1], MADE[0], second)
    collected.add(MADE[2], None, RemarkedText((MADE[2],), first.fields, other.remarks))
    (text,) = collected.texts.values()
    assert (text.ids, len(text.remarks)) == ((MADE[0], MADE[1], MADE[2]), 3)


def test_all_tries_for_one_setting_err_in_one_of_twenty_together() -> None:
    one_sided = [(1 - confidence_of(attempt)) / 2 for attempt in range(50)]
    assert one_sided[0] == pytest.approx(0.025)
    assert sum(one_sided) == pytest.approx(0.05)


def scored(*scores: float) -> list[dict[str, TextOutcome]]:
    return [
        {
            PRESENT: TextOutcome(has_text=True, judged=(0.5,)),
            PROPOSED: TextOutcome(has_text=True, judged=(score,)),
        }
        for score in scores
    ]


def test_a_proof_names_the_level_and_how_many_texts_are_needed_if_so_few_cannot_reach_it() -> None:
    alike = scored(*[0.9] * 6)
    assert "level" not in compared(alike, 6, confidence_of(0)).said
    again = compared(alike, 6, confidence_of(3))
    assert not again.significant
    assert "so the level is 99.375 %, not 95 %" in again.said
    needed = "6 texts that all differ by the same cannot be significant at 99.375 %: 9 are needed."
    assert again.said.endswith(needed)
    assert compared(scored(*[0.9] * 9), 9, confidence_of(3)).significant
    assert "needed" not in compared(scored(0.9, 0.8, 0.9, 0.7, 0.3, 0.2), 6, confidence_of(3)).said


def test_a_proof_can_be_made_however_often_others_were_tried_before() -> None:
    for found in (scored(0.6, 0.7, 0.6, 0.8, 0.4, 0.9), scored(*[0.9] * 6)):
        proof = compared(found, 6, confidence_of(1_000))
        assert (proof.verdict, proof.significant) == ("open", False)
        assert "100 %" not in proof.said


def test_what_people_asked_for_has_half_of_the_weight_whatever_the_preset_weighs() -> None:
    given = tuple(Criterion(name=f"c{number}", weight=700) for number in range(3))
    trial = Trial(MADE[0], {}, LearnedSetting(criteria=given), {"judge": None})
    judged = trial.judgement(
        RemarkedText((MADE[0],), {"task": "Write."}, texts(1)[0].remarks), "A draft."
    ).request()
    *own, people = judged.judged_on()
    assert sum(criterion.weight for criterion in own) == pytest.approx(people.weight)
    assert len({criterion.weight for criterion in own}) == 1


def test_the_shares_of_a_budget_are_the_budget() -> None:
    costs = {"writing": 0.1, "playing": 0.02, "judging": 0.01}
    texts_paid, caps = shares_of(1.0, costs, 40)
    assert texts_paid == 15
    whole = caps["writing"] + 15 * 2 * (caps["playing"] + caps["judging"])
    assert whole == pytest.approx(1.0)
    with pytest.raises(InvalidRequest, match=r"6 texts.* may cost \$0.46"):
        shares_of(0.2, costs, 40)
    with pytest.raises(InvalidRequest, match="price"):
        shares_of(1.0, {**costs, "playing": None}, 40)


async def test_what_people_said_is_found_with_the_draft_that_they_meant(
    api: httpx.AsyncClient, worker: WorkerStore, store: Store
) -> None:
    await api.put("/v1/presets/mail", json={"task": "Write.", "threshold": 0.9})
    edited, rated, plain = [await ended(api, worker, preset="mail") for _ in range(3)]
    asked = await paused(api, worker, preset="mail")
    edit = {"action": "replace", "draft": "One line.", "feedback": "Shorter."}
    assert (await api.post(f"/v1/refinements/{asked}/reviews", json=edit)).status_code == 202
    await api.post(f"/v1/refinements/{asked}/cancel")
    path = "iterations/1"
    for refinement_id, rating in (
        (edited, {"path": path, "better_than": "iterations/0"}),
        (rated, {"path": path, "score": 0.3, "note": "Too long.", "by": "Ann"}),
    ):
        made = await api.post(f"/v1/refinements/{refinement_id}/ratings", json=rating)
        assert made.status_code == 201, made.text
    other = await ended(api, worker, criteria=[{"name": "clarity"}], preset="mail")
    await api.post(f"/v1/refinements/{other}/ratings", json={"path": path, "score": 0})
    preset = await store.presets.get(OPERATOR, "mail")
    found = [
        each for text in await remarked_texts(store, OPERATOR, preset) for each in text.remarks
    ]
    by_kind = {each.kind: each for each in found}
    assert by_kind.keys() == {"preference", "rating", "edit"}
    assert not {plain, other} & {each.refinement for each in found}
    assert "0.3 of 1: Too long." in by_kind["rating"].words
    assert "Ann" not in by_kind["rating"].words
    assert (by_kind["edit"].refinement, by_kind["edit"].path) == (asked, "iterations/0")
    assert f": Shorter.\nBefore:\n{DRAFT}\nAfter:\nOne line." in by_kind["edit"].words
