"""Validators alone drive: no critic is asked, and the exact errors are what is mended."""

from collections.abc import Iterable

import pytest
from pydantic import ValidationError

from app.contract.judgement import Finding, OnFail
from app.contract.requests import RefinementRequest
from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, drafts, request
from workers.engine.moves import Judged, Stopped

KIND = {"kind": "self_correction"}
JSON = {"kind": "json"}


def correcting(**fields: object) -> RefinementRequest:
    """Four validators, unless the fields say otherwise."""
    return request(
        **{"strategy": KIND, "validators": [JSON] * 4, "stop": {"patience": 50}, **fields}
    )


def finding(validator: int, on_fail: OnFail = OnFail.VETO) -> Finding:
    return Finding(
        source=f"validators/{validator}", kind="json", message=f"error {validator}", on_fail=on_fail
    )


def model(*found: Iterable[Finding], writer: Iterable[str | Stopped] | None = None) -> EngineDriver:
    """A writer, and validators that find this in turn; there is no critic to ask."""
    given = iter(found)
    return EngineDriver(
        iter(()), iter(writer) if writer else drafts(), check=lambda _: tuple(next(given))
    )


def test_corrects_until_every_validator_passes() -> None:
    played = model([finding(0), finding(1)], [finding(1)], [])
    outcome = played.play(correcting())
    assert (outcome.reason, outcome.passed) == (StopReason.VALIDATORS_PASSED, True)
    assert played.paths == [
        "iterations/1/draft",
        "iterations/1/check",
        "iterations/1",
        "iterations/2/revise",
        "iterations/2/check",
        "iterations/2",
        "iterations/3/revise",
        "iterations/3/check",
        "iterations/3",
    ]


def test_the_score_is_the_share_of_validators_that_pass() -> None:
    played = model([finding(0), finding(0), finding(1)], [finding(3)], [])
    outcome = played.play(correcting())
    judged = [move.judgement.scored for move in played.moves if isinstance(move, Judged)]
    assert [it.score for it in judged] == [0.5, 0.75, 1.0]
    assert outcome.score_from == "validators"


def test_the_exact_error_of_the_best_draft_is_what_is_mended() -> None:
    played = model([finding(2)], [finding(0), finding(1), finding(2)], [])
    played.play(correcting())
    _, *revisions = played.asked("generator")
    assert all("error 2" in it.prompt.user for it in revisions)
    demanded = [it.prompt.user.partition("Tried before")[0] for it in revisions]
    assert not any("error 0" in it for it in demanded)


def test_a_good_enough_share_is_not_all_of_them() -> None:
    played = model([finding(0, OnFail.REVISE)], [finding(0, OnFail.REVISE)])
    outcome = played.play(correcting(threshold=0.5, max_iterations=2))
    assert (outcome.reason, outcome.passed) == (StopReason.MAX_ITERATIONS, True)


def test_a_warning_drives_nothing() -> None:
    validators = [JSON, {**JSON, "on_fail": "warn"}]
    outcome = model([finding(1, OnFail.WARN)]).play(correcting(validators=validators))
    assert (outcome.reason, outcome.best.scored.score) == (StopReason.VALIDATORS_PASSED, 1.0)


def test_a_writer_that_changes_nothing_is_not_asked_for_ever() -> None:
    asked = correcting(stop={"escape": False})
    outcome = model([finding(0)], [finding(0)], writer=["{", "{"]).play(asked)
    assert (outcome.reason, outcome.passed) == (StopReason.STABLE, False)


def test_stopped_from_outside_it_keeps_the_best_and_its_share() -> None:
    outcome = model([finding(0)], writer=["{", Stopped()]).play(correcting())
    assert (outcome.reason, outcome.best.scored.score) == (None, 0.75)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"validators": []}, "requires a validator"),
        ({"validators": [{**JSON, "on_fail": "warn"}]}, "`on_fail` other than `warn`"),
        ({"criteria": [{"name": "tone"}]}, "asks no critic"),
    ],
)
def test_what_validators_cannot_drive_is_refused(fields: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        correcting(**fields)
