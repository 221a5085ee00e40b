"""Receives batches: checks each line as a single submission would be, and stores it."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from app.contract.batches import MAX_REFUSED, Batch, BatchOptions, BatchRefusal, RefusedLine
from app.contract.errors import FieldError, HoneError, InvalidRequest, Overloaded
from app.contract.overlays import Overlay
from app.contract.requests import RefinementRequest
from app.contract.validators import ENDPOINTS
from app.service.service import ClientRequest, Service, origin_of_request
from app.store import Store
from app.store.batches import BatchUpload

MOST_AT_ONCE, OF_ONE = 8, 6
"""Batches that one process receives at the same time, and those of one tenant: each holds a line
and a part in memory."""

RETRY_AFTER_S = 5
MAX_ERRORS = 5
"""Field errors of one line that are kept."""


@dataclass(frozen=True, slots=True)
class BatchLine:
    """A line with a valid request, the SHA-256 (hex) of it with its defaults, and its layers."""

    line: int
    custom_id: str
    request: RefinementRequest
    sha256: str
    overlay: Overlay


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """The end of a body that was received whole, and its SHA-256 (hex)."""

    sha256: str


Received = BatchOptions | BatchLine | RefusedLine | BatchEnd


def refused_line(line: int, custom_id: str | None, why: HoneError, prefix: str = "") -> RefusedLine:
    """Return a line as refused; `prefix` goes before the pointers of its errors."""
    errors = tuple(
        FieldError(pointer=prefix + error.pointer, detail=error.detail)
        for error in why.errors[:MAX_ERRORS]
    )
    refusal = BatchRefusal(code=why.code, detail=why.detail, errors=errors)
    return RefusedLine(line=line, custom_id=custom_id, error=refusal)


class Batches:
    """The reception of batches."""

    def __init__(self, service: Service, store: Store) -> None:
        self._service = service
        self._store = store
        self._receiving: Counter[str] = Counter()

    async def submit(
        self,
        tenant: str,
        received: AsyncIterator[Received],
        key: str | None,
        api_key: str | None = None,
    ) -> tuple[Batch, bool]:
        """Store a batch: its options, its lines and its end; return it once all is durable.

        Also returns whether it is one that the same key and body created within 24 hours. Nothing
        is kept of a body that ends in an error. Raises InvalidRequest if no line is valid or too
        many are refused, IdempotencyMismatch, QuotaExceeded, Overloaded, and what `received`
        raises.
        """
        if self._receiving.total() >= MOST_AT_ONCE or self._receiving[tenant] >= OF_ONE:
            detail = f"{MOST_AT_ONCE} batches are being received, or {OF_ONE} of this tenant"
            raise Overloaded(f"{detail}; try again later", retry_after_s=RETRY_AFTER_S)
        self._receiving[tenant] += 1
        try:
            return await self._submit(tenant, api_key, received, key)
        finally:
            self._receiving -= Counter([tenant])

    async def _submit(
        self,
        tenant: str,
        api_key: str | None,
        received: AsyncIterator[Received],
        key: str | None,
    ) -> tuple[Batch, bool]:
        upload = await self._store.batches.upload(tenant, origin_of_request())
        try:
            async with upload.kept():
                batch_id = await self._receive(upload, api_key, received, key)
        except BaseException:  # a client that has gone cancels
            upload.abandon()
            raise
        return await self._store.batches.get(tenant, batch_id), batch_id != upload.id

    async def _receive(
        self,
        upload: BatchUpload,
        api_key: str | None,
        received: AsyncIterator[Received],
        key: str | None,
    ) -> str:
        options, seen = BatchOptions(), set[str]()
        async for part in received:
            if isinstance(part, BatchOptions):
                options = part
                self._require_signing(part)
            elif isinstance(part, BatchEnd):
                _require_requests(upload)
                return await upload.commit(options, part.sha256, key)
            elif isinstance(part, RefusedLine):
                seen.add(part.custom_id or "")
                await _refuse(upload, part)
            elif part.custom_id in seen:
                await _refuse(upload, _repeated(part))
            else:
                seen.add(part.custom_id)
                await self._add(upload, api_key, part)
        raise AssertionError("a body that was received has an end")

    async def _add(self, upload: BatchUpload, api_key: str | None, line: BatchLine) -> None:
        try:
            request = line.request
            if "priority" not in request.model_fields_set:
                request = request.model_copy(update={"priority": "batch"})
            sent = ClientRequest(upload.tenant, request, line.sha256, api_key=api_key)
            new = await self._service.admitted(sent)
            # Thousands of refinements in one trace are of use to nobody: each refers to it.
            new = replace(new, origin=origin_of_request(as_link=True))
            await upload.add(line.line, line.custom_id, new)
        except InvalidRequest as refused:
            why = line.overlay.blamed(refused)
            await _refuse(upload, refused_line(line.line, line.custom_id, why, "/request"))

    def _require_signing(self, options: BatchOptions) -> None:
        if options.webhook is not None and not self._store.webhooks.can_sign:
            error = FieldError(pointer="/batch/webhook", detail=ENDPOINTS.missing)
            raise InvalidRequest(f"line 1: {error.detail}", errors=(error,))


def _repeated(line: BatchLine) -> RefusedLine:
    error = FieldError(pointer="/custom_id", detail="an earlier line has the same custom_id")
    why = InvalidRequest.at(error)
    return refused_line(line.line, line.custom_id, why)


async def _refuse(upload: BatchUpload, line: RefusedLine) -> None:
    """Store why a line was refused; raise InvalidRequest if it is one too many."""
    if len(upload.errors) >= MAX_REFUSED:
        raise _because_of_the_first(upload, f"more than {MAX_REFUSED} lines are refused")
    await upload.refuse(line)


def _require_requests(upload: BatchUpload) -> None:
    """Raise InvalidRequest for a batch without a valid request."""
    if not upload.total:
        raise InvalidRequest("the batch has no requests: send one per line")
    if upload.total == len(upload.errors):
        raise _because_of_the_first(upload, "no line has a valid request")


def _because_of_the_first(upload: BatchUpload, why: str) -> InvalidRequest:
    first = upload.errors[0]
    detail = f"{why}; line {first.line}: {first.error.detail}"
    return InvalidRequest(detail, errors=first.error.errors)
