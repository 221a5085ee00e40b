"""`hone insights`: a table for every grouping."""

import json
import re

from app.api import examples
from tests.cli.conftest import Run
from tests.cli.scripted_server import CannedResponse, ScriptedApi


def test_insights_are_shown_in_a_table_for_every_grouping(server: ScriptedApi, hone: Run) -> None:
    found = json.loads(json.dumps(examples.INSIGHTS))
    (first, second) = found["data"]
    first["mean_usage"]["cost_usd"] = None
    second["value"] = "revision\x1b[31m"
    second["change"] |= {"low": None, "high": None}
    server.answers["GET /v1/statistics?of=insights&by=step&since=2026-01-31&limit=5"] = [
        CannedResponse(json.dumps(found))
    ]
    done = hone("insights", "--by", "step", "--since", "2026-01-31", "--limit", "5")
    since, *tables = done.stdout.split("\n\n")
    assert since == "Since 2025-08-24 (UTC)."
    cells = [[re.split(r"  +", line) for line in table.splitlines()] for table in tables]
    head = ["gain", "95 %", "change", "95 %", "kept", "cases", "cost", "seconds"]
    rest = ["73%", "391", "$0.0046", "8.9"]
    gain = ["+0.131", "+0.110 to +0.152"]
    assert cells == [
        [["strategy", *head], ["iterative", *gain, *gain, "86%", "214", "unknown", "21.7"]],
        [
            ["step", *head],
            [*("revision\ufffd[31m", "+0.072", "+0.060 to +0.083", "+0.054", "unknown"), *rest],
        ],
    ]


def test_without_insights_there_is_a_sentence(server: ScriptedApi, hone: Run) -> None:
    empty = json.dumps({"since": "2026-01-31", "data": []})
    server.answers["GET /v1/statistics?of=insights&limit=20"] = [CannedResponse(empty)]
    assert "No refinement has ended" in hone("insights").stdout
