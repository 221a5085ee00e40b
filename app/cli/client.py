"""The client of a Hone server, and the errors that the command line shows.

CliError
  WrongAddress       the URL or the key of the server cannot be one
  ServerUnreachable  no server responds
    PerhapsSubmitted it has stopped responding while a submission was sent
  RequestRejected    the server rejects the request, with the reason
  Erased             a refinement was erased while it was watched
  NotHone            another server responds
  ServiceFailed      a process of the service that the command runs has failed
"""

import hashlib
import ipaddress
import json
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import SecretStr, ValidationError

from app.cli.silence import NOTHING_LOST, NOTHING_TWICE, Silence
from app.contract import Contract
from app.contract.batches import Batch
from app.contract.calibration import CalibrationList
from app.contract.errors import Problem
from app.contract.estimates import RefinementEstimate
from app.contract.events import DATA_OF, DELTA, Event, EventType, StepDelta
from app.contract.insights import InsightList
from app.contract.offers import Readiness
from app.contract.ratings import Rating
from app.contract.snapshot import Diff, Iteration, IterationList, Snapshot, SnapshotPage
from app.contract.steps import Step, StepPage


class CliError(Exception):
    """An error whose message is shown as it is; the command ends with exit code 1."""


class WrongAddress(CliError):
    """What is given as the server, or as the key for it, cannot be one."""


class ServerUnreachable(CliError):
    """No server responds, or it has stopped responding."""

    def __init__(self, server: str, cause: Exception, more: str = "") -> None:
        reason, advice = _explained(cause)
        was_reached = isinstance(cause, httpx.ReadTimeout | httpx.WriteTimeout)
        fact = f"{server} {'does not answer' if was_reached else 'is unreachable'}: {reason}"
        super().__init__("\n".join(filter(None, [fact, advice, more])))
        self.cause = cause


class PerhapsSubmitted(ServerUnreachable):
    """The answer to a submission did not come: it may have been received."""

    def __init__(self, server: str, cause: Exception, key: str) -> None:
        super().__init__(server, cause, perhaps_submitted(key))


def perhaps_submitted(key: str) -> str:
    """Return what can be done about a submission whose answer did not come."""
    return (
        "It is not known whether it was submitted. Within 24 hours the same command with"
        f"\n--idempotency-key {key} submits it, or goes on with it if it was."
    )


def reason_of(error: BaseException) -> str:
    """Return why a connection failed."""
    return _explained(error)[0]


def _explained(error: BaseException) -> tuple[str, str]:
    """Return why a connection failed, and what to do about it."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) and cause not in causes:
        causes.append(cause)
    found = next((it for it in causes if isinstance(it, OSError)), error)
    if isinstance(error, httpx.TimeoutException):
        found = error
    match found:
        case socket.gaierror():
            told = "the name of the host is not known", "Is HONE_SERVER or --server spelled right?"
        case ssl.SSLCertVerificationError():
            told = (
                f"its TLS certificate is not trusted: {found.verify_message}",
                "SSL_CERT_FILE names a file with the certificates that you trust.",
            )
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER"):
            told = "it does not speak TLS there", "Try http:// instead of https://."
        case ConnectionRefusedError():
            told = "the connection was refused", "Is `hone serve` running there?"
        case httpx.TimeoutException():
            told = "nothing came in time", ""
        case httpx.RemoteProtocolError():
            told = str(error), "Try https:// instead of http://, if it serves TLS."
        case _:
            told = str(error) or type(error).__name__, ""
    return told


class RequestRejected(CliError):
    """The server answered with a problem (RFC 9457)."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        advice = ["HONE_API_KEY must have a key for it."] if problem.status == 401 else []
        super().__init__("\n".join([f"{problem.title}: {_told(problem)}", *advice]))


def _told(problem: Problem) -> str:
    """Return the detail, and a line for each sentence about fields that it does not have."""
    places: dict[str, list[str]] = {}
    for error in problem.errors or ():
        if error.detail not in problem.detail:
            places.setdefault(error.detail, []).append(error.pointer or "/")
    lines = (f"  {', '.join(where)}: {sentence}" for sentence, where in places.items())
    return "\n".join([problem.detail, *lines])


class Erased(CliError):
    """A refinement was erased while it was watched."""


class NotHone(CliError):
    """A server responds that does not follow this contract."""

    def __init__(self, server: str, detail: str = "") -> None:
        reason = f": {detail}" if detail else ""
        super().__init__(f"the response of {server} is not that of a Hone server{reason}")


