"""Journals of earlier releases: this one takes each over at any entry and ends it alike.

A folder holds the journals of one release, `<case>.json`: the summary hash, the request hash and
the stream, as Redis had them at the end. They are written once and never changed. Those of
`engine-1` and `engine-2`, named by the version of the engine, have with every step a hash of what
it was about; the release before wrote none.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from app.contract.endpoints import Endpoint
from app.contract.snapshot import Result, Snapshot
from app.store import keys
from tests.workers.refinement_harness import (
    TOKENS,
    RefinementHarness,
    ScriptedAnswers,
    open_harness,
)
from workers.models.port import ModelCall, ModelUnavailable
from workers.outbound.guarded_client import EndpointUnavailable
from workers.validators.running import ServerResources

RELEASES = Path(__file__).parent
UNCHANGED = ("tenant", "metadata", "strategy", "created_at", "retention_ms", "engine_version")
JOURNALS = sorted(RELEASES.glob("*/*.json"))


@dataclass(frozen=True)
class RecordedTools:
    """Endpoints that answer every call as it was answered then."""

    replies: Mapping[str, Any]

    async def post(self, endpoint: Endpoint, body: bytes, key: str, tenant: str = "") -> bytes:
        reply = self.replies[key.partition("/")[2]]
        if not reply["ok"]:
            raise EndpointUnavailable(reply["text"])
        return bytes(reply["text"], "utf-8")


@dataclass(frozen=True)
class StoredJournal:
    """What Redis had of one refinement, and its journal's data decoded."""

    summary: Mapping[str, str]
    request: Mapping[str, str]
    entries: tuple[tuple[str, Mapping[str, str]], ...]

    @classmethod
    def read(cls, path: Path) -> "StoredJournal":
        stored = json.loads(path.read_text())
        return cls(stored["summary"], stored["request"], tuple(map(tuple, stored["journal"])))

    def data(self, kind: str) -> list[Any]:
        return [json.loads(it["data"]) for _, it in self.entries if it["type"] == kind]

    def cuts(self) -> list[int]:
        """Numbers of entries after which a worker may have died: not while a reviewer is asked."""
        kinds = [it["type"] for _, it in self.entries]
        return [
            number
            for number in range(2, len(kinds))
            if kinds[number - 1] not in {"refinement.paused", "refinement.reviewed"}
        ]

    def restore(self, client: Any, refinement_id: str, entries: int) -> None:
        """Put it into Redis as it was after so many entries, held by no worker."""
        kept = self.entries[:entries]
        kinds = [it["type"] for _, it in kept]
        limits = json.loads(kept[0][1]["data"])["limits"]
        summary = {
            name: self.summary[name] for name in UNCHANGED if name in self.summary
        } | self._judged(entries)
        summary |= {
            "status": "running",
            "started_at": str(client.time()[0] * 1000),  # else its time would be over
            "last_event": str(entries),
            "limits": json.dumps(limits),
            "limits_seq": "1",
            "token": str(kinds.count("refinement.started") + kinds.count("refinement.resumed")),
            "attempt": "0",
            "op": "0",
            "jobs": "1",
            "steps": str(kinds.count("step.completed") + kinds.count("step.failed")),
            "phase": "[]",
        }
        with client.pipeline() as pipeline:
            pipeline.hset(keys.SUMMARY + refinement_id, mapping=summary)
            pipeline.hset(keys.REQUEST + refinement_id, mapping=dict(self.request))
            for number, fields in kept:
                pipeline.xadd(keys.JOURNAL + refinement_id, dict(fields), id=number)
            pipeline.execute()

    def _judged(self, entries: int) -> dict[str, str]:
        """What the iterations judged so far left in the summary."""
        kept = [it for _, it in self.entries[:entries]]
        judged = [json.loads(it["data"]) for it in kept if it["type"] == "iteration.completed"]
        if not judged:
            return {}
        scores = {
            it["path"]: {name: it[name] for name in ("iteration", "path", "score")} for it in judged
        }
        best = judged[-1]["best"]
        fields = {
            "scores": json.dumps([*scores.values()]),
            "best": json.dumps(best),
            "iteration": json.dumps(judged[-1]["iteration"]),
        }
        if best == json.loads(self.summary["best"]):  # else a later draft replaces the result
            fields |= {name: self.summary[name] for name in ("result", "best_passed")}
        return fields

    def models(self) -> ScriptedAnswers:
        """Models that answer every call as it was answered then."""
        replies = {it["key"]: it["reply"] for it in self.data("step.completed")}
        failures = {it["key"]: it for it in self.data("step.failed")}

        async def answer(key: str, _call: ModelCall) -> str:
            if key in failures:
                raise ModelUnavailable(failures[key]["detail"])
            text: str = replies[key]["text"]
            return text

        tools = {key: it for key, it in replies.items() if it["kind"] == "tool"}
        return ScriptedAnswers(
            answer, usage=TOKENS, outside=ServerResources(None, RecordedTools(tools))
        )


