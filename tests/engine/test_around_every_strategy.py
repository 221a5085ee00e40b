"""For every strategy: what is asked for after it changes neither the draft nor its score."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.engine_driver import Refusal, drafts, judged_by
from tests.engine.test_every_strategy import JUDGED_BY_A_CRITIC, asked_of
from workers.engine.moves import StepError, Stopped
from workers.engine.search import Outcome

SUBJECT = {"name": "subject", "instructions": "A subject line."}
AFTERWARDS: dict[str, Any] = {"compare": True, "outputs": [SUBJECT]}


@pytest.mark.parametrize("kind", JUDGED_BY_A_CRITIC)
@given(
    scores=st.lists(st.integers(0, 1000), min_size=9, max_size=9), stops_after=st.integers(1, 60)
)
def test_the_draft_and_its_score_are_those_without_it(
    kind: str, scores: list[int], stops_after: int
) -> None:
    def played(**around: Any) -> Outcome | None:
        def writer() -> Iterator[str | Refusal]:
            for number, text in enumerate(drafts(), 1):
                yield text if number <= stops_after else Stopped()

        def score(path: str, name: str) -> float:
            return scores[len(path) % 9] / 1000

        asked = asked_of(kind, max_iterations=6, **around)
        try:
            return judged_by(score, writer()).play(asked)
        except (Stopped, StepError):
            return None

    plain, more = played(), played(**AFTERWARDS)
    assert (plain is None) is (more is None)
    if plain and more:
        assert (more.best, more.reason, more.passed) == (plain.best, plain.reason, plain.passed)
        assert more.comparison is not None
        assert ("subject" in more.outputs) is ("outputs/subject" not in more.missing)