class ServiceFailed(CliError):
    """A process of the service that this command runs has ended, or could not start."""


LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a last \r may be the first half of \r\n


@dataclass(frozen=True)
class Message:
    """One event of a stream: its data, and its id and type, or empty texts."""

    id: str
    event: str
    data: str


def messages(chunks: Iterable[bytes]) -> Iterator[Message | None]:
    """Yield each event, and None for each comment: the server responds and has no new events.

    An event that is incomplete at the end of the stream is not yielded.
    """
    fields: dict[str, list[str]] = {}
    for line in _lines(chunks):
        if line.startswith(":"):
            yield None
        elif line:
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
        else:
            if "data" in fields:
                yield Message(
                    _last(fields, "id"), _last(fields, "event"), "\n".join(fields["data"])
                )
            fields = {}


def _last(fields: dict[str, list[str]], name: str) -> str:
    return fields.get(name, [""])[-1]


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Split at the three line ends of the standard only: drafts may contain others, as U+2028."""
    pending: list[bytes] = []
    for chunk in chunks:
        if not LINE_END.search(chunk) and not chunk.endswith(b"\r"):
            pending.append(chunk)  # joined once, at the line's end: an event can be megabytes
            continue
        *lines, rest = LINE_END.split(b"".join([*pending, chunk]))
        pending = [rest] if rest else []
        for line in lines:
            yield line.decode(errors="replace")


def event_of(message: Message) -> Event | None:
    """Return the event, or None if its type is unknown; raise ValueError for an invalid one."""
    stored = json.loads(message.data)
    if not isinstance(stored, dict) or stored.get("type") not in set(EventType):
        return None
    data = DATA_OF[EventType(stored["type"])].model_validate(stored["data"], extra="ignore")
    return Event.model_validate({**stored, "data": data}, extra="ignore")


def problem_of(response: httpx.Response) -> Problem:
    """Return the problem in a response, or one made from its status if it has none."""
    try:
        return Problem.model_validate_json(response.content, extra="ignore")
    except ValidationError:
        return Problem(
            type="about:blank",
            title=f"{response.status_code} {response.reason_phrase}",
            status=response.status_code,
            detail=f"the response of {response.request.url} is not that of a Hone server",
            instance=response.request.url.path,
            code="unknown",
        )


TIMEOUT = httpx.Timeout(30.0, connect=10.0)
SILENCE_S = 45.0  # three times the interval of the server's comments
UPLOAD_TIMEOUT = httpx.Timeout(600.0, connect=10.0)
BATCH_LOOK_S = 0.5
SUBMITTING_S = 60.0
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout)
RECONNECTS = 30  # in a row and a second apart: the server may be restarting


Parsed = TypeVar("Parsed", bound=Contract)


class Client:
    """The requests to one server. Raises RequestRejected, ServerUnreachable or NotHone.

    Unknown fields and events of a newer server are ignored.
    """

    def __init__(
        self,
        server: str,
        *,
        api_key: SecretStr | None = None,
        pause: Callable[[float], None] = time.sleep,
        silence: Silence | None = None,
    ) -> None:
        self._server = _with_scheme(server).rstrip("/")
        self._pause = pause
        self._silence = silence or Silence(self._server, lambda _: None)
        # A proxy named in the environment does not reach this machine's own loopback.
        trusts_environment = not is_local(self._server)
        key = api_key.get_secret_value() if api_key else ""
        if not re.fullmatch(r"[!-~]*", key):
            raise WrongAddress(
                "HONE_API_KEY is no key: a key has only ASCII letters, digits and signs, no space"
            )
        self._http = httpx.Client(
            base_url=self._server,
            timeout=TIMEOUT,
            trust_env=trusts_environment,
            headers={"Authorization": f"Bearer {key}"} if key else {},
        )

    def is_ready(self) -> bool:
        """Return whether the server responds and reaches its Redis.

        That is also known of one that refuses the key.
        """
        try:
            response = self._http.get("/readyz", timeout=2.0)
            return response.is_success or response.status_code in {401, 403}
        except httpx.TransportError:
            return False

    def is_open(self) -> bool:
        """Return whether the server lets this client in, which `/healthz` and pages do not tell."""
        try:
            return self._http.get("/readyz", timeout=2.0).is_success
        except httpx.TransportError:
            return False

    def is_working(self) -> bool:
        """Return whether the server is ready and does not say that no worker runs."""
        try:
            response = self._http.get("/readyz", timeout=2.0)
            if response.is_success:
                return Readiness.model_validate_json(response.content).workers > 0
            return response.status_code in {401, 403}
        except (httpx.TransportError, ValidationError):
            return False

    def submit(self, request: Mapping[str, Any], key: str | None = None) -> Snapshot:
        """Create a refinement, or return the one that was created with the same idempotency key."""
        return self._read(Snapshot, self._submitted("/v1/refinements", request, key))

    def surely(self, submit: Callable[[], Snapshot], key: str) -> Snapshot:
        """Return what `submit` does, which sends this idempotency key, also if answers are lost.

        It is tried again for a minute. Raises ServerUnreachable if nothing was submitted, and
        PerhapsSubmitted.
        """
        began, failures = time.monotonic(), 0
        while True:
            try:
                return submit()
            except ServerUnreachable as error:
                failures += 1
                if failures == 1 and isinstance(error.cause, NOT_SENT):
                    raise
                if failures > RECONNECTS or time.monotonic() - began > SUBMITTING_S:
                    raise PerhapsSubmitted(self._server, error.cause, key) from error
                self._lost(error.cause, failures)
            self._pause(1.0)

    def estimate(self, request: Mapping[str, Any]) -> RefinementEstimate:
        """Return what a request would consume; it is checked as if it was submitted."""
        response = self._send("POST", "/v1/estimates", json=request)
        return self._read(RefinementEstimate, response)

    def with_metadata(self, pairs: Mapping[str, str]) -> Iterator[Snapshot]:
        """Yield every refinement that has these pairs of metadata, newest first."""
        query = {f"metadata.{name}": it for name, it in pairs.items()} | {"limit": "100"}
        cursor: str | None = ""
        while cursor is not None:
            asked = query | ({"cursor": cursor} if cursor else {})
            page = self._read(SnapshotPage, self._send("GET", "/v1/refinements", params=asked))
            yield from page.data
            cursor = page.next_cursor

    def page(self, filters: Mapping[str, Any]) -> SnapshotPage:
        """Return one page of the refinements, newest first."""
        return self._read(SnapshotPage, self._send("GET", "/v1/refinements", params=filters))

    def get(self, refinement_id: str) -> Snapshot:
        """Return the snapshot."""
        return self._read(Snapshot, self._send("GET", _path(refinement_id)))

    def cancel(self, refinement_id: str) -> Snapshot:
        """Cancel a refinement, and return its snapshot."""
        return self._read(Snapshot, self._send("POST", f"{_path(refinement_id)}/cancel"))

    def erase(self, refinement_id: str) -> None:
        """Erase a refinement and everything derived from it."""
        self._send("DELETE", _path(refinement_id))

    def console_url(self, refinement_id: str | None) -> str:
        """Return the page of the console about a refinement, or about all; raise CliError."""
        path = f"/console/refinements/{quote(refinement_id, safe='')}" if refinement_id else ""
        url = path or "/console"
        try:
            response = self._http.get(url)
        except httpx.HTTPError as error:
            raise ServerUnreachable(self._server, error) from error
        if response.status_code == 404:
            raise CliError(f"{self._server}{url} is not there: has this server a console?")
        return f"{self._server}{url}"

    def finish(self, refinement_id: str) -> Snapshot:
        """End a refinement with its best draft so far, and return its snapshot."""
        return self._read(Snapshot, self._send("POST", f"{_path(refinement_id)}/finish"))

    def pause(self, refinement_id: str, pause: Mapping[str, Any]) -> Snapshot:
        """Pause a refinement after the steps in progress, and return its snapshot."""
        response = self._send("POST", f"{_path(refinement_id)}/pause", json=pause)
        return self._read(Snapshot, response)

    def review(self, refinement_id: str, decision: Mapping[str, Any]) -> Snapshot:
        """Send a decision to a paused refinement, and return its snapshot."""
        response = self._send("POST", f"{_path(refinement_id)}/reviews", json=decision)
        return self._read(Snapshot, response)

    def rate(self, refinement_id: str, rating: Mapping[str, Any]) -> Rating:
        """Journal a person's rating of a judged draft, and return it."""
        response = self._send("POST", f"{_path(refinement_id)}/ratings", json=rating)
        return self._read(Rating, response)

    def continue_(
        self, refinement_id: str, changes: Mapping[str, Any], key: str | None = None
    ) -> Snapshot:
        """Create a refinement that starts from the result of this one, with a key as `submit`."""
        url = f"{_path(refinement_id)}/continue"
        return self._read(Snapshot, self._submitted(url, changes, key))

    def retry(self, refinement_id: str, limits: Mapping[str, Any]) -> Snapshot:
        """Let a failed refinement go on under changed limits, and return its snapshot."""
        response = self._send("POST", f"{_path(refinement_id)}/retry", json=limits)
        return self._read(Snapshot, response)

    def iterations(self, refinement_id: str) -> tuple[Iteration, ...]:
        """Return every judged draft."""
        response = self._send("GET", f"{_path(refinement_id)}/iterations")
        return self._read(IterationList, response).data

    def diff(self, refinement_id: str, before: int, after: int, search: str = "") -> Diff:
        """Return the difference between two iterations, the second one of an inner `search`."""
        inner = {"from_path": "", "path": search} if search else {}
        query = {"from": before, "to": after, **inner}
        response = self._send("GET", f"{_path(refinement_id)}/diff", params=query)
        return self._read(Diff, response)

    def submitted_draft(self, refinement_id: str) -> str | None:
        """Return the draft that was submitted; None if there was none or it is not known."""
        try:
            request = self._send("GET", f"{_path(refinement_id)}/request").json()
        except (CliError, ValueError):
            return None
        draft = request.get("draft") if isinstance(request, dict) else None
        return draft if isinstance(draft, str) else None

    def steps(self, refinement_id: str, path: str | None) -> Iterator[Step]:
        """Yield every step, or the one at `path` and those below it."""
        query: dict[str, str | int] = {"path": path} if path else {}
        after, has_more = 0, True
        while has_more:
            response = self._send(
                "GET", f"{_path(refinement_id)}/steps", params=query | {"after": after}
            )
            page = self._read(StepPage, response)
            yield from page.data
            after, has_more = page.next_after, page.has_more

    def report(self, refinement_id: str) -> str:
        """Return the report, as Markdown."""
        response = self._send("GET", f"{_path(refinement_id)}/report")
        if not response.headers.get("Content-Type", "").startswith("text/markdown"):
            raise NotHone(self._server)
        return response.content.decode(errors="replace")

    def calibration(self, limit: int) -> CalibrationList:
        """Return what was learnt of at most `limit` kinds."""
        response = self._send("GET", "/v1/calibration", params={"limit": limit})
        return self._read(CalibrationList, response)

    def insights(self, by: str | None, since: str | None, limit: int) -> InsightList:
        """Return what was worth it over many refinements."""
        query = {name: it for name, it in (("by", by), ("since", since)) if it is not None}
        response = self._send("GET", "/v1/insights", params=query | {"limit": str(limit)})
        return self._read(InsightList, response)

    def submit_batch(self, file: BufferedReader | BytesIO) -> Batch:
        """Create a batch of the lines of a file, or return the one that the same lines created.

        Raises OSError if the file cannot be read.
        """
        key = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        response = self._send(
            "POST",
            "/v1/batches",
            content=file,
            headers={"Content-Type": "application/jsonl", "Idempotency-Key": f"hone-batch-{key}"},
            timeout=UPLOAD_TIMEOUT,
        )
        return self._read(Batch, response)

    def follow_batch(self, batch: Batch) -> Iterator[Batch]:
        """Yield a batch as it is now and then, at last as it has ended.

        Raises ServerUnreachable if no server answers for half a minute.
        """
        failures = 0
        while True:
            yield batch
            if batch.has_ended:
                return
            self._pause(BATCH_LOOK_S)
            try:
                batch, failures = self._read(Batch, self._send("GET", batch.links.self)), 0
            except ServerUnreachable as unreachable:
                failures += 1
                if failures > RECONNECTS:
                    raise
                self._lost(unreachable.cause, failures)

    def batch_results(self, batch: Batch) -> Iterator[bytes]:
        """Yield the results of a batch, JSON Lines, in pieces."""
        try:
            with self._http.stream("GET", batch.links.results, timeout=SILENCE_S) as response:
                if response.is_error:
                    response.read()
                    raise RequestRejected(problem_of(response))
                yield from response.iter_bytes()
        except httpx.HTTPError as error:
            raise ServerUnreachable(self._server, error) from error

    def follow(
        self, refinement_id: str, on_delta: Callable[[StepDelta], None] | None = None
    ) -> Iterator[Event | None]:
        """Yield every event from the first to the last, terminal one, each once.

        A terminal event that a retry follows is not the last. None comes now and then if there are
        no new events. A stream that is interrupted is resumed after the last event; raises
        ServerUnreachable if that fails for half a minute. `on_delta` is called with each piece of a
        text that is being written.
        """
        seen, failures, has_ended = 0, 0, False
        while True:
            try:
                for message in self._stream(refinement_id, seen, with_deltas=on_delta is not None):
                    failures = 0
                    if message and message.event == DELTA:
                        if on_delta:
                            on_delta(StepDelta.model_validate_json(message.data, extra="ignore"))
                        continue
                    event = event_of(message) if message else None
                    yield event
                    if message:
                        seen = int(message.id)
                        has_ended = event is not None and event.type.is_terminal
                if has_ended:
                    return
            except httpx.TransportError as error:
                failures += 1
                if failures > RECONNECTS:
                    raise ServerUnreachable(self._server, error) from error
                self._lost(error, failures)
            except ValueError as error:
                raise NotHone(self._server) from error
            except RequestRejected as refused:
                if seen and refused.problem.status == 404:
                    raise Erased(f"{refinement_id} was erased, or is no longer kept") from refused
                raise
            yield None
            self._pause(1.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._silence.close()
        self._http.close()

    def _stream(
        self, refinement_id: str, seen: int, *, with_deltas: bool
    ) -> Iterator[Message | None]:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(seen)}
        timeout = httpx.Timeout(SILENCE_S, connect=10.0)
        url = f"{_path(refinement_id)}/events{'?deltas=true' if with_deltas else ''}"
        with (
            self._silence.expecting(),
            self._http.stream("GET", url, headers=headers, timeout=timeout) as response,
        ):
            if response.status_code in {502, 503, 504}:  # stopping or starting: try again
                raise httpx.ReadError(f"status {response.status_code}", request=response.request)
            if response.is_error:
                response.read()
                raise RequestRejected(problem_of(response))
            media_type = response.headers.get("Content-Type", "")
            if response.status_code != 204 and not media_type.startswith("text/event-stream"):
                raise NotHone(self._server)
            self._silence.streaming()
            yield from messages(self._alive(response.iter_bytes()))

    def _lost(self, error: Exception, failures: int) -> None:
        """Tell that the server is away, if it is not only a connection that has ended."""
        if failures > 1 or isinstance(error, NOT_SENT):
            self._silence.failed(reason_of(error))

    def _alive(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._silence.heard()
            yield chunk

    def _submitted(self, url: str, body: Mapping[str, Any], key: str | None) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        meanwhile = NOTHING_LOST if key is None else NOTHING_TWICE
        return self._send("POST", url, meanwhile, json=body, headers=headers)

    def _send(
        self, method: str, url: str, meanwhile: str = NOTHING_LOST, **options: Any
    ) -> httpx.Response:
        try:
            with self._silence.expecting(meanwhile):
                response = self._http.request(method, url, **options)
        except httpx.HTTPError as error:
            raise ServerUnreachable(self._server, error) from error
        self._silence.heard()
        if response.is_error:
            raise RequestRejected(problem_of(response))
        if response.next_request:
            raise NotHone(self._server, f"it redirects to {response.next_request.url}")
        return response

    def _read(self, model: type[Parsed], response: httpx.Response) -> Parsed:
        try:
            return model.model_validate_json(response.content, extra="ignore")
        except ValidationError as error:
            raise NotHone(self._server) from error


def _with_scheme(server: str) -> str:
    """Return the URL of a server, `http` if it names no scheme; raise WrongAddress."""
    url = server if "://" in server else f"http://{server}"
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise WrongAddress(f"{server} is not the URL of a server: {error}") from None
    # A character that no name has is encoded; in an IPv6 address it begins a zone.
    is_host = bool(parsed.host) and ("%" not in parsed.host or ":" in parsed.host)
    is_port = parsed.port is None or 0 < parsed.port < 65_536
    if parsed.scheme not in {"http", "https"} or not is_host or not is_port:
        raise WrongAddress(f"{server} is not the URL of a server, such as http://127.0.0.1:8080")
    return url


def _path(refinement_id: str) -> str:
    return f"/v1/refinements/{quote(refinement_id, safe='', errors='surrogateescape')}"


def is_local(server: str) -> bool:
    """Return whether the URL of a server is on this machine's loopback; raise WrongAddress."""
    host = httpx.URL(_with_scheme(server)).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
