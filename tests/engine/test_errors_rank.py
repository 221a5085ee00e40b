"""What validators find wrong ranks drafts: fewer errors are better, and that is progress."""

import json

from app.contract.judgement import Finding, OnFail
from app.contract.requests import RefinementRequest
from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, drafts, request, verdict
from workers.engine.pipeline import strategy_for
from workers.engine.search import Outcome

SCHEMA = {"kind": "json_schema", "schema": True}
PLATEAU = {"patience": 2}


def errors(count: int, on_fail: OnFail = OnFail.VETO, weight: float = 1) -> tuple[Finding, ...]:
    return tuple(
        Finding(source="validators/0", kind="json", message=f"{it}", on_fail=on_fail, weight=weight)
        for it in range(count)
    )


def correcting(**fields: object) -> RefinementRequest:
    return request(strategy={"kind": "self_correction"}, validators=[SCHEMA], **fields)


def played(
    found: list[tuple[Finding, ...]],
    of: RefinementRequest,
    scores: list[float] | None = None,
    writer: list[str] | None = None,
) -> Outcome:
    given = iter(found)
    model = EngineDriver(
        (verdict(it) for it in scores or ()),
        iter(writer) if writer else drafts(),
        check=lambda _: next(given),
    )
    return model.run(strategy_for(of, "482913"), of.limits())


def test_of_drafts_with_6_2_and_5_errors_the_one_with_2_is_returned() -> None:
    outcome = played([errors(6), errors(2), errors(5)], correcting(max_iterations=3))
    assert outcome.best.path == "iterations/2"
    assert len(outcome.best.scored.findings) == 2


def test_fewer_errors_each_time_are_progress_until_the_cap() -> None:
    counts = [12, 11, 10, 9, 8, 7, 6, 5, 4, 3]
    outcome = played([errors(it) for it in counts], correcting(max_iterations=10, stop=PLATEAU))
    assert (outcome.reason, outcome.best.path) == (StopReason.MAX_ITERATIONS, "iterations/10")


def test_more_errors_each_time_are_a_plateau_and_so_are_as_many() -> None:
    more = [errors(it) for it in (3, 4, 5, 6)]
    outcome = played(more, correcting(max_iterations=10, stop=PLATEAU))
    assert (outcome.reason, outcome.best.path) == (StopReason.PLATEAU, "iterations/1")
    outcome = played([errors(3)] * 10, correcting(max_iterations=10, stop=PLATEAU))
    assert outcome.reason is StopReason.PLATEAU


def test_one_veto_outranks_any_number_of_lighter_errors() -> None:
    found = [errors(1), errors(9, OnFail.REVISE), errors(2)]
    outcome = played(found, correcting(max_iterations=3))
    assert outcome.best.path == "iterations/2"


def test_an_error_that_hides_the_others_is_worse_than_many() -> None:
    outcome = played([errors(20), errors(1, weight=21)], correcting(max_iterations=2))
    assert outcome.best.path == "iterations/1"


def test_errors_go_before_the_score_of_a_critic_and_warnings_and_its_findings_do_not() -> None:
    of = request(
        task="t", validators=[{**SCHEMA, "on_fail": "revise"}], max_iterations=3, threshold=0.99
    )
    revise, warn = OnFail.REVISE, OnFail.WARN
    found = [errors(2, revise), errors(1, revise), (*errors(1, revise), *errors(5, warn))]
    outcome = played(found, of, [0.9, 0.3, 0.4])
    assert outcome.best.path == "iterations/3"


def test_findings_of_a_critic_do_not_rank() -> None:
    noted = [{"kind": "quality", "message": f"{it}", "fix": "x"} for it in range(5)]
    critic = iter([verdict(0.5), verdict(0.6, findings=noted)])
    of = request(task="t", max_iterations=2)
    outcome = EngineDriver(critic, drafts()).play(of)
    assert outcome.best.path == "iterations/2"
    assert len(outcome.best.scored.critique.findings) == 5


def test_a_long_draft_with_one_character_corrected_is_not_a_standstill() -> None:
    texts = [json.dumps({str(it): "word" * 3 for it in range(400)} | {"x": n}) for n in range(4)]
    found = [errors(it) for it in (4, 3, 2, 1)]
    outcome = played(found, correcting(max_iterations=4), writer=texts)
    assert (outcome.reason, outcome.best.iteration) == (StopReason.MAX_ITERATIONS, 4)


def test_the_same_words_with_as_many_errors_are_a_standstill() -> None:
    texts = [json.dumps({str(it): "word" for it in range(400)}, indent=n) for n in (1, 2, 3, 4)]
    outcome = played([errors(2)] * 4, correcting(max_iterations=4), writer=texts)
    assert outcome.reason is StopReason.STABLE
