"""The product with one of its precautions taken out: what the simulation must find."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import ConnectionError as RedisConnectionError

from app.contract.events import StepCompleted
from app.store import Claimed, Fenced, Journal, State, WorkerStore
from app.store.redis import keys
from app.store.redis.committer import Committer
from app.store.redis.connection import until_answered
from app.store.redis.keys import Word
from app.store.redis.scripts import APPEND, CLAIM, LuaScript
from app.store.state import Loaded
from tests.simulation.runs import COMMANDS, DEFAULT_FAULTS
from tests.simulation.world import Parts
from workers.play.driver import Driver
from workers.play.journal import JournalWriter
from workers.play.refinements import Refinements


@dataclass(frozen=True)
class Mutant:
    """Parts with one precaution taken out, and the faults under which that shows."""

    parts: Parts
    shows: str = ""  # a part of what a run that finds it says
    faults: tuple[str, ...] = DEFAULT_FAULTS
    commands: tuple[str, ...] = COMMANDS


class DoublingWriter(JournalWriter):
    """Forgets an append without an answer: what it carried is written with the next one."""

    async def _send(self, append: Any) -> State:
        self.state = await until_answered(
            lambda: self._journal.append(
                append.entries,
                append.fields,
                to=append.to,
                limits_seq=append.limits_seq,
                parking=append.parking,
            ),
            self._journal.id,
        )
        self._written(append.pending, append.under_way)
        return self.state


class DoublingRefinements(Refinements):
    """Plays with drivers whose writers double."""

    def _driver(self, claimed: Claimed, loaded: Loaded) -> Driver:
        driver = super()._driver(claimed, loaded)
        driver._writer = DoublingWriter(driver._journal, driver._replay, claimed.state)
        return driver


class PlainCommitter(Committer):
    """Raises for the lost connection of an append what uvloop raises, which no caller expects."""

    def __init__(self, client: AsyncRedis) -> None:
        super().__init__(client)
        self._retries = 0

    def submit(self, script: LuaScript, *args: Word) -> asyncio.Future[Any]:
        """Return a future of the answer of a script."""
        answer = super().submit(script, *args)
        return asyncio.ensure_future(self._appended(answer)) if script is APPEND else answer

    async def _appended(self, answer: asyncio.Future[Any]) -> Any:
        try:
            return await answer
        except RedisConnectionError as error:
            raise RuntimeError("unable to perform operation on <TCPTransport closed>") from error


class UnfencedJournal(Journal):
    """Takes FENCED for an answer like any other."""

    def _learn(self, reply: bytes, known: State) -> State:
        try:
            return super()._learn(reply, known)
        except Fenced:
            return known


class UnfencedStore(WorkerStore):
    """Gives out journals that ignore the fence."""

    def journal(self, claimed: Claimed) -> Journal:
        return UnfencedJournal(claimed, self._committer)


class ForgetfulStore(WorkerStore):
    """Loads a journal without its last step."""

    async def load(self, refinement_id: str) -> Loaded:
        loaded = await super().load(refinement_id)
        steps = [it for it in loaded.events if isinstance(it.data, StepCompleted)]
        kept = tuple(it for it in loaded.events if it not in steps[-1:])
        return replace(loaded, events=kept)


class SameNonce:
    """A committer whose claims of one job all have the same nonce."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self.execute = committer.execute

    async def submit(self, script: LuaScript, *args: Any) -> object:
        """Return the answer of a script."""
        if script is CLAIM:
            args = (*args[:3], "nonce", *args[4:])
        return await self._committer.submit(script, *args)


class SameNonceStore(WorkerStore):
    """Claims a job that is delivered twice twice, with one token."""

    def __init__(self, client: AsyncRedis, committer: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(client, SameNonce(committer), *args, **kwargs)  # type: ignore[arg-type]


def without(fragment: str, replacement: str = "") -> Parts:
    """Return the product with one line of its scripts replaced."""
    return Parts(edit=lambda text: text.replace(fragment, replacement))


TWICE = "is in the journal 2 times"
ZOMBIES = ("clock", "silence", "stall")
LATE = ("busy", "network", "resets", "silence", "stall")

MUTANTS: dict[str, Mutant] = {
    "an append without an answer is forgotten (defect 1)": Mutant(
        Parts(committer=PlainCommitter, refinements=DoublingRefinements),
        TWICE,
        faults=("network",),
    ),
    "FENCED is ignored": Mutant(Parts(store=UnfencedStore), faults=ZOMBIES),
    "replay forgets the last step": Mutant(Parts(store=ForgetfulStore), TWICE),
    "one nonce for every claim of a job": Mutant(Parts(store=SameNonceStore)),
    "recovery does not wait until Redis has been up": Mutant(
        without("if at - up_since(at, lease_ms) < lease_ms / 2 then expired = 0 end")
    ),
    "append: the nonce is not compared": Mutant(
        without("if held ~= nonce then return 'FENCED' end"), faults=ZOMBIES
    ),
    "append: the operation number is not compared": Mutant(
        without("if tonumber(op) <= tonumber(done) then\n", "if false then\n"),
        TWICE,
    ),
    "append: an ended refinement takes entries": Mutant(
        without("if not holder or is_terminal(status) then return 'FENCED' end"),
        faults=LATE,
        commands=("cancel",),
    ),
    "append: limits that changed are not noticed": Mutant(
        without("if relied ~= '' and relied ~= seq then return answer('STALE') end"),
        faults=LATE,
        commands=("change",),
    ),
    "append: an accepted cancel does not prevail": Mutant(
        without("if overruled then to = 'canceled' end"), faults=LATE, commands=("cancel",)
    ),
    "claim: a lease in force is not respected": Mutant(
        without("if is_held(holder, at) then return false end")
    ),
    "create: a repeated command creates again": Mutant(
        without(
            f"if redis.call('EXISTS', key, '{keys.ERASED!s}' .. id) > 0"
            " then return answer(id, 0) end"
        )
    ),
    "cancel: a worker that still works is not waited for": Mutant(
        without("if status ~= 'canceling' or not is_held(holder, at) then", "if true then"),
        faults=("duplicates", "lost_jobs"),
        commands=("cancel",),
    ),
    "an end leaves the refinement on its old list": Mutant(
        without(
            f"redis.call('ZREM', '{keys.LIST!s}' .. tenant .. '{keys.BY_STATUS!s}' .. from, id)"
        )
    ),
    "an end is not counted": Mutant(
        without(f"  redis.call('ZADD', '{keys.TO_COUNT!s}', at, id)"), shows="were counted"
    ),
    "what a worker adds is not counted": Mutant(
        without(f"redis.call('HSETNX', '{keys.SUMMARY!s}' .. id, 'added', given)", ""),
        shows="were counted",
    ),
    "a journal that lost its end is not noticed": Mutant(
        without("if tonumber(last) < tonumber(seen) or op - done > 1 then", "if false then"),
        faults=("amnesia", "kill", "network"),
    ),
}
