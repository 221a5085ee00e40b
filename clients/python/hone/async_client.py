"""The asynchronous client. `client.py`, the synchronous one, is generated from this file."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack
from urllib.parse import quote

import httpx

from hone import models
from hone.decoding import decode
from hone.errors import (
    CLASSES,
    ApiError,
    HoneError,
    NotHone,
    ServerUnreachable,
    TimedOut,
)
from hone.events import Event, MessageReader, read_event
from hone.params import (
    LimitsChange,
    PauseRequest,
    RatingRequest,
    RefinementOptions,
    RefinementRequest,
    ReviewDecision,
)
from hone.results import Result, result_of

Answer = TypeVar("Answer")
Request = RefinementRequest | Mapping[str, Any]

TIMEOUT = httpx.Timeout(30.0, connect=10.0)
SILENCE_S = 45.0  # three times the interval of the comments of an event stream
LEAST_S = 1.0  # so that a wait with a timeout of 0 looks once
HELD_S = 25  # how long the server holds a request for news
PATIENCE_S = 120.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 8.0
LONGEST_RETRY_AFTER_S = 60.0
NAMING = {"id": str, "data": list, "line": int}
"""Fields by which answers are known: one whose class has such a field has it, in any release."""
REPEATED = {408, 429, 502, 503, 504}
NOT_SENT = httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout
REPEATABLE = re.compile(r"/v1/(refinements|batches|estimates|endpoints/[^/]+/rotate\b)|/openai/")
"""Where a POST with an `Idempotency-Key` takes effect once, however often it is sent."""


class AsyncHone:
    """A client of one Hone server; safe for concurrent use.

    `url` defaults to the variable HONE_SERVER, else to http://localhost:8080; `api_key` to
    HONE_API_KEY. `timeout` is that of one request, in seconds. A request that finds no server, or
    is answered 408, 429, 502, 503 or 504, is repeated up to `max_retries` times with growing
    pauses: 8 take about 25 s, and longer where `Retry-After` says so (at most 60 s each). Take 0 in
    a handler that must answer at once. A quota that is used up is not asked again. Each POST and
    PATCH carries an `Idempotency-Key`, so that nothing is done twice; where the server takes none,
    as for API keys, what may have arrived is not repeated. `patience_s` is how long `wait` and
    `events` go on without an answer. `on_retry` is called before each pause, with the error and the
    number of failures in a row; what it raises ends the attempts. All methods raise ApiError,
    ServerUnreachable or NotHone.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float | httpx.Timeout = TIMEOUT,
        max_retries: int = 8,
        patience_s: float = PATIENCE_S,
        on_retry: Callable[[HoneError, int], None] | None = None,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        self.url = (url or os.environ.get("HONE_SERVER") or "http://localhost:8080").rstrip("/")
        self.max_retries = max_retries
        self.patience_s = patience_s
        self._on_retry = on_retry
        key = api_key if api_key is not None else os.environ.get("HONE_API_KEY", "")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = http_client or httpx.AsyncClient(timeout=timeout)
        self._owns_http = http_client is None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._owns_http:
            await self._http.aclose()

    # One text, from beginning to end

    async def refine(
        self,
        draft: str | None = None,
        *,
        must_pass: bool | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        **request: Unpack[RefinementOptions],
    ) -> Result:
        """Refine a text, or write one for `task`, and return the best draft with its score.

        Check `passed`: the best draft need not meet the threshold. With `must_pass` one that does
        not raises NotPassed, whose `result` it is; without a word of yours it is logged as a
        warning, with the reason; False says nothing.

        Waits until it has ended, through restarts of the server, at most `timeout` seconds. Raises
        RefinementFailed or RefinementCanceled, whose `snapshot` has what there is; TimedOut,
        while the refinement goes on, if it was submitted.
        """
        deadline = _deadline(timeout)
        snapshot = await self._submit(draft, idempotency_key, request, deadline)
        return result_of(await self._ended(snapshot, deadline), must_pass=must_pass)

    async def submit(
        self,
        draft: str | None = None,
        *,
        idempotency_key: str | None = None,
        **request: Unpack[RefinementOptions],
    ) -> models.Snapshot:
        """Create a refinement; return at once.

        The same `idempotency_key` and request within 24 hours return the same refinement.
        """
        return await self._submit(draft, idempotency_key, request, math.inf)

    async def _submit(
        self, draft: str | None, key: str | None, request: RefinementOptions, deadline: float
    ) -> models.Snapshot:
        body: dict[str, Any] = dict(request)
        if draft is not None:
            body["draft"] = draft
        path, headers = "/v1/refinements", _idempotent(key)
        return await self._get(
            models.Snapshot, "POST", path, json=body, headers=headers, deadline=deadline
        )

    async def get(self, refinement: str | models.Snapshot) -> models.Snapshot:
        """Return a refinement as it is now."""
        return await self._get(models.Snapshot, "GET", _path(refinement))

    async def wait(
        self, refinement: str | models.Snapshot, *, timeout: float | None = None
    ) -> models.Snapshot:
        """Return a refinement when it has ended; `paused` is no end.

        Raises TimedOut after `timeout` seconds.
        """
        return await self._ended(refinement, _deadline(timeout))

    async def _ended(self, refinement: str | models.Snapshot, deadline: float) -> models.Snapshot:
        fact = f"{self.url} has not answered in time"
        held: dict[str, Any] = {}
        heard = time.monotonic()
        while True:
            try:
                response = await self._send("GET", _path(refinement), deadline=deadline, **held)
                heard = time.monotonic()
                if response.status_code != 304:
                    snapshot = self._decoded(models.Snapshot, response.content)
                    if snapshot.status in ("succeeded", "failed", "canceled"):
                        return snapshot
                    fact = f"{snapshot.id} is {snapshot.status}: it has not ended in time"
                    seen = {"If-None-Match": f'"{snapshot.last_event}"'}
                    held = {"headers": seen, "timeout": SILENCE_S}
            except TimedOut as error:
                raise TimedOut(fact) from error
            except (ServerUnreachable, ApiError) as error:
                if not _is_passing(error) or time.monotonic() - heard > self.patience_s:
                    raise
                await asyncio.sleep(FIRST_PAUSE_S)
            left = min(HELD_S, deadline - time.monotonic())
            if left <= 0:
                raise TimedOut(fact)
            if held:
                held["params"] = {"wait": max(1, round(left))}

    async def events(
        self,
        refinement: str | models.Snapshot,
        *,
        after: int = 0,
        deltas: bool = False,
        excerpts: bool = False,
    ) -> AsyncIterator[Event]:
        """Yield each event after the one with number `after`, until the refinement has ended.

        A stream that breaks is resumed where it broke: no event is missed or seen twice, also
        across restarts of the server. With `deltas`, also pieces of text as they are written;
        with `excerpts`, long texts in events are cut.
        Raises ServerUnreachable when no server has answered for `patience_s`.
        """
        failures, failed_since, has_ended = 0, math.inf, False
        asked = {"deltas": deltas, "excerpts": excerpts}
        query = {name: "true" for name, is_asked in asked.items() if is_asked}
        url = httpx.URL(f"{self.url}{_path(refinement)}/events", params=query)
        headers = self._headers | {"Accept": "text/event-stream"}
        timeout = httpx.Timeout(SILENCE_S, connect=10.0)
        while not has_ended:
            headers["Last-Event-ID"] = str(after)
            try:
                async with self._http.stream(
                    "GET", url, headers=headers, timeout=timeout
                ) as response:
                    await self._accept(response)
                    failed_since, has_ended = math.inf, response.status_code == 204
                    async for event in _events_of(response):
                        failures, after = 0, max(after, event.event)
                        has_ended = event.is_terminal
                        yield event
                if not has_ended:
                    await asyncio.sleep(FIRST_PAUSE_S)
            except (httpx.TransportError, ApiError) as error:
                if not _is_passing(error):
                    raise
                failures, now = failures + 1, time.monotonic()
                failed_since = min(failed_since, now)
                unreachable = ServerUnreachable(self.url, error)
                if now - failed_since > self.patience_s:
                    raise unreachable from error
                await self._rest(unreachable, failures)
            except (ValueError, LookupError, TypeError) as error:
                raise NotHone(self.url) from error

    async def list(
        self,
        *,
        status: str | None = None,
        outcome: str | None = None,
        batch: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> AsyncIterator[models.Snapshot]:
        """Yield refinements, newest first, a page at a time as they are needed."""
        params = {"status": status, "outcome": outcome, "batch": batch}
        params |= {f"metadata.{name}": value for name, value in (metadata or {}).items()}
        query: dict[str, Any] = {name: it for name, it in params.items() if it is not None}
        has_more = True
        while has_more:
            page = await self._get(models.SnapshotPage, "GET", "/v1/refinements", params=query)
            for snapshot in page.data:
                yield snapshot
            has_more, query["cursor"] = page.has_more, page.next_cursor

    # Steering

    async def cancel(self, refinement: str | models.Snapshot) -> models.Snapshot:
        """Cancel it: `canceling`, then `canceled` when work has stopped."""
        return await self._get(models.Snapshot, "POST", f"{_path(refinement)}/cancel")

    async def finish(self, refinement: str | models.Snapshot) -> models.Snapshot:
        """End it with the best draft so far."""
        return await self._get(models.Snapshot, "POST", f"{_path(refinement)}/finish")

    async def pause(
        self, refinement: str | models.Snapshot, **pause: Unpack[PauseRequest]
    ) -> models.Snapshot:
        """Put it before a reviewer after the step under way."""
        return await self._get(models.Snapshot, "POST", f"{_path(refinement)}/pause", json=pause)

    async def change(
        self,
        refinement: str | models.Snapshot,
        *,
        if_match: int | None = None,
        **limits: Unpack[LimitsChange],
    ) -> models.Limits:
        """Change limits while it runs; return those now in force."""
        path, headers = _path(refinement), _if_match(if_match)
        return await self._get(models.Limits, "PATCH", path, json=limits, headers=headers)

    async def review(
        self,
        refinement: str | models.Snapshot,
        *,
        if_match: int | None = None,
        **decision: Unpack[ReviewDecision],
    ) -> models.Snapshot:
        """Say a person's word to a paused refinement.

        `if_match`, the `last_event` that the person saw, makes a second reviewer who acts at the
        same time see PreconditionFailed.
        """
        path, headers = f"{_path(refinement)}/reviews", _if_match(if_match)
        return await self._get(models.Snapshot, "POST", path, json=decision, headers=headers)

    async def rate(
        self, refinement: str | models.Snapshot, **rating: Unpack[RatingRequest]
    ) -> models.Rating:
        """Record a person's score for a draft."""
        return await self._get(models.Rating, "POST", f"{_path(refinement)}/ratings", json=rating)

    async def retry(
        self, refinement: str | models.Snapshot, **limits: Unpack[LimitsChange]
    ) -> models.Snapshot:
        """Let a failed refinement go on from its journal."""
        return await self._get(models.Snapshot, "POST", f"{_path(refinement)}/retry", json=limits)

    async def continue_from(
        self,
        refinement: str | models.Snapshot,
        *,
        path: str | None = None,
        idempotency_key: str | None = None,
        **changes: Unpack[RefinementOptions],
    ) -> models.Snapshot:
        """Create a refinement that starts from the result of this one, or its draft at `path`."""
        url, headers = f"{_path(refinement)}/continue", _idempotent(idempotency_key)
        query = {} if path is None else {"path": path}
        return await self._get(
            models.Snapshot, "POST", url, params=query, json=changes, headers=headers
        )

    async def erase(self, refinement: str | models.Snapshot) -> None:
        """Erase it and everything derived from it, in any status."""
        await self._send("DELETE", _path(refinement))

    # What it did

    async def iterations(
        self, refinement: str | models.Snapshot, *, excerpts: bool = False
    ) -> models.IterationList:
        """Return each draft that was judged; with `excerpts`, of long texts the beginning."""
        query = {"excerpts": "true"} if excerpts else None
        path = f"{_path(refinement)}/iterations"
        return await self._get(models.IterationList, "GET", path, params=query)

    async def diff(self, refinement: str | models.Snapshot, before: int, after: int) -> models.Diff:
        """Return the difference between two iterations."""
        query = {"from": before, "to": after}
        return await self._get(models.Diff, "GET", f"{_path(refinement)}/diff", params=query)

    async def report(self, refinement: str | models.Snapshot) -> str:
        """Return the whole story for a person, as Markdown."""
        response = await self._send("GET", f"{_path(refinement)}/report")
        if not response.headers.get("Content-Type", "").startswith("text/markdown"):
            raise NotHone(self.url)
        return response.text

    async def estimate(
        self, draft: str | None = None, **request: Unpack[RefinementOptions]
    ) -> models.RefinementEstimate:
        """Return what a request would cost, without running it."""
        body: dict[str, Any] = dict(request)
        if draft is not None:
            body["draft"] = draft
        return await self._get(models.RefinementEstimate, "POST", "/v1/estimates", json=body)

    # Batches

    async def batch(
        self,
        requests: Mapping[str, Request] | Iterable[Request],
        *,
        defaults: Request | None = None,
        metadata: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> models.Batch:
        """Submit up to 10,000 requests in one; the keys of a mapping are their `custom_id`.

        Others get their number from 0 on. Those that are invalid are in `errors`; the others run.
        """
        named = (
            requests
            if isinstance(requests, Mapping)
            else {f"{number}": it for number, it in enumerate(requests)}
        )
        head = {"batch": {"defaults": defaults or {}, "metadata": metadata or {}}}
        lines = [head, *({"custom_id": name, "request": it} for name, it in named.items())]
        headers = _idempotent(idempotency_key) | {"Content-Type": "application/jsonl"}
        content = "\n".join(json.dumps(it) for it in lines).encode()
        path = "/v1/batches"
        return await self._get(models.Batch, "POST", path, content=content, headers=headers)

    async def get_batch(self, batch: str | models.Batch) -> models.Batch:
        """Return a batch as it is now."""
        return await self._get(models.Batch, "GET", _batch_path(batch))

    async def wait_for_batch(
        self, batch: str | models.Batch, *, timeout: float | None = None, every: float = 1.0
    ) -> models.Batch:
        """Return a batch when all of it has ended. Raises TimedOut after `timeout` seconds."""
        deadline = _deadline(timeout)
        while True:
            found = await self._get(models.Batch, "GET", _batch_path(batch), deadline=deadline)
            if found.ended_at is not None:
                return found
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut(f"{found.id} is {found.status}: it has not ended in time")
            await asyncio.sleep(min(every, left))

    async def batch_results(self, batch: str | models.Batch) -> AsyncIterator[models.BatchResult]:
        """Yield what has ended so far, in the order of the requests."""
        pending = b""
        async for piece in self.download(f"{_batch_path(batch)}/results"):
            *lines, pending = (pending + piece).split(b"\n")
            for line in lines:
                yield self._decoded(models.BatchResult, line)
        if pending:
            yield self._decoded(models.BatchResult, pending)

    async def cancel_batch(self, batch: str | models.Batch) -> models.Batch:
        """Cancel what has not ended."""
        return await self._get(models.Batch, "POST", f"{_batch_path(batch)}/cancel")

    # Everything else

    async def request(self, method: str, path: str, **options: Any) -> Any:
        """Send any request of the API, such as `("GET", "/v1/models")`.

        Returns its JSON, or the text of another kind of answer. Takes `json`, `params`, `headers`,
        `content` and `timeout` as httpx does.
        """
        response = await self._send(method, path, **options)
        if "json" in response.headers.get("Content-Type", ""):
            return self._json(response.content)
        return response.text or None

    async def download(self, path: str) -> AsyncIterator[bytes]:
        """Yield the body of an answer in pieces, as they come."""
        response = await self._send("GET", path, stream=True, timeout=600.0)
        try:
            async for piece in response.aiter_bytes():
                yield piece
        except httpx.TransportError as error:
            raise ServerUnreachable(self.url, error) from error
        finally:
            await response.aclose()

    async def _get(self, kind: type[Answer], method: str, path: str, **options: Any) -> Answer:
        return self._decoded(kind, (await self._send(method, path, **options)).content)

    def _decoded(self, kind: type[Answer], content: bytes) -> Answer:
        """Return what a server sent; raise NotHone if it lacks what every such answer has."""
        value = self._json(content)
        fields = kind.__dataclass_fields__.keys()  # type: ignore[attr-defined]
        if not isinstance(value, dict) or not fields & value.keys():
            raise NotHone(self.url)
        if not all(isinstance(value.get(name), NAMING[name]) for name in fields & NAMING.keys()):
            raise NotHone(self.url)
        return decode(kind, value)

    def _json(self, content: bytes) -> Any:
        try:
            return json.loads(content)
        except ValueError as error:
            raise NotHone(self.url) from error

    async def _rest(
        self, error: ApiError | ServerUnreachable, failures: int, deadline: float = math.inf
    ) -> None:
        """Wait before the next attempt; raise TimedOut at the deadline if that comes first."""
        if self._on_retry:
            self._on_retry(error, failures)
        pause, left = max(error.retry_after_s, _pause(failures)), deadline - time.monotonic()
        await asyncio.sleep(max(0.0, min(pause, left)))
        if left <= pause:
            raise TimedOut(f"{self.url} has not answered in time") from error

    async def _send(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        stream: bool = False,
        deadline: float = math.inf,
        **options: Any,
    ) -> httpx.Response:
        """Send a request until it is answered for good; with `stream` leave the body unread.

        Raises TimedOut at the deadline; each attempt has at least `LEAST_S` seconds.
        """
        limits = httpx.Timeout(options.pop("timeout", self._http.timeout))
        sent = httpx.Headers(self._headers | (headers or {}))
        if method in ("POST", "PATCH"):
            sent.setdefault("Idempotency-Key", str(uuid.uuid4()))
        is_repeatable = method != "POST" or bool(REPEATABLE.match(path))
        failures, may_have_arrived = 0, False
        while True:
            error: ApiError | ServerUnreachable
            try:
                timeout = _within(limits, max(LEAST_S, deadline - time.monotonic()))
                request = self._http.build_request(
                    method, self.url + path, headers=sent, timeout=timeout, **options
                )
                response = await self._http.send(request, stream=stream)
                if response.is_success or response.status_code == 304:
                    return response
                await response.aread()
                if may_have_arrived and method == "DELETE" and response.status_code == 404:
                    return httpx.Response(204, request=request)
                error = self._refusal(response)
                if not _is_passing(error):
                    raise error
                may_have_arrived |= error.status != 429
            except httpx.TransportError as failure:
                error = ServerUnreachable(self.url, failure)
                may_have_arrived |= not isinstance(failure, NOT_SENT)
            failures += 1
            if failures > self.max_retries or (may_have_arrived and not is_repeatable):
                raise error
            await self._rest(error, failures, deadline)

    async def _accept(self, response: httpx.Response) -> None:
        """Return if events follow, or none ever will (204); else raise what the answer says."""
        if not response.is_success:
            await response.aread()
            raise self._refusal(response)
        is_stream = response.headers.get("Content-Type", "").startswith("text/event-stream")
        if response.status_code != 204 and not is_stream:
            raise NotHone(self.url)

    def _refusal(self, response: httpx.Response) -> ApiError:
        if response.next_request:
            raise NotHone(self.url, f"it redirects to {response.next_request.url}")
        return problem_of(response)


async def _events_of(response: httpx.Response) -> AsyncIterator[Event]:
    reader = MessageReader()
    async for chunk in response.aiter_bytes():
        for message in reader.feed(chunk):
            yield read_event(message)


def problem_of(response: httpx.Response) -> ApiError:
    """Return the error of a response; one that is not of Hone, such as a proxy's, has no code."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict) or not isinstance(problem.get("code"), str):
        title = f"{response.status_code} {response.reason_phrase}"
        detail = f"the response of {response.request.url} is not that of a Hone server"
        problem = {"title": title, "detail": detail}
    kind = CLASSES.get(problem.get("code", ""), ApiError)
    error = kind(response.status_code, problem, response.headers.get("X-Request-Id"))
    error.retry_after_s = _retry_after(response)
    return error


def _is_passing(error: Exception) -> bool:
    """Return whether the same request may be answered otherwise a little later."""
    if not isinstance(error, ApiError):
        return True
    return error.status in REPEATED and error.code != "quota_exceeded"


def _path(refinement: str | models.Snapshot) -> str:
    id_ = refinement if isinstance(refinement, str) else refinement.id
    return f"/v1/refinements/{quote(id_, safe='')}"


def _batch_path(batch: str | models.Batch) -> str:
    return f"/v1/batches/{quote(batch if isinstance(batch, str) else batch.id, safe='')}"


def _idempotent(key: str | None) -> dict[str, str]:
    return {"Idempotency-Key": key} if key else {}


def _if_match(last_event: int | None) -> dict[str, str]:
    return {} if last_event is None else {"If-Match": f'"{last_event}"'}


def _deadline(timeout: float | None) -> float:
    return math.inf if timeout is None else time.monotonic() + timeout


def _within(limits: httpx.Timeout, left: float) -> httpx.Timeout:
    """Return limits of which none is above what is left, unless that is without end."""
    if left == math.inf:
        return limits
    capped = {name: left if it is None else min(it, left) for name, it in limits.as_dict().items()}
    return httpx.Timeout(**capped)


def _pause(failures: int) -> float:
    """Return the pause before the next attempt: exponential, with full jitter above a half."""
    longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 1, 30))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads clients


def _retry_after(response: httpx.Response) -> float:
    try:
        return min(LONGEST_RETRY_AFTER_S, float(response.headers.get("Retry-After", 0)))
    except ValueError:
        return 0.0
