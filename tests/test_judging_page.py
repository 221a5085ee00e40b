"""What the page on judging shows is what this server takes and gives."""

import re
from pathlib import Path

from app.contract.judgement import CriterionScore
from app.contract.ratings import RatingRequest
from app.contract.requests import RefinementRequest
from app.contract.statistics import CalibrationList

PAGE = (Path(__file__).parent.parent / "docs" / "judging.md").read_text()
EXAMPLES = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)


def test_every_request_on_the_page_is_understood() -> None:
    requests = [it for it in EXAMPLES if '"task"' in it or '"draft"' in it]
    assert len(requests) >= 2
    for it in requests:
        RefinementRequest.model_validate_json(it, strict=True)


def test_the_ratings_and_the_calibration_on_the_page_are_understood() -> None:
    ratings = [it for it in EXAMPLES if it.startswith('{"path"')]
    assert len(ratings) == 2
    for it in ratings:
        RatingRequest.model_validate_json(it, strict=True)
    (shown,) = [it for it in EXAMPLES if '"noise"' in it]
    CalibrationList.model_validate_json(shown, strict=True)


def test_the_score_on_the_page_is_one_that_the_server_could_give() -> None:
    (shown,) = [it for it in EXAMPLES if '"evidence"' in it]
    score = CriterionScore.model_validate_json(shown, strict=True)
    assert all(len(it.quote) == it.span.end - it.span.start for it in score.evidence)
