"""A model that hangs leaves room for the refinements of others, in simulated time."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from weakref import WeakSet

import pytest

from app.contract.editor import EDITOR
from app.contract.events import StepCompleted
from app.contract.models import ModelChoice
from app.contract.status import Status
from benchmarks.limiter import run_skipping
from tests.workers.refinement_harness import (
    TEST_MODEL,
    RefinementHarness,
    ScriptedAnswers,
    pausing_at,
    scores,
)
from workers.models.port import ModelCall, ModelWaits
from workers.play.limits import PROBE_EVERY_S, SLOW_S, Bulkhead
from workers.play.refinements import Refinements

SLOTS, MOST_HELD, TIMEOUT_S = 30, 120, 120.0


class BusyWorker:
    """Claims refinements that call a model each, and holds them for as long as the model takes."""

    def __init__(self, slots: int = SLOTS, most_held: int = MOST_HELD) -> None:
        self.bulkhead = Bulkhead(slots, most_held, TIMEOUT_S)
        self._slots, self._most_held = slots, most_held
        self._tasks: set[asyncio.Task[None]] = set()
        self.parked = 0

    @property
    def held(self) -> int:
        return len(self._tasks)

    @property
    def free(self) -> int:
        playing = self.held - self.bulkhead.without_slot()
        return min(self._slots - playing, self._most_held - self.held)

    async def take(self, model: str, latency_s: float, most: int = 10_000) -> int:
        """Claim refinements of a model while there are free slots; return how many it holds."""
        before, parked = self.held, self.parked
        for _ in range(most):
            if self.free <= 0:
                break
            self.start(model, latency_s)
            await asyncio.sleep(0)
            if self.parked - parked > 2 * MOST_HELD:  # all the rest would be parked as well
                break
        await asyncio.sleep(0)
        return self.held - before

    def start(self, model: str, latency_s: float, *, has_permit: bool = False) -> None:
        task = asyncio.create_task(self._play(model, latency_s, has_permit))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _play(self, model: str, latency_s: float, has_permit: bool) -> None:
        try:
            with (
                self.bulkhead.holding(),
                self.bulkhead.calls().calling(model, has_permit=has_permit),
            ):
                await asyncio.sleep(latency_s)
        except ModelWaits:
            self.parked += 1

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def simulated(main: Callable[[BusyWorker], Awaitable[None]]) -> None:
    async def run() -> None:
        worker = BusyWorker()
        await main(worker)
        await worker.end()

    run_skipping(run())


def test_a_model_that_hangs_keeps_no_slot_and_takes_no_more() -> None:
    async def main(worker: BusyWorker) -> None:
        assert await worker.take("p:hangs", 1000) == SLOTS
        assert worker.free == 0
        await asyncio.sleep(SLOW_S)
        assert worker.free == SLOTS
        assert await worker.take("p:hangs", 1000) == 0
        assert worker.parked > 0
        await worker.take("p:fine", 0.2)
        await asyncio.sleep(0.3)
        assert await worker.take("p:fine", 0.2) == SLOTS

    simulated(main)


def test_however_many_models_hang_another_one_has_room() -> None:
    async def main(worker: BusyWorker) -> None:
        kept = []
        for number in range(8):
            kept.append(await worker.take(f"p:hangs-{number}", 1000))
            await asyncio.sleep(SLOW_S)
        assert kept == sorted(kept, reverse=True)
        assert worker.held < MOST_HELD
        assert await worker.take("p:fine", 0.2) > 0

    simulated(main)


def test_the_replies_of_slow_models_leave_nine_tenths_of_the_slots_to_others() -> None:
    async def main(worker: BusyWorker) -> None:
        free = []
        for _ in range(240):
            await worker.take("p:slow", 30.0, 1)
            await worker.take("p:slow", 30.0, worker.bulkhead.room("p:slow"))
            free.append(worker.free)
            await asyncio.sleep(0.5)
        settled = free[20:]
        assert sum(settled) / len(settled) >= 0.9 * SLOTS
        assert worker.held <= 2 * SLOTS

    simulated(main)


def test_a_refinement_goes_on_calling_a_model_that_is_held_back_for_others() -> None:
    async def main(worker: BusyWorker) -> None:
        calls = worker.bulkhead.calls()
        with calls.calling("p:hangs"):
            await worker.take("p:hangs", 1000)
            await asyncio.sleep(SLOW_S)
        assert worker.bulkhead.holds_back("p:hangs")
        with calls.calling("p:hangs"):
            pass
        with pytest.raises(ModelWaits), worker.bulkhead.calls().calling("p:hangs"):
            pass
        with worker.bulkhead.calls().calling("p:hangs", has_permit=True):
            pass

    simulated(main)


def test_a_wait_ends_when_the_oldest_call_times_out() -> None:
    async def main(worker: BusyWorker) -> None:
        await worker.take("p:hangs", 1000)
        await asyncio.sleep(20)
        with pytest.raises(ModelWaits) as caught, worker.bulkhead.calls().calling("p:hangs"):
            pass
        wait = caught.value
        assert (wait.awaited, wait.reason, wait.is_open) == ("p:hangs", "slow", False)
        assert wait.wait_s == pytest.approx(TIMEOUT_S - 20)

    simulated(main)


def test_a_step_of_several_calls_is_slow_once_none_of_them_begins_or_ends() -> None:
    async def main(worker: BusyWorker) -> None:
        with worker.bulkhead.holding(), ExitStack() as under_way:
            calls = worker.bulkhead.calls()
            under_way.enter_context(calls.calling("p:first"))
            await asyncio.sleep(SLOW_S / 2)
            with calls.calling("p:second"):
                await asyncio.sleep(SLOW_S / 2)
                assert worker.bulkhead.without_slot() == 0
            await asyncio.sleep(SLOW_S / 2)
            assert worker.bulkhead.without_slot() == 0
            await asyncio.sleep(SLOW_S / 2)
            assert worker.bulkhead.without_slot() == 1
        assert worker.bulkhead.without_slot() == 0

    simulated(main)


def test_newer_ones_wait_behind_those_that_wait_already() -> None:
    async def main(worker: BusyWorker) -> None:
        hanging = worker.bulkhead.calls().calling("p:hangs")
        hanging.__enter__()
        await worker.take("p:hangs", 6.0)
        await asyncio.sleep(SLOW_S)
        assert worker.bulkhead.holds_back("p:hangs")
        await asyncio.sleep(6.0)
        worker.bulkhead.parked(["p:hangs"])
        assert worker.bulkhead.holds_back("p:hangs")
        worker.bulkhead.parked([])
        assert not worker.bulkhead.holds_back("p:hangs")
        hanging.__exit__(None, None, None)

    simulated(main)


def test_a_model_that_answers_again_is_called_more_and_more() -> None:
    async def main(worker: BusyWorker) -> None:
        await worker.take("p:hangs", 1000)
        await asyncio.sleep(SLOW_S)
        assert worker.bulkhead.room("p:hangs") == 0
        resumed = []
        for _ in range(int(2 * PROBE_EVERY_S / 0.5)):
            await asyncio.sleep(0.5)
            room = min(worker.bulkhead.room("p:hangs"), worker.free)
            for _ in range(room):
                worker.start("p:hangs", 0.2, has_permit=True)
            worker.bulkhead.resumed("p:hangs", room)
            resumed.append(room)
        assert sum(resumed[: int(PROBE_EVERY_S / 0.5) - 1]) == 0
        assert sum(resumed) >= 5

    simulated(main)


def test_a_model_that_hangs_on_is_tried_now_and_then() -> None:
    async def main(worker: BusyWorker) -> None:
        await worker.take("p:hangs", 1000)
        for _ in range(int(6 * PROBE_EVERY_S / 0.5)):
            await asyncio.sleep(0.5)
            for _ in range(room := worker.bulkhead.room("p:hangs")):
                worker.start("p:hangs", 1000, has_permit=True)
            worker.bulkhead.resumed("p:hangs", room)
        assert worker.held in range(SLOTS + 4, SLOTS + 7)

    simulated(main)


class Name(str):
    """The name of a model, of which it can be found out whether anything still has it."""

    __slots__ = ("__weakref__",)


def test_names_of_models_whose_calls_have_ended_are_forgotten() -> None:
    async def main(worker: BusyWorker) -> None:
        names = WeakSet[Name]()

        async def call_now_and_then(name: Name, number: int) -> None:
            names.add(name)
            await worker.take(name, [0.1, 2 * SLOW_S][number % 2], most=3)
            await asyncio.sleep(SLOW_S / 2)
            worker.bulkhead.resumed(name, worker.bulkhead.room(name))
            await asyncio.sleep(3 * SLOW_S)

        for number in range(20):
            await call_now_and_then(Name(f"p:{number}"), number)
        await worker.take("p:last", 0.1, most=1)
        await asyncio.sleep(1)
        gc.collect()
        assert not names

    simulated(main)


def test_without_more_room_than_slots_nothing_is_held_back() -> None:
    async def main(_worker: BusyWorker) -> None:
        worker = BusyWorker(SLOTS, SLOTS)
        assert await worker.take("p:hangs", 1000) == SLOTS
        await asyncio.sleep(SLOW_S)
        assert worker.free == 0
        assert not worker.bulkhead.holds_back("p:hangs")
        assert worker.bulkhead.room("p:hangs") >= SLOTS
        await worker.end()

    simulated(main)


async def test_a_refinement_of_a_model_that_hangs_is_parked_before_it_begins(
    harness: RefinementHarness,
) -> None:
    models, begun, go_on = pausing_at("iterations/1/draft", scores(0.9))
    bulkhead = Bulkhead(1, 2)
    worker = Refinements(harness.worker_store, models, "first", bulkhead=bulkhead)
    hanging, parked = await harness.submit(), await harness.submit()
    playing = asyncio.create_task(harness.deliver(worker, hanging))
    await begun.wait()
    await harness.deliver(worker, parked)
    now = await harness.snapshot(parked)
    assert (now.status, now.waiting, now.last_event) == (Status.QUEUED, None, 1)
    assert bulkhead.room(TEST_MODEL.model) == 0
    go_on.set()
    await playing
    assert bulkhead.room(TEST_MODEL.model) > 0
    await harness.resume()
    await harness.deliver(worker, parked)
    for each in (hanging, parked):
        assert (await harness.snapshot(each)).status is Status.SUCCEEDED


async def test_a_refinement_in_progress_is_parked_when_its_model_hangs(
    harness: RefinementHarness,
) -> None:
    models, begun, go_on = pausing_at("iterations/1/draft", scores(0.9))
    worker = Refinements(harness.worker_store, models, "first", bulkhead=Bulkhead(1, 2))
    hanging, taken_over = await harness.submit(), await harness.submit()
    before = await harness.worker_store.claim(taken_over, f"{taken_over}-1", "test")
    assert before is not None
    await harness.worker_store.hand_back(taken_over, before.nonce)
    playing = asyncio.create_task(harness.deliver(worker, hanging))
    await begun.wait()
    await worker.refine(f"{taken_over}-2", taken_over)
    waiting = (await harness.snapshot(taken_over)).waiting
    assert waiting is not None
    assert (waiting.reason, waiting.model) == ("slow", TEST_MODEL.model)
    assert models.calls["iterations/1/draft"] == 1
    await harness.resume()
    resumed = asyncio.create_task(worker.refine(f"{taken_over}-3", taken_over))
    go_on.set()
    await asyncio.gather(playing, resumed)
    assert (await harness.snapshot(taken_over)).status is Status.SUCCEEDED


async def test_a_fallback_is_asked_instead_of_a_model_that_hangs(
    harness: RefinementHarness,
) -> None:
    async def answer(key: str, call: ModelCall) -> str:
        if call.model == "first:x":
            begun.set()
            await go_on.wait()
        return await scores(0.9).answer(key, call)

    begun, go_on = asyncio.Event(), asyncio.Event()
    models = ScriptedAnswers(answer)
    worker = Refinements(harness.worker_store, models, "first", bulkhead=Bulkhead(1, 2))
    alone, backed = (
        ModelChoice(model="first:x", fallbacks=it, max_output_tokens=100)
        for it in ((), ("second:y",))
    )
    hanging = asyncio.create_task(harness.deliver(worker, await harness.submit(alone)))
    await begun.wait()
    refinement_id = await harness.submit(backed)
    await harness.deliver(worker, refinement_id)
    events = await harness.events(refinement_id)
    first = next(it.data for it in events if isinstance(it.data, StepCompleted))
    assert first.model == "second:y"
    assert [(it.model, it.code) for it in first.tried] == [("first:x", "slow")]
    go_on.set()
    await hanging


async def test_the_offline_editor_is_busy_rather_than_waiting(harness: RefinementHarness) -> None:
    async def answer(key: str, call: ModelCall) -> str:
        seen.append(bulkhead.waiting_for(call.model))
        return await scores(0.9).answer(key, call)

    seen: list[int] = []
    bulkhead = Bulkhead(1, 2)
    worker = Refinements(harness.worker_store, ScriptedAnswers(answer), "first", bulkhead=bulkhead)
    for model, count in ((EDITOR, 0), ("openai:x", 1)):
        seen.clear()
        choice = ModelChoice(model=model, max_output_tokens=100)
        await harness.deliver(worker, await harness.submit(choice))
        assert set(seen[:1]) == {count}
