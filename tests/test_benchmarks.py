"""What the benchmark relies on: its slow model, copies in Redis, tables and marks."""

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from cProfile import Profile
from importlib import import_module
from pathlib import Path

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from app.store.redis import keys
from benchmarks.cells import play
from benchmarks.contenders import (
    AFTER_A_CRASH,
    CONTENDERS,
    DBOS,
    HONE,
    REPLY_TO_WATCHER,
    SAQ,
)
from benchmarks.layers import LAYERS, ROOT, costs
from benchmarks.looking import LOGS, OFF, instructions_table
from benchmarks.loop import CALLS, DRAFT, judging, prompts, refinement
from benchmarks.measuring import MeasuredRun
from benchmarks.model_replies import AskedPrompt, climbing
from benchmarks.mutants import (
    Mutation,
    covering_tests,
    failed_test,
    found_by,
    mutants_of,
    note_lines,
    sampled,
    spread,
)
from benchmarks.processes import TICKS, ServiceProgram, cpu_s
from benchmarks.scale import Plot, Sweep, multiply, section
from benchmarks.searching import TENANT, filled
from benchmarks.table import (
    CAPACITY,
    COMPARED,
    GROWN,
    HEADLINE,
    SCALE,
    VARIED,
    carried,
    draw,
    headline,
    held,
    peers_table,
    rounds_played,
    varied,
    write,
)
from workers.engine.replies.texts import TextRequest

FIGURES = {
    **dict.fromkeys(("count", "p50_s", "p99_s", "peak_mb", "in_flight"), 1.0),
    **dict.fromkeys(("submitted/p99_ms", "since_reply/p99_ms"), 5.0),
    "since_reply/p50_ms": 3.0,
    "per_s": 100.0,
    "cpu_ms": 1.0,
    "cpu_ms/all": 1.25,
    "cpu_ms/worker": 0.7,
    "cpu_ms/api": 0.3,
    "cpu_ms/redis": 0.25,
}


OBEYING = """
from pathlib import Path
from benchmarks.processes import OwnSettings, ServiceProgram
child = "from app.settings import Settings; print(Settings().model_dump_json())"
log_dir = Path("log")
log_dir.mkdir()
with ServiceProgram("child", "-c", child, log_dir=log_dir, run_by=("python",)) as started:
    print(OwnSettings().model, started.heard()["model"])
"""


