"""What many ask for at once travels together, and each is answered for itself."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Self

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from app.contract.status import Status
from app.local.embedded import EmbeddedRedis
from app.store import Journal, Store, WorkerStore
from app.store.redis.committer import Committer, replies_in_order
from app.store.redis.connection import BACKOFF, NotSent, api_client, is_away, worker_client
from app.store.redis.scripts import APPEND, LOOK
from tests.store.store_harness import CANCELED, kinds, recorded, started, step
from tests.waiting import TIMEOUT_S, skipping_clock

pytestmark = pytest.mark.oldest_too


async def commands_processed(redis: Redis, name: str) -> int:
    stats = await redis.info("commandstats")
    return int(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"])


@pytest.mark.one_server
async def test_requests_of_one_turn_of_the_loop_share_a_pipeline(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = [await started(store, worker) for _ in range(50)]
    before = (await redis.info("stats"))["total_reads_processed"]
    await asyncio.gather(*(it.journal.append([step()]) for it in held))
    reads = (await redis.info("stats"))["total_reads_processed"] - before
    assert reads < 15  # a pipeline may arrive in parts


async def test_scripts_that_redis_has_lost_are_given_again(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = [await started(store, worker) for _ in range(20)]
    await redis.script_flush()
    states = await asyncio.gather(*(it.journal.append([step()]) for it in held))
    assert [state.last_event for state in states] == [3] * 20
    for it in held:
        assert len(await kinds(store, it.id)) == 3


async def test_an_error_reaches_its_own_caller_alone(store: Store, worker: WorkerStore) -> None:
    good, bad = await started(store, worker), await started(store, worker)
    results = await asyncio.gather(
        good.journal.append([step()]),
        bad.journal.append([CANCELED], to=Status.CANCELED),
        good.journal.append([step("again")]),
        return_exceptions=True,
    )
    assert isinstance(results[1], ResponseError)
    assert [getattr(it, "last_event", None) for it in results] == [3, None, 4]


async def test_the_first_error_of_several_answers_is_raised_and_no_other_is_logged() -> None:
    loop, logged = asyncio.get_running_loop(), list[str]()
    loop.set_exception_handler(lambda _, about: logged.append(about["message"]))
    answers = [loop.create_future() for _ in range(3)]
    answers[0].set_exception(RedisTimeoutError())
    answers[1].set_exception(ResponseError())
    with pytest.raises(RedisTimeoutError):
        await replies_in_order(*answers)
    assert answers[2].cancelled()
    del answers
    gc.collect()
    assert logged == []


async def test_every_request_gets_its_own_answer(committer: Committer) -> None:
    texts = [f"{n:x}" * 300 for n in range(1_000)]  # far more than a socket's buffer holds
    answers = await asyncio.gather(*(committer.execute("ECHO", it) for it in texts))
    assert [it.decode() for it in answers] == texts


async def test_a_connection_that_cannot_be_had_is_everybodys_error() -> None:
    async with worker_client("redis://127.0.0.1:1/0") as client:
        committer = Committer(client)
        results = await asyncio.gather(
            *(committer.submit(APPEND, "ref_1") for _ in range(3)), return_exceptions=True
        )
        await committer.aclose()
    assert [type(result) for result in results] == [NotSent] * 3


async def test_closing_leaves_nothing_of_cancelled_requests_that_were_never_sent() -> None:
    async with worker_client("redis://127.0.0.1:1/0") as client:
        committer = Committer(client)
        request = committer.execute("PING")
        await asyncio.sleep(0.01)  # until it connects
        request.cancel()
        await committer.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closing_waits_for_what_was_asked_for(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    committer = Committer(redis)
    journal = Journal((await started(store, worker)).claimed, committer)
    appending = asyncio.create_task(journal.append([step()]))
    await asyncio.sleep(0)
    await committer.aclose()
    assert (await appending).last_event == 3


async def test_a_connection_that_breaks_loses_nothing_and_doubles_nothing(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    for n in range(20):
        appending = asyncio.create_task(held.journal.append([step(f"s/{n}")]))
        await asyncio.sleep(0)
        await redis.client_kill_filter(_type="normal", skipme=True)
        try:
            await appending
        except RedisConnectionError:
            await held.journal.append([step(f"s/{n}")])
    found = await recorded(worker, held.id)
    assert [getattr(event.data, "key", None) for event in found[2:]] == [
        f"s/{n}" for n in range(20)
    ]


@pytest.mark.parametrize("callers", [1, 10])
async def test_a_caller_that_is_cancelled_disturbs_no_other(
    store: Store, worker: WorkerStore, callers: int
) -> None:
    gone, *others = [await started(store, worker) for _ in range(callers + 1)]
    leaving = asyncio.create_task(gone.journal.append([step()]))
    staying = [asyncio.create_task(it.journal.append([step()])) for it in others]
    await asyncio.sleep(0)
    leaving.cancel()
    assert [(await it).last_event for it in staying] == [3] * callers


async def echoed(committer: Committer, texts: list[str]) -> list[bytes]:
    return list(await asyncio.gather(*(committer.execute("ECHO", it) for it in texts)))


async def test_after_a_lost_connection_every_request_still_gets_its_own_answer(
    committer: Committer, redis: Redis
) -> None:
    texts = [f"{n}:" * 500 for n in range(500)]
    for _ in range(5):
        echoing = asyncio.create_task(echoed(committer, texts))
        await asyncio.sleep(0.001)
        await redis.client_kill_filter(_type="normal", skipme=True)
        assert [it.decode() for it in await echoing] == texts


async def test_the_answers_to_cancelled_requests_go_to_nobody_else(committer: Committer) -> None:
    asked = {n: committer.execute("ECHO", n) for n in range(300)}
    await asyncio.sleep(0)
    for n in range(0, 300, 2):
        asked[n].cancel()
    assert [await asked[n] for n in range(1, 300, 2)] == [b"%d" % n for n in range(1, 300, 2)]


async def test_a_script_is_given_again_though_the_caller_it_goes_with_was_cancelled(
    committer: Committer, redis: Redis
) -> None:
    await committer.execute("PING")
    await redis.script_flush()
    first, *others = [committer.submit(LOOK, f"ref_{n}", 1, 0, 0) for n in range(5)]
    async with asyncio.timeout(TIMEOUT_S):
        while not committer._texts_sent:  # noqa: ASYNC110
            await asyncio.sleep(0)
        first.cancel()
        assert await asyncio.gather(*others) == [b"FENCED"] * 4


async def settled(answer: asyncio.Future[object]) -> object:
    """Return an answer or its error."""
    return (await asyncio.gather(answer, return_exceptions=True))[0]


@pytest.mark.one_server
@pytest.mark.parametrize("retries", [0, 100, -1])
async def test_a_redis_that_is_silent_for_the_socket_timeout_is_asked_again(
    redis: Redis, redis_url: str, retries: int
) -> None:
    client = Redis.from_url(
        redis_url, protocol=2, socket_timeout=0.2, retry=Retry(BACKOFF, retries)
    )
    async with client, aclosing(Committer(client)) as committer, asyncio.timeout(TIMEOUT_S):
        while isinstance(await settled(committer.execute("PING")), RedisTimeoutError):
            pass
        await redis.client_pause(500)
        try:
            assert await committer.execute("ECHO", "again") == b"again"
        except RedisTimeoutError:
            assert retries == 0
        else:
            assert retries
        finally:
            await redis.client_unpause()


@pytest.mark.one_server
async def test_a_replica_refuses_writes_and_answers_reads_of_the_same_turn(
    committer: Committer, redis: Redis
) -> None:
    first = await committer.execute("CLIENT", "ID")
    await redis.replicaof("127.0.0.1", "1")
    try:
        answers = await asyncio.gather(
            committer.execute("SET", "key", 1),
            committer.execute("ECHO", "read"),
            return_exceptions=True,
        )
    finally:
        await redis.replicaof("NO", "ONE")
    assert isinstance(answers[0], RedisConnectionError)
    assert is_away(answers[0])
    assert answers[1] == b"read"
    assert await committer.execute("CLIENT", "ID") != first


class SilentServer:
    """Accepts connections and answers nothing; counts connections."""

    def __init__(self, path: Path) -> None:
        self.url = f"unix://{path}"
        self.connections = 0
        self._path = path

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Self]:
        async with await asyncio.start_unix_server(self._accept, self._path):
            yield self

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while await reader.read(1_024):
            pass
        writer.close()


async def test_when_redis_does_not_answer_all_who_wait_fail_at_once(tmp_path: Path) -> None:
    async with (
        SilentServer(tmp_path / "silent").listening() as server,
        api_client(server.url) as it,
    ):
        committer = Committer(it, 0.5)
        results = await asyncio.gather(
            *(committer.submit(LOOK, f"ref_{n}", 1, 0, 0) for n in range(640)),
            return_exceptions=True,
        )
        await committer.aclose()
    assert {type(result) for result in results} == {TimeoutError}
    assert server.connections == 1


async def test_time_in_which_the_loop_stands_still_is_not_time_that_redis_takes(
    redis_server: EmbeddedRedis,
) -> None:
    skip = skipping_clock()

    async def stand_still() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            skip(2 * TIMEOUT_S)  # what a busy process does to its loop

    async with (
        api_client(redis_server.url) as client,
        aclosing(Committer(client, TIMEOUT_S)) as committer,
    ):
        standing_still = asyncio.create_task(stand_still())
        answers = await asyncio.gather(*(committer.execute("PING") for _ in range(320)))
        await standing_still
    assert answers == [True] * (320)


async def test_those_who_wait_are_answered_however_long_the_queue_is(redis: Redis) -> None:
    skip = skipping_clock()
    async with aclosing(Committer(redis, TIMEOUT_S)) as committer:
        for _ in range(20):  # each takes a fifth of the time for which Redis may be silent
            answer = committer.execute("BLPOP", "nothing:here", 0.01)
            answer.add_done_callback(lambda _: skip(TIMEOUT_S / 5))
        assert await committer.execute("PING")


@pytest.mark.one_server
async def test_what_is_asked_after_the_end_is_refused_and_opens_no_connection(redis: Redis) -> None:
    committer = Committer(redis)
    await committer.execute("PING")
    await committer.aclose()
    with pytest.raises(NotSent):
        await committer.execute("PING")
    assert asyncio.all_tasks() == {asyncio.current_task()}
