"""The published client as the command line uses it, and the errors that the commands show.

CliError
  WrongAddress       the URL or the key of the server cannot be one
  PerhapsSubmitted   the server has stopped responding while a submission was sent
  Erased             a refinement was erased while it was watched
  ServiceFailed      a process of the service that the command runs has failed
"""

import ipaddress
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import SecretStr, ValidationError

from app.cli.silence import ListeningClient, Silence
from app.contract import Contract
from app.contract.batches import Batch
from app.contract.events import DATA_OF, DELTA, Event, EventType, StepDelta
from app.contract.offers import Readiness
from app.contract.snapshot import Snapshot, SnapshotPage
from hone import ApiError, Hone, HoneError, NotHone, ServerUnreachable


class CliError(Exception):
    """An error whose message is shown as it is; the command ends with exit code 1."""


class WrongAddress(CliError):
    """The URL of the server, or the key for it, is invalid."""


class PerhapsSubmitted(CliError):
    """The answer to a submission did not come: it may have been received."""

    def __init__(self, cause: HoneError, key: str) -> None:
        super().__init__(f"{cause}\n{perhaps_submitted(key)}")


class Erased(CliError):
    """A refinement was erased while it was watched."""


class ServiceFailed(CliError):
    """A process of the service that this command runs has ended, or could not start."""


def perhaps_submitted(key: str) -> str:
    """Return advice about a submission whose answer did not come."""
    return (
        "It is not known whether it was submitted. Within 24 hours the same command with"
        f"\n--idempotency-key {key} submits it, or goes on with it if it was."
    )


BATCH_LOOK_S = 0.5
LIST_PAGE = 100
PATIENCE_S = 30.0
RESUBMISSIONS = 14
"""How often a submission is repeated: it takes a minute."""

NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout)
Parsed = TypeVar("Parsed", bound=Contract)