@pytest.mark.parametrize("in_the", ["shell", "folder"])
def test_what_is_measured_obeys_no_setting_of_the_shell_and_the_folder(
    in_the: str, tmp_path: Path
) -> None:
    given = {"HONE_MODEL": "openai:dear", "HONE_SERVER": "http://localhost:1"}
    (tmp_path / ".env").write_text("HONE_MODEL=openai:dear\n" if in_the == "folder" else "")
    own = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", OBEYING],
        env=own | (given if in_the == "shell" else {}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["offline:editor"] * 2


def text_of(prompt: str) -> str:
    asked = AskedPrompt(1, "/v1/chat/completions", b"", prompt.encode())
    text: str = json.loads(climbing(asked).body)["choices"][0]["message"]["content"]
    return text


def test_a_worker_can_still_be_had_without_the_limiter() -> None:
    assert import_module("benchmarks.unlimited").GATES


def test_a_draft_of_the_climbing_model_is_as_long_as_the_task_says() -> None:
    for characters in (1_000, 50_000, 200_000):
        text = text_of(f"Write in {characters} characters.")
        assert 0.9 * characters < len(text) < 1.4 * characters


def test_the_climbing_model_never_passes_and_each_draft_scores_more_than_the_last() -> None:
    verdicts = [text_of(f"You judge this. Draft number {number}.") for number in (1, 2, 50)]
    scores = [
        float(it) for verdict in verdicts for it in re.findall(r'"score": ([0-9.]+)', verdict)
    ]
    assert scores == sorted(set(scores))
    assert scores[-1] < 0.99


def test_a_refinement_is_copied_with_all_that_names_it(redis_url: str) -> None:
    first = "ref_01K0000000000000000000000A"
    with Redis.from_url(redis_url, decode_responses=False) as redis:
        redis.hset(f"x:refinement:{first}", mapping={"status": "succeeded"})
        redis.zadd("x:due", {first: 7, "ref_other": 1})
        redis.hset("x:signatures", mapping={first: "words", "ref_other": "words"})
        multiply(redis, first, 3)
        copies = {it.decode()[-len(first) :] for it in redis.scan_iter("x:refinement:*")}
        assert len(copies) == 4
        assert {it.decode() for it in redis.zrangebyscore("x:due", 7, 7)} == copies
        assert redis.zcard("x:due") == 5
        assert {it.decode() for it in redis.hkeys("x:signatures")} == {*copies, "ref_other"}


async def test_a_search_is_measured_among_as_many_as_it_says(redis_url: str) -> None:
    async with AsyncRedis.from_url(redis_url) as redis:
        await redis.hset(keys.SUMMARY + "ref_like", "status", "succeeded")
        await filled(redis, 3, "ref_like")
        assert await redis.zcard(keys.refinement_list(TENANT)) == 3


def test_a_sweep_is_a_table_with_a_plot(tmp_path: Path) -> None:
    plot = Plot("sizes", "ms", ("worker", "API"))
    sweep = Sweep("Sizes", "characters", (1, 1_000), lambda _: iter(()), (plot,))
    found = [{"worker": 1.0, "API": 0.5}, {"worker": 12.345, "API": 0.5}]
    table = section(sweep, sweep.values, found, plots=tmp_path)
    assert "| characters | worker, ms | API, ms |" in table
    assert "| 1,000 | 12.3 | 0.5 |" in table
    assert "worker" in (tmp_path / "sizes.svg").read_text()


def in_round(contender: str, cpu_ms: float, latency_ms: int = 200) -> MeasuredRun:
    return MeasuredRun(contender, latency_ms, {**FIGURES, "cpu_ms/all": cpu_ms})


def test_tables_have_every_contender_its_processes_and_what_a_crash_leaves() -> None:
    runs = [MeasuredRun(it.name, 200, FIGURES) for it in (*CONTENDERS, *REPLY_TO_WATCHER)]
    table = peers_table(runs, ["a fact"])
    for it in CONTENDERS:
        assert f"| {it.name} | 1 | 1.25 (1.25 to 1.25) | worker 0.70, api 0.30, redis 0.25" in table
        assert f"| {it.name} | {' | '.join(AFTER_A_CRASH[it.name])} |" in table
    assert f"| {REPLY_TO_WATCHER[0].name} | 3 / 5 |" in table


def test_the_page_has_the_medians_of_the_quickest_calls_in_a_table_of_twelve_lines() -> None:
    dear = {**FIGURES, "cpu_ms/all": 9.0}
    runs = [MeasuredRun(it.name, *run) for run in ((200, dear), (0, FIGURES)) for it in CONTENDERS]
    table = headline(runs, ["a fact"]).splitlines()
    rows = [line for line in table if line.startswith("|")]
    assert len(rows) <= 12
    assert rows[2].startswith(f"| {CONTENDERS[0].name} | 1.25 | 1.00 |")


def test_the_page_says_of_whom_fewer_refinements_and_rounds_were_played() -> None:
    few = {**FIGURES, "count": 200.0}
    runs = [MeasuredRun(it, 0, FIGURES) for it in (HONE, SAQ, SAQ, HONE)]
    assert rounds_played([*runs, MeasuredRun(DBOS, 0, few), MeasuredRun(DBOS, 200, few)]) == [
        "1 refinements each; medians of 2 rounds",
        "200 in 1 rounds: DBOS",
    ]


def test_variants_are_compared_with_hone_in_the_same_run() -> None:
    faster = MeasuredRun("2 workers", 200, {**FIGURES, "per_s": 150.0})
    slow = MeasuredRun("2,000 in flight", 2_000, FIGURES)
    lines = varied([MeasuredRun(HONE, 200, FIGURES), faster, slow]).splitlines()
    assert lines[-2].startswith("| 2 workers | 200 ms | 150 | 1.50 | 0.70 | 0.30 | 0.25 |")
    assert lines[-1].startswith("| 2,000 in flight | 2000 ms | 100 | - |")


def test_ratios_are_taken_within_a_round_and_what_was_not_measured_has_none() -> None:
    quiet, busy, busiest = (1.0, 1.1), (2.0, 3.0), (4.0, 4.8)
    runs = [
        in_round(name, cpu_ms)
        for saq_ms, hone_ms in (quiet, busy, busiest)
        for name, cpu_ms in ((SAQ, saq_ms), (HONE, hone_ms))
    ]
    ratios = held([*runs, in_round(DBOS, 4.4), MeasuredRun(REPLY_TO_WATCHER[0].name, 200, FIGURES)])
    assert ratios["cpu_of_saq_http"] == {"200": 1.2}
    assert ratios["of_dbos"] == {"200": 0.25}
    assert ratios["of_restate"] == {}
    assert ratios["reply_p99_ms"] == {"20": 5.0}


def test_the_plot_has_a_bar_for_every_contender_and_latency(tmp_path: Path) -> None:
    runs = [in_round(it.name, 2.0, latency_ms) for it in CONTENDERS for latency_ms in (0, 200)]
    draw(runs, tmp_path / "cpu.svg")
    plot = (tmp_path / "cpu.svg").read_text()
    assert [plot.count(f">{it.name}: 2.00<") for it in CONTENDERS] == [2] * len(CONTENDERS)


def test_instructions_have_a_column_for_each_process_under_test() -> None:
    least = {OFF: {"api": 0.5, "worker": 1.5}, LOGS: {"api": 0.5, "worker": 2.5}}
    table = instructions_table(least, 2)
    assert "| | api | worker | together | of off |" in table
    assert f"| {LOGS} | 0.500 | 2.500 | 3.000 | 1.500 |" in table


def stat(proc: Path, pid: int, parent: int, *ticks: int) -> None:
    """Write `stat` as proc(5) has it, with a name that could be taken for fields."""
    fields = [f"{pid} (a) b (c)", "S", parent, *[0] * 9, *ticks, *[0] * 20]
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "stat").write_text(" ".join(map(str, fields)))


