"""What a reviser is told of earlier attempts, and a critic is not."""

from tests.engine.engine_driver import EngineDriver, drafts, request, verdict

LATE = {"kind": "quality", "message": "Does not state the 30-day limit."}
COLD = {"kind": "quality", "message": "The tone is cold."}
FOUND = [[LATE, COLD], [LATE], [COLD], []]
REMEMBERED = ["carried since", "came back", "earlier revisions"]


def played() -> EngineDriver:
    scores = [0.4, 0.5, 0.6, 0.7]
    critic = (verdict(score, findings=it) for score, it in zip(scores, FOUND, strict=True))
    model = EngineDriver(critic, drafts())
    model.play(request(max_iterations=4))
    return model


def test_the_reviser_learns_what_earlier_attempts_did_not_mend_and_what_came_back() -> None:
    first, second, third = [it.prompt.user for it in played().asked("generator")[1:]]
    assert not any(it in first for it in REMEMBERED)
    assert f"{LATE['message']} (carried since iterations/1: earlier attempts" in second
    assert f"{COLD['message']} (came back: found first in iterations/1" in third


def test_the_reviser_learns_what_may_not_be_undone() -> None:
    second, third = [it.prompt.user for it in played().asked("generator")[2:]]
    heading = "Mended by earlier revisions, and not to be undone:\n- quality: "
    assert heading + COLD["message"] in second
    assert heading + LATE["message"] in third


def test_the_critic_learns_nothing_of_it() -> None:
    for question in played().asked("critic"):
        text = question.prompt.system + question.prompt.user
        assert not any(it in text for it in [*REMEMBERED, LATE["message"], COLD["message"]])
