"""What is encoded comes back equal."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.contract.judgement import Usage
from app.contract.limits import Limits
from app.contract.models import ModelChoice
from app.contract.requests import RefinementRequest
from app.contract.reviews import PendingPause
from app.contract.snapshot import Best, Failure, IterationScore, Result, Snapshot
from app.contract.status import Caveat, Status, StopReason
from app.store import Fields, State, Submitted
from app.store.redis.codec import (
    decode_limits,
    decode_models,
    decode_request,
    decode_state,
    encode_entries,
    encode_fields,
    encode_limits,
    encode_metadata,
    encode_submitted,
    moment,
    snapshot_json,
)
from tests.store.store_harness import failed_step, step

scores = st.none() | st.floats(0, 1)
texts = st.text(st.characters(exclude_categories=["Cs"]))
caveats = st.builds(Caveat, path=texts, detail=texts)
iteration_scores = st.builds(IterationScore, iteration=st.integers(0, 50), path=texts, score=scores)
bests = st.builds(Best, iteration=st.integers(0, 50), path=texts, score=scores, sha256=texts)
limits = st.builds(
    Limits,
    threshold=st.floats(0, 1),
    max_iterations=st.integers(1, 50),
    patience=st.integers(1, 50),
    min_improvement=st.floats(0, 1),
    max_similarity=st.floats(0, 1),
    max_seconds=st.floats(0, 86_400, exclude_min=True),
    max_tokens=st.none() | st.integers(1, 10**9),
    max_cost_usd=st.none() | st.floats(0, 1e3, exclude_min=True),
)
fields = st.builds(
    Fields,
    phase=st.lists(texts).map(tuple),
    iteration=st.integers(0, 50),
    best=bests,
    best_passed=st.booleans(),
    scores=st.lists(iteration_scores, max_size=5).map(tuple),
    usage=st.builds(Usage, cost_usd=st.none() | st.floats(0, 1e6)),
    result=st.builds(
        Result,
        draft=texts,
        iteration=st.integers(0, 50),
        path=texts,
        score=scores,
        score_from=st.sampled_from(["critique", "validators", "agreement", "parts"]),
        sha256=texts,
        caveats=st.lists(caveats, max_size=2).map(tuple),
    ),
    stop_reason=st.sampled_from(StopReason),
    error=st.builds(Failure, code=texts, detail=texts),
)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


@given(limits)
def test_limits(it: Limits) -> None:
    assert decode_limits(encode_limits(it)) == it


@given(fields, limits, st.dictionaries(texts, texts), st.integers(0, 2**41))
def test_fields_come_back_in_the_snapshot(
    it: Fields, limits: Limits, metadata: dict[str, str], at: int
) -> None:
    encoded = [_bytes(value) for value in encode_fields(it)]
    summary = dict(zip(encoded[::2], encoded[1::2], strict=True))
    summary |= {
        b"status": b"succeeded",
        b"strategy": b"iterative",
        b"limits": encode_limits(limits),
        b"created_at": b"%d" % at,
        b"last_event": b"7",
        b"metadata": encode_metadata(metadata),
    }
    snapshot = Snapshot.model_validate_json(snapshot_json("ref_1", summary))
    shown = (snapshot.phase, snapshot.iteration, snapshot.best, snapshot.scores)
    assert shown == (it.phase, it.iteration, it.best, it.scores)
    shown_too = (snapshot.usage, snapshot.result, snapshot.stop_reason, snapshot.error)
    assert shown_too == (it.usage, it.result, it.stop_reason, it.error)
    in_force = (limits.threshold, limits.max_iterations)
    assert (snapshot.threshold, snapshot.max_iterations) == in_force
    assert (snapshot.metadata, snapshot.created_at) == (metadata, moment(at))


@given(st.lists(texts, min_size=1).map(tuple), texts)
def test_an_entry_says_what_is_under_way_after_a_step(keys: tuple[str, ...], text: str) -> None:
    for entry in (step(text=text), failed_step(text)):
        assert entry.data is not None
        _, written = encode_entries([replace(entry, next=keys)])
        assert written == entry.data.model_copy(update={"next": keys}).model_dump_json().encode()


def test_fields_left_out_are_not_encoded() -> None:
    assert encode_fields(Fields()) == []


@given(texts.filter(bool), st.floats(0, 2), st.dictionaries(texts, st.integers()))
def test_what_was_submitted(task: str, temperature: float, schema: dict[str, int]) -> None:
    request = RefinementRequest.model_validate(
        {"task": task, "validators": [{"kind": "json_schema", "schema": {"properties": schema}}]}
    )
    models = {"critic": ModelChoice(model="openai:gpt", temperature=temperature)}
    stored_request, stored_models = encode_submitted(Submitted(request, models, "482913"))
    assert decode_request(stored_request) == request
    assert decode_models(stored_models) == models


@given(st.sampled_from(Status), st.none() | st.sampled_from(StopReason), st.booleans(), limits)
def test_the_state_that_scripts_write(
    status: Status, stopping: StopReason | None, finish: bool, it: Limits
) -> None:
    asked = PendingPause(timeout_s=60, key="pauses/1")
    for pause, written in ((None, "-"), (asked, asked.model_dump_json())):
        head = f"{status} 12 {stopping or '-'} {int(finish)} {written} 3 ".encode()
        state = State(status, 12, it, 3, stopping, finish, pause)
        assert decode_state(head + encode_limits(it), None) == state
        assert decode_state(head, state) == state