def compared(snapshot: Snapshot) -> dict[str, Any]:
    result = snapshot.result and snapshot.result.model_copy(update={"caveats": ()})
    return {  # caveats are said since version 3
        "status": snapshot.status,
        "stop_reason": snapshot.stop_reason,
        "passed": snapshot.passed,
        "result": result,
        "scores": sorted(snapshot.scores, key=lambda it: it.path),
    }


def expected(stored: StoredJournal) -> dict[str, Any]:
    summary = stored.summary
    scores = sorted(json.loads(summary["scores"]), key=lambda it: str(it["path"]))
    return {
        "status": summary["status"],
        "stop_reason": summary["stop_reason"],
        "passed": json.loads(summary["best_passed"]),
        "result": Result.model_validate_json(summary["result"]),
        "scores": scores,
    }


async def taken_over(
    harness: RefinementHarness, client: Redis, stored: StoredJournal, entries: int
) -> tuple[Snapshot, set[str]]:
    """Return how it ends when a worker of this release takes it over, and the calls it makes."""
    refinement_id = f"ref_{entries:026d}"
    stored.restore(client, refinement_id, entries)
    models = stored.models()
    words = {it["key"]: _word(it) for it in stored.data("refinement.reviewed")}
    await harness.play_on(harness.worker(models, str(entries)), refinement_id, words)
    return await harness.snapshot(refinement_id), set(models.calls)


def _word(said: Mapping[str, Any]) -> dict[str, Any]:
    names = ("action", "feedback", "draft", "score")
    return {name: said[name] for name in names if said.get(name) is not None}


@pytest.mark.parametrize("path", JOURNALS, ids=lambda it: f"{it.parent.name}-{it.stem}")
async def test_a_journal_of_an_earlier_release_is_taken_over_at_any_entry(
    redis_url: str, path: Path
) -> None:
    """One harness plays them all side by side: each is a refinement of its own."""
    stored = StoredJournal.read(path)
    cuts = stored.cuts()
    async with open_harness(redis_url) as harness:
        with Redis.from_url(redis_url) as client:
            played = [taken_over(harness, client, stored, entries) for entries in cuts]
            endings = await asyncio.gather(*played)
    for entries, (ended, calls) in zip(cuts, endings, strict=True):
        recorded = {
            json.loads(it["data"])["key"]
            for _, it in stored.entries[:entries]
            if it["type"].startswith("step.") and it["type"] != "step.started"
        }
        found = compared(ended)
        found["scores"] = [it.model_dump() for it in found["scores"]]
        assert found == expected(stored), f"taken over after entry {entries}"
        assert calls & recorded == set()


def test_every_release_left_its_journals() -> None:
    assert {it.parent.name for it in JOURNALS} == {"0.1.0", "engine-1", "engine-2"}
    assert len(JOURNALS) >= 57
