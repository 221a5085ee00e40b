"""An API that refines as scripted, and remembers what it was asked to, as a service does."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import unquote, urlsplit

from app.contract.budget import Cap, Consumption, RefinementEstimate
from app.contract.judgement import CriterionScore, Usage
from app.contract.ratings import Rating
from app.contract.snapshot import Failure, Iteration, IterationList, Result, Snapshot
from app.contract.status import Status
from app.store.redis.codec import links
from tests.cli.scripted_refinement import AT, snapshot
from tests.cli.scripted_server import CannedResponse, ReceivedRequest, ScriptedApi, scripted_server

Body = Mapping[str, Any]
CONSUMED = Consumption(calls=3, input_tokens=1_000, output_tokens=500, tokens=1_500, cost_usd=0.01)
CAP = Cap(calls=9, max_tokens=None, max_cost_usd=None)


def written(body: Body) -> str:
    """The final draft: that of the setting, by its threshold."""
    return f"{body['draft']} (as {body.get('threshold', 0.85)})"


def higher_threshold_better(body: Body) -> float:
    """The score of a draft, which differs from text to text."""
    draft = str(body["draft"])
    noise = sha256(draft.encode()).digest()[0] / 2_560
    return (0.8 if "(as 0.9)" in draft else 0.5) + noise


def problem(status: int, code: str, detail: str = "no") -> CannedResponse:
    said = {"type": "", "title": code, "status": status, "detail": detail, "instance": ""}
    return CannedResponse(json.dumps({**said, "code": code}), status, "application/problem+json")


@dataclass
class ComparingApi(ScriptedApi):
    """Every refinement ends at once; a test may say which ones do not succeed."""

    score: Callable[[Body], float] = higher_threshold_better
    writes: Callable[[Body], str] = written
    status_of: Callable[[Body], Status] = lambda _: Status.SUCCEEDED
    refuses: Callable[[Body], CannedResponse | None] = lambda _: None
    criteria: tuple[str, ...] = ("clarity",)
    cost_usd: float | None = 0.01
    goes_away: int = 0
    """How many of the next requests it does not answer."""
    submitted: dict[str, Body] = field(default_factory=dict)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    ratings: dict[str, tuple[Rating, ...]] = field(default_factory=dict)

    def answer_to(self, asked: ReceivedRequest) -> CannedResponse:
        if self.goes_away:
            self.goes_away -= 1
            raise ConnectionAbortedError
        self.asked.append(asked)
        method, _, url = asked.route.partition(" ")
        parts = urlsplit(url).path.split("/")[2:]
        if method == "POST":
            return self._posted(asked, parts)
        if parts[0] == "calibration":
            return CannedResponse('{"data": []}')
        if len(parts) == 1:
            return self._listed(unquote(urlsplit(url).query))
        if parts[2:] == ["iterations"]:
            return CannedResponse(self._iterations(parts[1]).model_dump_json())
        return CannedResponse(self.snapshots[parts[1]].model_dump_json())

    def _posted(self, asked: ReceivedRequest, parts: list[str]) -> CannedResponse:
        body = json.loads(asked.body)
        if len(parts) == 3:  # a retry
            self.snapshots[parts[1]] = self._ended(parts[1], self.submitted[parts[1]])
            return CannedResponse(self.snapshots[parts[1]].model_dump_json(), 202)
        if refused := self.refuses(body):
            return refused
        if parts == ["estimates"]:
            models = {"generator": "openai:gpt-5-mini", "critic": "openai:gpt-5-mini"}
            found = RefinementEstimate(
                strategy="iterative", models=models, expected=CONSUMED, p95=CONSUMED, cap=CAP
            )
            return CannedResponse(found.model_dump_json())
        for refinement_id, given in self.submitted.items():
            if given == body:
                return CannedResponse(self.snapshots[refinement_id].model_dump_json(), 202)
        refinement_id = f"ref_{len(self.submitted)}"
        self.submitted[refinement_id] = body
        self.snapshots[refinement_id] = self._ended(refinement_id, body)
        return CannedResponse(self.snapshots[refinement_id].model_dump_json(), 202)

    def _ended(self, refinement_id: str, body: Body) -> Snapshot:
        status = self.status_of(body)
        judges = body.get("strategy") == {"kind": "critique"}
        text = body["draft"] if judges else self.writes(body)
        result = Result(
            draft=text,
            iteration=1,
            path="iterations/1",
            score=self.score({"draft": text}),
            sha256=sha256(text.encode()).hexdigest(),
        )
        changes = {
            "id": refinement_id,
            "status": status,
            "result": result if status is Status.SUCCEEDED else None,
            "error": Failure(code="model_refused", detail="the model refuses")
            if status is Status.FAILED
            else None,
            "usage": Usage(calls=2, cost_usd=self.cost_usd),
            "metadata": body["metadata"],
            "links": links(refinement_id),
        }
        return snapshot().model_copy(update=changes)

    def _listed(self, query: str) -> CannedResponse:
        name = query.partition("metadata.compare=")[2].partition("&")[0]
        found = [
            json.loads(snapshot.model_dump_json())
            for snapshot in reversed(self.snapshots.values())
            if snapshot.metadata.get("compare") == name
        ]
        return CannedResponse(json.dumps({"data": found, "has_more": False, "next_cursor": None}))

    def _iterations(self, refinement_id: str) -> IterationList:
        result = self.snapshots[refinement_id].result
        assert result is not None
        assert result.score is not None
        one = Iteration(
            iteration=1,
            path="iterations/1",
            draft=result.draft,
            sha256=result.sha256,
            parent=None,
            score=result.score,
            scores=tuple(
                CriterionScore(criterion=criterion, score=result.score, reason="It is so.")
                for criterion in self.criteria
            ),
            passed=True,
            findings=(),
            strengths=(),
            weaknesses=(),
            suggestions=(),
            asked=(),
            usage=Usage(),
            ratings=self.ratings.get(refinement_id, ()),
        )
        return IterationList(data=(one,))

    def rate(self, refinement_id: str, by: str, score: float) -> None:
        """Let a person score the final draft."""
        before = self.ratings.get(refinement_id, ())
        result = self.snapshots[refinement_id].result
        assert result is not None
        given = Rating(
            path=result.path,
            sha256=result.sha256,
            score=score,
            by=by,
            event=len(before) + 1,
            at=AT,
        )
        self.ratings[refinement_id] = (*before, given)

    def runs(self, setting: str) -> list[str]:
        """The ids of what was submitted for a setting, in order; `judge` has the judgements."""
        return [
            refinement_id
            for refinement_id, body in self.submitted.items()
            if body["metadata"]["compare_setting"] == setting
        ]


@contextmanager
def comparing_api() -> Iterator[ComparingApi]:
    with scripted_server(ComparingApi) as api:
        assert isinstance(api, ComparingApi)
        yield api
