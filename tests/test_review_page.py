"""What the pages on reviews and on continuing tell a reader to send is what this server takes."""

import re
from pathlib import Path

from app.contract.overlays import PartialRequest
from app.contract.requests import RefinementRequest
from app.contract.reviews import ReviewDecision
from app.contract.status import StopReason

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "reviews.md").read_text()
CONTINUING = (DOCS / "requests.md").read_text()
SENT = re.findall(r"curl (\S+).* -d '(.*)'", PAGE)


def test_every_action_is_shown_with_a_body_that_is_taken() -> None:
    words = [
        ReviewDecision.model_validate_json(body, strict=True) for to, body in SENT if to == "$R"
    ]
    actions = ReviewDecision.model_json_schema()["properties"]["action"]["enum"]
    of_a_call = [words.pop(place) for place in (8, 7, 6)]
    assert [*dict.fromkeys(word.action for word in words)] == actions
    assert any(word.spans for word in words)
    assert any(word.reviewer for word in words)
    assert [word.action for word in of_a_call] == ["reject", "replace", "approve"]
    assert of_a_call[1].arguments


def test_the_continuations_that_are_shown_are_taken() -> None:
    bodies = re.findall(r"curl \S*\$R/continue.* -d '(.*)'", CONTINUING)
    assert len(bodies) > 2
    for body in bodies:
        PartialRequest.model_validate_json(body, strict=True)


def test_the_request_that_is_shown_asks_for_reviews() -> None:
    for request in re.findall(r"```json\n(\{.*?)```", PAGE, re.DOTALL):
        assert RefinementRequest.model_validate_json(request, strict=True).review


def test_every_field_that_null_takes_away_is_named() -> None:
    [named] = re.findall(r"- `null` is a value: it takes away (.*)\.\n", CONTINUING)
    fields = RefinementRequest.model_fields.items()
    taken = {name for name, field in fields if field.default is None}
    assert set(re.findall(r"`(\w+)`", named)) == taken


def test_the_decisions_that_end_it_are_stop_reasons() -> None:
    assert {"approved", "rejected"} <= set(StopReason)