def test_the_cpu_of_a_contender_is_that_of_its_whole_tree_and_of_nothing_else(
    tmp_path: Path,
) -> None:
    own, ended, child, grandchild, other = (1, 2), (4, 8), (16, 32), (64, 128), (256, 512)
    stat(tmp_path, 900, 1, *own, *ended)
    stat(tmp_path, 30, 900, *child, 0, 0)  # a younger process may have a lower id
    stat(tmp_path, 700, 30, *grandchild, 0, 0)
    stat(tmp_path, 901, 1, *other, 0, 0)
    (tmp_path / "33").mkdir()  # a process that has just ended
    assert cpu_s(900, tmp_path) == 255 / TICKS


BURN = "import time\nwhile time.process_time() < 0.2: pass\n"
FAMILY = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BURN!r}])
child = subprocess.Popen([sys.executable, "-c", {BURN!r} + "print('{{}}', flush=True); input()"])
child.wait()
"""


def test_children_count_while_they_live_and_after_they_have_ended(tmp_path: Path) -> None:
    with ServiceProgram(
        "family", "-c", FAMILY, log_dir=tmp_path, run_by=(sys.executable,)
    ) as family:
        family.heard()
        assert cpu_s(family.pid) >= 0.35  # two of 0.2 s, each rounded to 10 ms


def scripted(body: bytes) -> bytes:
    verdict = {"scores": {"quality": {"score": 0.5, "reason": "why"}}}
    said = json.dumps(verdict) if b"json_schema" in body else "A draft."
    return json.dumps({"choices": [{"message": {"content": said}}]}).encode()


def test_peers_in_other_languages_send_the_same_bodies() -> None:
    asked = json.loads(prompts())
    assert json.dumps(asked["judge"]).replace(DRAFT, "A draft.").encode() == judging("A draft.")
    talk = refinement()
    bodies = [next(talk)]
    with suppress(StopIteration):
        while True:
            bodies.append(talk.send(scripted(bodies[-1])))
    assert len(bodies) == CALLS
    assert json.loads(bodies[0]) == asked["write"]


def test_what_a_core_carries_follows_from_its_cpu_time() -> None:
    slower = MeasuredRun(REPLY_TO_WATCHER[0].name, 400, {**FIGURES, "cpu_ms/redis": 9.0})
    table = carried([MeasuredRun(HONE, 200, FIGURES), slower])
    assert "| Redis | 2.0 | 350 | 30 million |" in table


@pytest.mark.parametrize("place", [COMPARED, HEADLINE, VARIED, SCALE, CAPACITY, GROWN])
def test_pages_have_the_marks_between_which_tables_are_written(
    place: tuple[Path, str], tmp_path: Path
) -> None:
    path, mark = place
    copy = tmp_path / path.name
    copy.write_text(path.read_text())
    write((copy, mark), "NEW")
    assert f"<!-- {mark}: begin -->\n\nNEW\n\n<!-- {mark}: end -->" in copy.read_text()


def test_the_layers_of_a_model_call_name_modules_that_exist() -> None:
    missing = [at for layer in LAYERS for at in layer.paths if not (ROOT / at).exists()]
    assert not missing
    listed = [at for layer in LAYERS for at in layer.paths]
    assert len({*listed}) == len(listed)


def test_what_a_library_does_counts_for_the_layer_that_calls_it() -> None:
    with Profile() as profile:
        for _ in range(100):
            TextRequest(task="Answer the customer.").is_about(re.compile("customer"))
    found = costs(profile.getstats())
    (reading,) = (layer for layer in LAYERS if "workers/engine/replies/" in layer.paths)
    assert found[reading].calls >= 200  # of is_about, and of the pattern's search


def test_a_mutant_changes_code_and_neither_comments_nor_texts() -> None:
    text = '"""A is not B."""\nif a == 1 and "x == y":  # a == b\n    return True\n'
    changed = [(mutant.line, mutant.after) for mutant in mutants_of("a.py", text)]
    assert changed == [
        (2, 'if a != 1 and "x == y":'),
        (2, 'if a == 1 or "x == y":'),
        (2, 'if a == 2 and "x == y":'),
        (3, "    return False"),
    ]


def test_a_mutant_is_found_by_the_test_that_pytest_names_first() -> None:
    output = "1 failed\nFAILED tests/a.py::test_b - assert 1\nERROR tests/c.py\n"
    assert failed_test(output) == "tests/a.py::test_b"
    assert failed_test("INTERNALERROR") == "pytest, which ran no test"


def test_the_same_seed_draws_the_same_mutants_in_python_and_lua(tmp_path: Path) -> None:
    (tmp_path / "app" / "store").mkdir(parents=True)
    (tmp_path / "app/store/a.py").write_text("a = b + 1\n")
    (tmp_path / "app/store/b.lua").write_text("-- a == b\nif a ~= b then return end\n")
    drawn = sampled(tmp_path, "app/store", 3, seed=1)
    assert drawn == sampled(tmp_path, "app/store", 3, seed=1)
    assert {mutant.after for mutant in drawn} == {
        "a = b - 1",
        "a = b + 2",
        "if a == b then return end",
    }


def test_a_case_of_each_test_comes_before_further_ones() -> None:
    tests = ["a::t[1]", "a::t[2]", "a::t[3]", "a::u"]
    ordered = spread(tests, "seed")
    assert sorted(ordered) == tests
    assert ordered == spread(reversed(tests), "seed")
    assert "a::u" in ordered[:2]


@pytest.mark.long
def test_a_mutant_is_tried_with_the_tests_that_run_its_line_and_then_with_all(
    tmp_path: Path,
) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "conftest.py").write_text("def pytest_xdist_auto_num_workers():\n    return 2\n")
    room = tmp_path / "app" / "store"
    room.mkdir(parents=True)
    for package in (room.parent, room):
        (package / "__init__.py").touch()
    (room / "a.py").write_text("def double(x):\n    return 2 * x\n\n\nLIMIT = 3\n")
    (tmp_path / "test_a.py").write_text(
        "from app.store import a\n\ndef test_double():\n    assert a.double(2) == 4\n\n"
        "def test_limit():\n    assert a.LIMIT == 3\n"
    )
    note_lines(tmp_path, ["test_a.py"], tmp_path / "noted")
    near = covering_tests(tmp_path, tmp_path / "noted")["app/store/a.py"]
    assert near[2] == ["test_a.py::test_double"]
    assert near[5] == []  # it runs while the tests are collected

    def found(line: int, before: str, after: str) -> str:
        mutant = Mutation("app/store/a.py", line, before, after)
        return found_by(mutant, tmp_path, near[line], ["test_a.py"], long=False)

    assert found(2, "    return 2 * x", "    return 3 * x") == "test_a.py::test_double"
    assert found(5, "LIMIT = 3", "LIMIT = 4") == "test_a.py::test_limit"
    assert not found(2, "    return 2 * x", "    return x * 2")


@pytest.mark.long
def test_a_mutant_that_hangs_is_found_without_waiting_for_the_end(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfaulthandler_exit_on_timeout = true\n")
    (tmp_path / "a.py").write_text("SECONDS = 0\n")
    (tmp_path / "test_a.py").write_text(
        "import a\nimport time\n\ndef test_waits():\n    time.sleep(a.SECONDS)\n"
    )
    mutant = Mutation("a.py", 1, "SECONDS = 0", "SECONDS = 1000")
    assert found_by(mutant, tmp_path, (), ["test_a.py"], long=False, hangs_s=1)


@pytest.mark.long
def test_cells_are_played_by_turns_and_compared() -> None:
    lines = [line.split("|")[1:-1] for line in play(0, 20, 1)]
    one, three, ratio = [[*map(float, line[2:])] for line in lines]
    assert [line[1].strip() for line in lines] == ["1", "3", "ratio"]
    assert min(one + three) > 0
    assert all(abs(b / a - of) < 0.1 for a, b, of in zip(one[:3], three[:3], ratio, strict=False))
