"""The clients of a run: they submit, submit again after errors, watch, are cut off, and cancel."""

import asyncio
import time
from collections.abc import Mapping
from random import Random
from types import TracebackType
from typing import Any, Self

import aiohttp

from tests.faults.history import ENDS, POISON, Answers, Submission, Watched

AGAIN_S = 0.2
REQUEST_TIMEOUT_S = 10.0
SILENCE_S = 40.0  # the API sends a comment every 15 s
CUT = 0.05  # probability, after each event, that a watcher is cut off
SUBMITTED_AGAIN = 0.1  # probability that a client submits again what was accepted

OTHER_PROVIDER = "other"
OTHER_PATH = "/other"

BODIES: Mapping[str, Mapping[str, Any]] = {
    "iterative": {"max_iterations": 4},
    "best_of_n": {"strategy": {"kind": "best_of_n", "n": 3}, "max_iterations": 3},
    "panel": {
        "max_iterations": 2,
        "critics": {"panel": [{"name": "customer"}, {"name": "lawyer"}]},
    },
    "batch": {"max_iterations": 4, "priority": "batch"},
    "other": {
        "max_iterations": 4,
        "models": {"generator": f"{OTHER_PROVIDER}:test", "critic": f"{OTHER_PROVIDER}:test"},
    },
}
"""What is submitted, by the name of its shape; the threshold is never met."""

TOOL_SHAPES: Mapping[str, Mapping[str, Any]] = {
    "plain tool": {},
    "effects": {"effects": True},
    "idempotent": {"effects": True, "idempotent": True},
}
"""What is said of the tool that is called, by the name of the shape."""

SHAPES = ("iterative", "iterative", "best_of_n", "iterative", "panel")

LOST_CONNECTION = (aiohttp.ClientError, TimeoutError, OSError)


class Clients:
    """All clients of one run; what they did and were answered is kept."""

    def __init__(self, url: str, endpoint: Mapping[str, str]) -> None:
        self._endpoint = endpoint
        self.submissions: list[Submission] = []
        self.watched: list[Watched] = []
        self.answers = Answers()
        self.accepted_at: list[float] = []
        """When a submission was answered 202, by the monotonic clock."""
        self._url = f"{url}/v1/refinements"

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    @property
    def ids(self) -> list[str]:
        """Every id that a client was told."""
        return [refinement_id for it in self.submissions for refinement_id in it.ids]

    async def submit(self, number: int, chance: Random, shape: str) -> str:
        """Submit until it is accepted, always with the same key; return the id."""
        submission = Submission(number, shape)
        self.submissions.append(submission)
        wanted = 1 + (chance.random() < SUBMITTED_AGAIN)
        body = {
            "task": f"Explain {'poison-dies' if shape == POISON else 'refund'} {number}.",
            "threshold": 1.0,
            **self._wanted(shape),
        }
        headers = {"Idempotency-Key": f"key-{number}"}
        while len(submission.ids) < wanted:
            status, answer = await self._post(self._url, {202}, json=body, headers=headers)
            if status == 202:
                submission.ids.append(answer["id"])
                self.accepted_at.append(time.monotonic())
            else:
                await asyncio.sleep(AGAIN_S)
        return submission.ids[0]

    def _wanted(self, shape: str) -> Mapping[str, Any]:
        """Return what is submitted; a plan with a tool also tells an endpoint of its end."""
        if shape not in TOOL_SHAPES:
            return BODIES[shape.replace(POISON, "iterative")]
        acts = {"name": "act", "description": "Does it.", "parameters": {"type": "object"}}
        return {
            "strategy": {"kind": "plan_execute"},
            "max_iterations": 2,
            "tools": [{**self._endpoint, **acts, **TOOL_SHAPES[shape]}],
            "webhook": self._endpoint,
        }

    async def cancel(self, refinement_id: str) -> None:
        """Cancel until it is answered; a refinement that has ended is not canceled."""
        for submission in self.submissions:
            if refinement_id in submission.ids:
                submission.is_canceled = True
        status = 0
        while status not in {202, 409}:
            status, _ = await self._post(f"{self._url}/{refinement_id}/cancel", {202, 409})
            await asyncio.sleep(AGAIN_S)

    async def watch(self, refinement_id: str, chance: Random) -> None:
        """Watch to the end; go on with the last number after every cut."""
        watched = Watched(refinement_id)
        self.watched.append(watched)
        while not watched.has_seen_end:
            try:
                await self._stream(watched, chance)
            except LOST_CONNECTION:
                self.answers.broken_off += 1
            await asyncio.sleep(AGAIN_S)

    async def _stream(self, watched: Watched, chance: Random) -> None:
        headers = {"Last-Event-ID": str(watched.numbers[-1])} if watched.numbers else {}
        began = time.monotonic()
        async with self._session.get(
            f"{self._url}/{watched.id}/events",
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=SILENCE_S),
        ) as response:
            if response.status != 200:
                return self._note(response, {204}, began)
            fields: dict[bytes, bytes] = {}
            async for line in response.content:
                if line != b"\n":
                    name, _, value = line.strip().partition(b": ")
                    fields[name] = value
                elif b"id" in fields:  # the whole event has arrived
                    watched.numbers.append(int(fields[b"id"]))
                    watched.has_seen_end |= fields[b"event"].decode() in ENDS
                    fields = {}
                    if not watched.has_seen_end and chance.random() < CUT:
                        watched.cuts += 1
                        return None
        return None

    async def _post(self, url: str, expected: set[int], **request: Any) -> tuple[int, Any]:
        began = time.monotonic()
        try:
            async with self._session.post(url, **request) as response:
                self._note(response, expected, began)
                return response.status, await response.json()
        except LOST_CONNECTION:
            self.answers.broken_off += 1
            return 0, None

    def _note(self, response: aiohttp.ClientResponse, expected: set[int], began: float) -> None:
        if response.status == 503:
            self.answers.unavailable_s.append(time.monotonic() - began)
            if "Retry-After" not in response.headers:
                self.answers.unexpected.append(f"503 without Retry-After from {response.url.path}")
        elif response.status not in expected:
            self.answers.unexpected.append(f"{response.status} from {response.url.path}")
