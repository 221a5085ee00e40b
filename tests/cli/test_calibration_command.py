"""`hone calibration`: a table of the kinds."""

import re

from app.contract.statistics import CalibratedKind, CalibrationList, FirstDrafts
from tests.cli.conftest import Run
from tests.cli.scripted_server import CannedResponse, ScriptedApi

KIND = CalibratedKind(
    generator="a:writer",
    critic="a:critic",
    strategy="iterative",
    criteria="5d41402abc4b2a76",
    refinements=42.3,
    noise=0.08,
    gain=0.05,
    first_drafts=FirstDrafts(mean=0.62, sd=0.11),
    trust=0.57,
    pairs=18,
    ratings=12,
)
UNKNOWN = dict.fromkeys(
    ("generator", "strategy", "criteria", "noise", "gain", "first_drafts"), None
)


def test_kinds_are_shown_in_a_table(server: ScriptedApi, hone: Run) -> None:
    rated = KIND.model_copy(update={**UNKNOWN, "critic": "b:\x1b[31m", "refinements": 0})
    found = CalibrationList(data=(KIND, rated))
    server.answers["GET /v1/statistics?of=calibration&limit=5"] = [
        CannedResponse(found.model_dump_json())
    ]
    lines = hone("calibration", "--limit", "5").stdout.splitlines()
    head, first, second = (re.split(r"  +", line) for line in lines)
    assert head[1:] == ["known", "noise", "gain", "first drafts", "sd", "trust", "pairs", "ratings"]
    assert first == [
        "a:writer / a:critic / iterative / 5d41402abc4b2a76",
        *("42.3", "0.080", "0.050", "0.620", "0.110", "0.57", "18.0", "12"),
    ]
    assert second == [
        "any / b:\ufffd[31m / any / any",
        *("0.0", *["unknown"] * 4, "0.57", "18.0", "12"),
    ]


def test_without_history_there_is_a_sentence(server: ScriptedApi, hone: Run) -> None:
    server.answers["GET /v1/statistics?of=calibration&limit=100"] = [CannedResponse('{"data": []}')]
    assert "Nothing was learnt yet" in hone("calibration").stdout
