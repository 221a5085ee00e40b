"""For any scores and any findings: what comes back, and what it may cost."""

from hypothesis import given
from hypothesis import strategies as st

from app.contract.calls import AGAIN
from app.contract.drafts import sha256_of
from app.contract.judgement import Finding, OnFail
from tests.engine.engine_driver import EngineDriver, request, verdict
from workers.engine.moves import Ask, Judged, Judgement, StepError, Stopped

NAMES = ("accuracy", "tone")
CRITERIA = [{"name": "accuracy", "floor": 0.5, "weight": 2}, {"name": "tone"}]
SCORES = st.one_of(st.none(), st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0]))
JUDGEMENTS = st.lists(st.tuples(SCORES, SCORES, st.booleans()), min_size=60, max_size=60)
TEXTS = st.lists(st.text("ab c", min_size=1).filter(str.strip), min_size=60, max_size=60)


def in_order(judged: Judgement) -> tuple[bool, bool, float]:
    """The order of the design, written down again from the parts of a judgement."""
    accuracy, tone = (it.score for it in judged.scored.scores)
    weighted = [(s, w) for s, w in ((accuracy, 2.0), (tone, 1.0)) if s is not None]
    mean = sum(s * w for s, w in weighted) / sum(w for _, w in weighted)
    return (not judged.scored.findings, accuracy is not None and accuracy >= 0.5, round(mean, 6))


@given(JUDGEMENTS, TEXTS, st.booleans(), st.integers(1, 12), st.integers(0, 40))
def test_the_outcome_is_the_best_judged_draft_and_caps_hold(
    judgements: list[tuple[float | None, float | None, bool]],
    texts: list[str],
    own_draft: bool,
    cap: int,
    stop_after: int,
) -> None:
    veto = Finding(source="validators/0", kind="length", message="no", on_fail=OnFail.VETO)
    vetoes = iter([(veto,) if vetoed else () for _, _, vetoed in judgements])
    critic = [verdict(a, b, names=NAMES) for a, b, _ in judgements]
    model = EngineDriver(
        iter([*critic[:stop_after], *([Stopped()] * 60)]), iter(texts), check=lambda _: next(vetoes)
    )
    asked = request(
        draft="one two three four" if own_draft else None,
        criteria=CRITERIA,
        validators=[{"kind": "length", "max_words": 1}],
        max_iterations=cap,
        stop={"tolerance": 0},
    )
    try:
        best = model.play(asked).best
    except (Stopped, StepError):
        best = None
    judged = [move.judgement for move in model.moves if isinstance(move, Judged)]
    if best is not None:
        assert best == max(judged, key=lambda it: (in_order(it), -it.iteration))
        assert best.scored.draft.sha256 == sha256_of(best.scored.draft.text)
    written = [move for move in model.moves if isinstance(move, Ask) and move.role == "generator"]
    assert len(written) <= cap
    assert len(model.asked("critic")) <= (cap + own_draft) * (AGAIN + 1)
    assert len(set(model.paths)) == len(model.paths)
