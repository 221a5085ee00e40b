"""What the page on reviews tells a reader to send is what this server takes."""

import re
from pathlib import Path

from app.contract.requests import Continuation, RefinementRequest
from app.contract.reviews import ReviewDecision
from app.contract.status import StopReason

PAGE = (Path(__file__).parent.parent / "docs" / "reviews.md").read_text()
SENT = re.findall(r"curl (\S+).* -d '(.*)'", PAGE)


def test_every_action_is_shown_with_a_body_that_is_taken() -> None:
    words = [
        ReviewDecision.model_validate_json(body, strict=True) for to, body in SENT if to == "$R"
    ]
    actions = ReviewDecision.model_json_schema()["properties"]["action"]["enum"]
    of_a_call = [words.pop(place) for place in (8, 7, 6)]
    assert [*dict.fromkeys(word.action for word in words)] == actions
    assert any(word.spans for word in words)
    assert [word.action for word in of_a_call] == ["reject", "replace", "approve"]
    assert of_a_call[1].arguments


def test_the_continuation_that_is_shown_is_taken() -> None:
    [body] = [body for to, body in SENT if to.endswith("/continue")]
    assert Continuation.model_validate_json(body, strict=True).changes()


def test_the_request_that_is_shown_asks_for_reviews() -> None:
    [request] = re.findall(r"```json\n(\{.*?)```", PAGE, re.DOTALL)
    assert RefinementRequest.model_validate_json(request, strict=True).review


def test_every_field_that_is_named_exists() -> None:
    named = re.search(r"what changes: (.*?)\.\n", PAGE)
    assert named
    assert set(re.findall(r"`(\w+)`", named[1])) == set(Continuation.model_fields)
    assert {"approved", "rejected"} <= set(StopReason)
