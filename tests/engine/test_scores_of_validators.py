"""The score of a validator counts as a criterion, or decides alone."""

from collections.abc import Iterator, Sequence

import pytest
from pydantic import ValidationError

from app.contract.judgement import CriterionScore, Finding, FindingsReply, OnFail
from app.contract.requests import RefinementRequest
from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, drafts, request, verdict
from workers.engine.search import Outcome

URL = "https://checks.example.com"


def endpoint(**fields: object) -> dict[str, object]:
    return {"kind": "http", "url": URL, **fields}


CRITERION = endpoint(score={"as": "criterion", "weight": 3, "name": "measured"})
DECIDES = endpoint(score={"as": "decides"})


def replies(
    name: str, scores: Sequence[float], found: Sequence[Finding]
) -> Iterator[FindingsReply]:
    for it in scores:
        yield FindingsReply(
            findings=tuple(found), scores=(CriterionScore(criterion=name, score=it),)
        )


def played(
    of: RefinementRequest,
    name: str,
    measured: Sequence[float],
    critic: Sequence[float] = (),
    found: Sequence[Finding] = (),
) -> Outcome:
    checks = replies(name, measured, found)
    model = EngineDriver((verdict(it) for it in critic), drafts(), check=lambda _: next(checks))
    return model.play(of)


def test_as_a_criterion_it_counts_with_its_weight_beside_the_critics() -> None:
    outcome = played(request(validators=[CRITERION], max_iterations=1), "measured", [0.2], [1.0])
    assert outcome.best.scored.score == (3 * 0.2 + 1.0) / 4
    assert [it.criterion for it in outcome.best.scored.scores] == ["quality", "measured"]
    assert outcome.score_from == "critique"


def test_one_that_decides_is_the_score_whatever_critics_say() -> None:
    of = request(validators=[DECIDES], max_iterations=3, threshold=0.8)
    outcome = played(of, "http", [0.3, 0.9], [1.0, 0.1])
    assert (outcome.best.scored.score, outcome.reason) == (0.9, StopReason.THRESHOLD_MET)
    assert outcome.score_from == "validators"


def test_while_one_that_decides_does_not_run_no_critic_decides_in_its_place() -> None:
    skipped = Finding(
        source="validators/0", kind="http", message="away", on_fail=OnFail.WARN, skipped=True
    )
    of = request(validators=[DECIDES], max_iterations=1, accept=["validator_skipped"])
    model = EngineDriver(iter([verdict(1.0)]), drafts(), check=lambda _: (skipped,))
    outcome = model.play(of)
    assert (outcome.best.scored.score, outcome.score_from) == (None, "validators")
    assert not outcome.passed


def test_without_critics_one_that_only_warns_and_did_not_run_does_not_count() -> None:
    skipped = Finding(
        source="validators/0", kind="http", message="away", on_fail=OnFail.WARN, skipped=True
    )
    of = request(
        strategy={"kind": "self_correction"},
        validators=[endpoint(score={"as": "decides"}, on_fail="warn"), {"kind": "json"}],
        accept=["validator_skipped"],
        max_iterations=1,
    )
    outcome = EngineDriver(iter(()), drafts(), check=lambda _: (skipped,)).play(of)
    assert (outcome.best.scored.score, outcome.passed) == (1.0, True)


def test_the_reviser_is_told_of_a_measured_score_that_is_too_low() -> None:
    checks = replies("measured", [0.2, 0.9], ())
    critic = (verdict(it) for it in (0.9, 0.9))
    model = EngineDriver(critic, drafts(), check=lambda _: next(checks))
    model.play(request(validators=[CRITERION], max_iterations=2))
    assert "measured (not met yet)" in model.asked("generator")[-1].prompt.user


def test_without_critics_it_counts_with_its_weight_beside_what_passes() -> None:
    json = {"kind": "json", "on_fail": "revise"}
    failed = Finding(source="validators/0", kind="json", message="no", on_fail=OnFail.REVISE)
    of = request(
        strategy={"kind": "self_correction"}, validators=[json, CRITERION], max_iterations=1
    )
    assert played(of, "measured", [0.5]).best.scored.score == (1 + 3 * 0.5) / 4
    assert played(of, "measured", [0.5], found=[failed]).best.scored.score == 3 * 0.5 / 4


def test_without_critics_one_that_decides_is_the_whole_score() -> None:
    of = request(
        strategy={"kind": "self_correction"}, validators=[{"kind": "json"}, DECIDES],
        max_iterations=4,
    )  # fmt: skip
    outcome = played(of, "http", [0.5, 1.0])
    assert (outcome.best.iteration, outcome.reason) == (2, StopReason.VALIDATORS_PASSED)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"validators": [DECIDES, DECIDES]}, "two scores have the name 'http'"),
        ({"validators": [CRITERION], "criteria": [{"name": "measured"}]}, "two scores have"),
        ({"validators": [endpoint(score={"as": "advice"})]}, "decides"),
        ({"validators": [endpoint(score={"as": "criterion", "weight": 0})]}, "greater than 0"),
        ({"validators": [{"kind": "json", "score": {"as": "decides"}}]}, "Extra inputs"),
        (
            {"validators": [DECIDES], "strategy": {"kind": "self_consistency"}},
            "does not count in self_consistency",
        ),
    ],
)
def test_a_score_that_cannot_count_is_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        request(**fields)