class ContractClient(Hone):
    """The client of a server, which also reads answers as the types of the contract.

    A request is sent once; events and batches are followed while the server is away for at most
    `patience_s`, and `silence` hears of it. Unknown fields and events of a newer server are
    ignored.
    """

    def __init__(
        self,
        server: str,
        *,
        api_key: SecretStr | None = None,
        silence: Silence | None = None,
        patience_s: float = PATIENCE_S,
        resubmissions: int = RESUBMISSIONS,
    ) -> None:
        url = _with_scheme(server).rstrip("/")
        key = api_key.get_secret_value() if api_key else ""
        if not re.fullmatch(r"[!-~]*", key):
            raise WrongAddress(
                "HONE_API_KEY is no key: a key has only ASCII letters, digits and signs, no space"
            )
        self._resubmissions = resubmissions
        self._silence = silence or Silence(url, lambda _: None)
        # A proxy named in the environment does not reach this machine's own loopback.
        self._http_client = ListeningClient(
            self._silence,
            self._alive,
            timeout=httpx.Timeout(30.0, connect=10.0),
            trust_env=not is_local(url),
        )
        self.meanwhile: Callable[[], None] = lambda: None
        """A function that the client calls now and then while it follows events."""
        self._options: dict[str, Any] = {"api_key": key, "http_client": self._http_client}
        super().__init__(
            url, max_retries=0, patience_s=patience_s, on_retry=self._away, **self._options
        )

    def close(self) -> None:
        """Close the connections and end the messages about silence."""
        self._silence.close()
        self._http_client.close()

    def read(self, kind: type[Parsed], path: str, *, method: str = "GET", **options: Any) -> Parsed:
        """Send a request as `request` does, and return its answer as a type of the contract."""
        return self._read(kind, self.request(method, path, **options))

    def snapshot(self, refinement_id: str) -> Snapshot:
        """Return a refinement as it is now."""
        return self.read(Snapshot, path_of(refinement_id))

    def snapshots(self, filters: Mapping[str, Any], size: int = LIST_PAGE) -> Iterator[Snapshot]:
        """Yield what the filters select, newest first; each page is asked for when it is needed."""
        cursor: dict[str, str] = {}
        while True:
            asked = {**filters, **cursor, "limit": size}
            page = self.read(SnapshotPage, "/v1/refinements", params=asked)
            yield from page.data
            if page.next_cursor is None or not page.has_more:
                return
            cursor = {"cursor": page.next_cursor}

    def readiness(self) -> Readiness | int:
        """Return what the server says of itself, or the status with which it refuses; else 0."""
        try:
            return self.read(Readiness, "/readyz", timeout=2.0)
        except ApiError as refused:
            return refused.status
        except HoneError:
            return 0

    def send_surely(self, path: str, body: Mapping[str, Any], key: str) -> Snapshot:
        """Submit `body` with an idempotency key, again for a minute if answers are lost.

        Raises ServerUnreachable if nothing was submitted, and PerhapsSubmitted.
        """
        was_sent = False

        def on_retry(error: HoneError, failures: int) -> None:
            nonlocal was_sent
            if isinstance(error, ApiError) or not (was_sent or _was_sent(error)):
                raise error
            was_sent = True
            self._away(error, failures)

        tries = self._resubmissions
        hone = Hone(self.url, max_retries=tries, on_retry=on_retry, **self._options)
        headers = {"Idempotency-Key": key}
        try:
            answer = hone.request("POST", path, json=body, headers=headers)
        except ServerUnreachable as error:
            if not was_sent:
                raise
            raise PerhapsSubmitted(error, key) from error
        return self._read(Snapshot, answer)

    def follow(
        self, refinement_id: str, on_delta: Callable[[StepDelta], None] | None = None
    ) -> Iterator[Event]:
        """Yield every event from the first to the last, terminal one, each once.

        A terminal event that a retry follows is not the last. `on_delta` is called with each piece
        of a text that is being written.
        """
        seen = 0
        try:
            for event in self.events(refinement_id, deltas=on_delta is not None):
                if event.type == DELTA:
                    if on_delta:
                        on_delta(StepDelta.model_validate(event.body, extra="ignore"))
                    continue
                seen = event.event
                if event.type in set(EventType):
                    yield _event_of(event.body)
        except ValidationError as error:
            raise NotHone(self.url) from error
        except ApiError as refused:
            if seen and refused.status == 404:
                raise Erased(f"{refinement_id} was erased, or is no longer kept") from refused
            raise

    def follow_batch(self, batch: Batch) -> Iterator[Batch]:
        """Yield a batch as it is now and then, at last as it has ended.

        Raises ServerUnreachable if no server answers for `patience_s`.
        """
        failures, failed_since = 0, 0.0
        while True:
            yield batch
            if batch.has_ended:
                return
            time.sleep(BATCH_LOOK_S)
            try:
                batch, failures = self.read(Batch, batch.links.self), 0
            except ServerUnreachable as error:
                failures += 1
                failed_since = time.monotonic() if failures == 1 else failed_since
                if time.monotonic() - failed_since > self.patience_s:
                    raise
                self._away(error, failures)

    def _read(self, kind: type[Parsed], answer: Any) -> Parsed:
        try:
            return kind.model_validate(answer, extra="ignore")
        except ValidationError as error:
            raise NotHone(self.url) from error

    def _alive(self) -> None:
        self.meanwhile()

    def _away(self, error: HoneError, failures: int) -> None:
        """Tell that the server is away, if it is not only a connection that has ended."""
        self.meanwhile()
        if isinstance(error, ServerUnreachable) and (failures > 1 or not _was_sent(error)):
            self._silence.failed(error.reason)


def _was_sent(error: HoneError) -> bool:
    return not isinstance(error.__cause__, NOT_SENT)


def _event_of(body: Mapping[str, Any]) -> Event:
    data = DATA_OF[EventType(body["type"])].model_validate(body["data"], extra="ignore")
    return Event.model_validate({**body, "data": data}, extra="ignore")


def path_of(refinement_id: str, part: str = "") -> str:
    """Return the path of a refinement, or of a part of it such as `/diff`."""
    return f"/v1/refinements/{quote(refinement_id, safe='', errors='surrogateescape')}{part}"


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


def is_local(server: str) -> bool:
    """Return whether the URL of a server is on this machine's loopback; raise WrongAddress."""
    host = httpx.URL(_with_scheme(server)).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
