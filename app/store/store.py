"""The API's side of the store: create, read, list, follow and command refinements."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from uuid import uuid4

from pydantic_core import to_json

from app.contract.drafts import sha256_of
from app.contract.endpoints import Endpoint
from app.contract.errors import (
    BatchNotFound,
    Conflict,
    HoneError,
    IdempotencyMismatch,
    NotStored,
    PreconditionFailed,
    RefinementNotFound,
)
from app.contract.events import Event
from app.contract.limits import Limits, LimitsChange
from app.contract.ratings import Rated
from app.contract.reviews import PauseRequest, ReviewDecision
from app.contract.snapshot import Snapshot
from app.contract.webhooks import Delivery
from app.store.access import AccessStore
from app.store.administration import Administration
from app.store.archive_check import ArchiveCheck
from app.store.archive_transfer import (
    ArchiveTransfer,
    archived_at,
    required,
)
from app.store.batches import BatchStore
from app.store.cell_records import CellRecords
from app.store.creation import Creation, Enqueuer
from app.store.live_texts import encode_watched
from app.store.packing import unpack_record
from app.store.presets import PresetStore
from app.store.proposals import ProposalStore, work_of
from app.store.redis import keys
from app.store.redis.codec import (
    decode_limits,
    decoded_event,
    encode_additions,
    encode_limits,
    encode_rating,
    encode_retry,
    pending_reviews,
)
from app.store.redis.committer import Commands, Committer
from app.store.redis.connection import refusals, refusing
from app.store.redis.scripts import (
    COMMAND,
    ERASE,
    MOST_RATINGS,
)
from app.store.refinements import RefinementReader
from app.store.reviews import decide
from app.store.sealing import NO_SEALER, ProviderKeyStore, Resealing, Sealer
from app.store.signing_secrets import EndpointSecrets
from app.store.state import (
    BATCH_PREFIX,
    Accepted,
    Addition,
    ArchiveAway,
    Job,
    NewRefinement,
)
from app.store.statistics import Statistics
from app.store.stub import with_stub
from app.store.webhooks import WebhookStore

NO_CHANGE = LimitsChange()
Versions = Collection[int] | None
"""Numbers of the last event with which a command may find a refinement; None: any."""

log = logging.getLogger(__name__)


class Store(RefinementReader):
    """The operations of the API. Every method raises `Unavailable` if Redis is unreachable.

    Another tenant's refinement is RefinementNotFound. A command that comes too late raises
    Conflict.
    """

    def __init__(
        self,
        committer: Committer,
        creation: Creation,
        enqueuer: Enqueuer,
        lease_ms: int,
        sealer: Sealer = NO_SEALER,
        secrets: EndpointSecrets | None = None,
        transfer: ArchiveTransfer | None = None,
    ) -> None:
        super().__init__(committer, sealer, None if transfer is None else transfer.archive)
        self._transfer = transfer
        self.webhooks = WebhookStore(committer, secrets)
        self.presets = PresetStore(committer, sealer)
        self.proposals = ProposalStore(committer)
        self.batches = BatchStore(committer, creation, sealer, self._archive)
        self.provider_keys = ProviderKeyStore(committer, sealer)
        self._creation = creation
        self._enqueuer = enqueuer
        self._lease_ms = lease_ms
        self.access = AccessStore(committer)
        self.cell = CellRecords(committer)
        self.number = creation.cell
        """That of its cell, if there are several."""
        self.statistics = Statistics(committer)
        self.administration = Administration(committer, creation.server, self.webhooks)
        self._resealing = Resealing(committer, sealer)

    def read_copies_through(self, commands: Commands) -> None:
        """Read presets and keys of providers, which every cell has a copy of, by these commands."""
        self.presets = PresetStore(commands, self._sealer)
        self.provider_keys = ProviderKeyStore(commands, self._sealer)

    @refusing
    async def create(self, new: NewRefinement, idempotency_key: str | None) -> Accepted:
        """Store and queue a refinement in one step.

        Returns the one that the same key and body created within 24 hours, if there is one. Raises
        IdempotencyMismatch, Overloaded if the queue is full or memory nearly full, and
        QuotaExceeded.
        """
        created = await self._creation.create(new, idempotency_key)
        if created.snapshot.archived:
            return replace(created, snapshot=await self._snapshot(new.tenant, created.id))
        return created

    async def webhook(self, tenant: str, record_id: str) -> Endpoint | None:
        """Return where the news of a refinement or batch goes, secrets included, if anywhere.

        Raises NotFound.
        """
        if record_id.startswith(BATCH_PREFIX):
            return await self.batches.webhook(tenant, record_id)
        return (await self.request(tenant, record_id)).webhook

    async def deliveries(self, tenant: str, record_id: str) -> tuple[Delivery, ...]:
        """Return the webhooks of a refinement or batch, else raise NotFound."""
        webhook = await self.webhook(tenant, record_id)
        if webhook is None:
            return ()
        with refusals():
            archived = await self._archived_record(tenant, record_id)
        stored = None if archived is None else archived.deliveries
        return await self.webhooks.deliveries(tenant, record_id, webhook.url, stored)

    @refusing
    async def knows(self, tenant: str, idempotency_key: str) -> bool:
        """Return whether a submission had this key within 24 hours."""
        key = keys.idempotency(tenant, idempotency_key)
        return bool(await self._committer.execute("EXISTS", key))

    @refusing
    async def bring_back(self, tenant: str, record_id: str) -> None:
        """Write a record into Redis again if it is archived."""
        if await archived_at(self._committer, tenant, record_id) is not None:
            await required(self._transfer).bring_back(tenant, record_id)

    @refusing
    async def cancel(
        self,
        tenant: str,
        refinement_id: str,
        command_id: str | None = None,
        versions: Versions = None,
    ) -> Snapshot:
        """Cancel it: immediately if no worker holds it, else it becomes `canceling`.

        Raises RefinementNotFound, Conflict if it has succeeded or failed, and PreconditionFailed
        if its last event is none of `versions`.
        """
        await self._command("cancel", tenant, refinement_id, command_id, versions)
        return await self._snapshot(tenant, refinement_id)

    @refusing
    async def finish(
        self,
        tenant: str,
        refinement_id: str,
        command_id: str | None = None,
        versions: Versions = None,
    ) -> Snapshot:
        """End it with its best draft: journal `refinement.stopping` as soon as there is one.

        A paused one is queued, and ends when it is claimed. Raises RefinementNotFound, Conflict if
        it has ended or is being canceled, and PreconditionFailed like `cancel`.
        """
        await self._command("finish", tenant, refinement_id, command_id, versions)
        return await self._snapshot(tenant, refinement_id)

    @refusing
    async def pause(
        self,
        tenant: str,
        refinement_id: str,
        pause: PauseRequest,
        command_id: str | None = None,
        versions: Versions = None,
    ) -> Snapshot:
        """Pause it after the steps in progress; nothing changes if it is paused already.

        Raises RefinementNotFound, Conflict if it has ended or is about to, and PreconditionFailed.
        """
        plan = pause.model_dump_json()
        await self._command("pause", tenant, refinement_id, command_id, versions, plan, plan)
        return await self._snapshot(tenant, refinement_id)

    @refusing
    async def review(
        self,
        tenant: str,
        refinement_id: str,
        review: ReviewDecision,
        command_id: str | None = None,
        versions: Versions = None,
        *,
        known_as: Sequence[str] = (),
    ) -> Snapshot:
        """Journal a reviewer's decision and queue the refinement, unless it needs more approvals.

        `known_as`: the names of the reviewer, the newest first; default: the one in the decision.
        Raises RefinementNotFound, Conflict unless this review is pending, IdempotencyMismatch if an
        earlier decision had this `command_id` and other content, PreconditionFailed, Forbidden for
        who is not asked, and InvalidRequest if it must say who decides.
        """
        names = known_as or (() if review.reviewer is None else (review.reviewer,))
        asked = review.model_dump_json() + to_json(names).decode()
        while True:
            summary = await self._own_summary(tenant, refinement_id)
            decided = error = None
            try:
                decided = decide(refinement_id, pending_reviews(summary), review, names)
            except HoneError as refusal:
                error = refusal
            last = with_stub(summary)[b"last_event"]
            args = (last, *(decided.words() if decided else ()))
            code, _ = await self._command(
                "review", tenant, refinement_id, command_id, versions, asked, *args
            )
            if code == "STALE":
                continue
            if code == "UNDECIDED" and error is not None:
                raise error
            return await self._snapshot(tenant, refinement_id)

    @refusing
    async def was_given(self, refinement_id: str, kind: str, command_id: str | None) -> bool:
        """Return whether a command of a client, `review` or `retry`, has taken effect before."""
        if command_id is None:
            return False
        key, name = keys.GIVEN + refinement_id, f"{kind} {command_id}"
        return bool(await self._committer.execute("HEXISTS", key, name))

    @refusing
    async def change(
        self,
        tenant: str,
        refinement_id: str,
        change: LimitsChange,
        command_id: str | None = None,
        versions: Versions = None,
    ) -> Limits:
        """Change limits and return those now in force; a change to the same ones is no event.

        Raises RefinementNotFound, Conflict if it has ended or is being canceled,
        PreconditionFailed, and IdempotencyMismatch if an earlier change had this `command_id` and
        other content.
        """
        asked = change.model_dump_json(exclude_none=True)
        while True:
            key = keys.SUMMARY + refinement_id
            seq, stored = await self._committer.execute("HMGET", key, "limits_seq", "limits")
            limits = stored and change.applied_to(decode_limits(stored))
            args = (asked, seq or "", (limits and encode_limits(limits)) or "")
            code, _ = await self._command(
                "change", tenant, refinement_id, command_id, versions, *args
            )
            if code != "STALE" and stored:  # else it was brought back from the archive
                return limits if code == "OK" else decode_limits(stored)
            # Another client has changed them in the meantime.

    @refusing
    async def retry(
        self,
        tenant: str,
        refinement_id: str,
        change: LimitsChange = NO_CHANGE,
        command_id: str | None = None,
    ) -> Snapshot:
        """Queue a failed refinement under changed limits: it goes on from its journal.

        The steps that made up its failure are void, and `max_seconds` starts anew. Raises
        RefinementNotFound, Conflict unless it has failed, and IdempotencyMismatch if an earlier
        retry had this `command_id` and other limits.
        """
        asked = change.model_dump_json(exclude_none=True)
        while True:
            summary = await self._summary(tenant, refinement_id)
            args = encode_retry(refinement_id, summary, change)
            code, _ = await self._command(
                "retry", tenant, refinement_id, command_id, None, asked, *args
            )
            if code in TAKEN:
                return await self._snapshot(tenant, refinement_id)
            # It was packed, or another command has changed it in the meantime.
            await unpack_record(self._committer, refinement_id)

    @refusing
    async def rate(
        self,
        tenant: str,
        refinement_id: str,
        rated: Rated,
        additions: Sequence[Addition] = (),
        command_id: str | None = None,
    ) -> tuple[Event, bool]:
        """Journal a person's rating, in any status, and add to sums.

        Returns its event, and whether it was journaled before under the same `command_id`. Raises
        RefinementNotFound, IdempotencyMismatch if an earlier rating had this `command_id` and other
        content, and Conflict if there are `MOST_RATINGS` already.
        """
        while True:
            summary = await self._summary(tenant, refinement_id)
            args = (*encode_rating(refinement_id, summary, rated), encode_additions(additions))
            code, number = await self._command(
                "rate", tenant, refinement_id, command_id, None, rated.model_dump_json(), *args
            )
            if code in TAKEN:
                break
            # It has ended in the meantime.
        entries = await self._entries(tenant, refinement_id, int(number) - 1, 1)
        (event,) = [decoded_event(entry_id, entry, b"") for entry_id, entry, *_ in entries]
        assert event is not None
        return event, code == "REPLAYED"

    async def archive_error(self) -> str:
        """Return why the archive cannot be used from here; empty if it can, or nothing is in it."""
        if not (installation := (await self.administration.archive()).installation):
            return ""
        try:
            await required(self._archive).require(installation)
        except ArchiveAway as error:
            return str(error)
        return ""

    async def seal_all(self) -> Counter[str]:
        """Seal everything under the newest key; return how many records were, by kind.

        Raises redis errors, UnreadableSecrets and ArchiveAway.
        """
        done = await self._resealing.seal_all()
        if self._archive is not None and (await self.administration.archive()).installation:
            done["archived records"] += await self.archive_check.seal_all()
        return done

    @cached_property
    def archive_check(self) -> ArchiveCheck:
        """What an operator does with the archive; raise ArchiveAway if none is set."""
        now = datetime.now(UTC)
        return ArchiveCheck(self._committer, required(self._archive), self._sealer, now)

    @property
    def unreadable_objects(self) -> Sequence[str]:
        """What is wrong with objects of the archive that `archive_check` could not read so far."""
        return () if self._archive is None else [*dict.fromkeys(self.archive_check.unreadable)]

    @refusing
    async def erase(self, tenant: str, refinement_id: str) -> None:
        """Delete it and everything derived from it, in any status, or raise RefinementNotFound."""
        await self._erase_proposals_from(tenant, [refinement_id])
        answer = await self._committer.submit(ERASE, refinement_id, tenant, "all")
        if answer == b"MISSING":
            raise RefinementNotFound(refinement_id)
        if answer == b"OBJECTS" and self._transfer is not None:
            await self._transfer.erase(tenant, refinement_id)

    async def erase_batch(self, tenant: str, batch_id: str) -> None:
        """Erase a batch in any status with its refinements and everything derived from them.

        Raises BatchNotFound. If this process dies meanwhile, a worker goes on.
        """
        await self._erase_proposals_from(tenant, await self.batches.begun(tenant, batch_id))
        await self.batches.erase(tenant, batch_id)

    async def erase_proposal(self, tenant: str, proposal_id: str, facts: Mapping[str, Any]) -> None:
        """Delete a proposal with the refinement and the batches that were made for it."""
        await self.erase_work(tenant, work_of(facts))
        await self.proposals.remove(tenant, proposal_id)

    async def erase_work(self, tenant: str, ids: Sequence[str]) -> None:
        """Erase refinements and batches that were made for a proposal, and may be gone."""
        for record_id in ids:
            with suppress(RefinementNotFound, BatchNotFound):
                if record_id.startswith(BATCH_PREFIX):
                    await self.batches.erase(tenant, record_id)
                else:
                    await self.erase(tenant, record_id)

    async def _erase_proposals_from(self, tenant: str, ids: Collection[str]) -> None:
        for proposal_id, facts in (await self.proposals.made_from(tenant, ids)).items():
            await self.erase_proposal(tenant, proposal_id, facts)

    @refusing
    async def delivered(self, tenant: str, refinement_id: str) -> None:
        """Erase the text of an ended refinement that is not to be stored; a client has the result.

        Nothing happens to others, to unknown ones, and while a webhook about it is to be sent.
        """
        await self._committer.submit(ERASE, refinement_id, tenant, "text")

    @refusing
    async def announce_watched(self, ids: Collection[str], behind: Collection[str]) -> None:
        """Tell the workers whose texts somebody watches, and which of them are needed whole."""
        message = encode_watched(ids, behind)
        await self._committer.execute("PUBLISH", keys.WATCHED, message)

    async def _command(
        self,
        name: str,
        tenant: str,
        refinement_id: str,
        command_id: str | None,
        versions: Versions,
        asked: str = "",
        *args: str | bytes | int,
    ) -> tuple[str, bytes]:
        """Send a command; return OK or REPLAYED, and a detail, or raise why it is refused.

        `asked` tells a command from others with its id. STALE or PACKED: what it was made from has
        changed meanwhile. UNDECIDED: a review that decides nothing might be given now.
        """
        pinned = "" if versions is None else f",{','.join(map(str, sorted(versions)))},"
        identity = (uuid4().hex, "-") if command_id is None else (command_id, sha256_of(asked))
        command = (refinement_id, tenant, name, *identity, pinned, self._lease_ms, *args)
        while (answer := await self._committer.submit(COMMAND, *command))[0] == b"ARCHIVED":
            await required(self._transfer).bring_back(tenant, refinement_id)
        code, detail, job = answer
        if job:
            self._enqueue(Job.numbered(refinement_id, job))
        if error := _refusal(code.decode(), refinement_id, detail):
            raise error
        return code.decode(), detail

    def _enqueue(self, job: Job) -> None:
        """Enqueue a job before any later request; if that fails, an idle worker will enqueue it.

        The command has taken effect, so no error here may reach the client.
        """

        def report(enqueued: asyncio.Future[object]) -> None:
            if error := enqueued.exception():
                log.warning("%s: a worker will enqueue its job: %s", job.refinement_id, error)

        self._enqueuer.submit(job).add_done_callback(report)


TAKEN = ("OK", "REPLAYED")
CHANGED = "{id} has changed: its last event is {detail}, which If-Match does not name"
UNFAILED = "only a failed refinement can be retried; an ended one with a result can be continued"
REFUSALS: Mapping[str, tuple[Callable[[str], HoneError], str]] = {
    "MISSING": (RefinementNotFound, "{id}"),
    "UNSTORED": (NotStored, "{id}"),
    "DIFFERS": (PreconditionFailed, CHANGED),
    "MISMATCH": (IdempotencyMismatch, "this Idempotency-Key was used with another body"),
    "LATER": (Conflict, "{id} is {detail}, a status of a later release of Hone"),
    "ENDED": (Conflict, "{id} has ended or is being canceled"),
    "STOPPING": (Conflict, "{id} is about to end"),
    "UNASKED": (Conflict, "{id} is not waiting for a review: pause it to say what to revise"),
    "UNFAILED": (Conflict, f"{{id}} is {{detail}}, and {UNFAILED}"),
    "RATED": (Conflict, f"{{id}} has {MOST_RATINGS} ratings, and takes no more"),
}
"""The error for each code with which command.lua refuses a command."""


def _refusal(code: str, refinement_id: str, detail: bytes) -> HoneError | None:
    if code not in REFUSALS:
        return None
    error, text = REFUSALS[code]
    return error(text.format(id=refinement_id, detail=detail.decode()))
