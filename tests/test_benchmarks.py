"""What the benchmark relies on: its slow model, copies in Redis, tables and marks."""

import json
import re
from cProfile import Profile
from importlib import import_module
from pathlib import Path

import pytest
from redis import Redis

from benchmarks.contenders import CONTENDERS, HONE
from benchmarks.layers import LAYERS, ROOT, costs
from benchmarks.measuring import MeasuredRun
from benchmarks.model_replies import AskedPrompt, climbing
from benchmarks.mutants import mutants_of, sampled
from benchmarks.scale import Plot, Sweep, multiply, section
from benchmarks.table import CAPACITY, PRINTED, SCALE, carried, rendered, varied, write
from workers.engine.text_replies import TextRequest

FIGURES = {
    **dict.fromkeys(("count", "p50_s", "p99_s", "peak_mb", "in_flight"), 1.0),
    **dict.fromkeys(("submitted/p99_ms", "since_reply/p99_ms"), 5.0),
    "per_s": 100.0,
    "cpu_ms": 1.0,
    "cpu_ms/all": 1.25,
    "cpu_ms/worker": 0.7,
    "cpu_ms/api": 0.3,
    "cpu_ms/redis": 0.25,
}


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
        multiply(redis, first, 3)
        copies = {it.decode()[-len(first) :] for it in redis.scan_iter("x:refinement:*")}
        assert len(copies) == 4
        assert {it.decode() for it in redis.zrangebyscore("x:due", 7, 7)} == copies
        assert redis.zcard("x:due") == 5


def test_a_sweep_is_a_table_with_a_plot(tmp_path: Path) -> None:
    plot = Plot("sizes", "ms", ("worker", "API"))
    sweep = Sweep("Sizes", "characters", (1, 1_000), lambda _: iter(()), (plot,))
    found = [{"worker": 1.0, "API": 0.5}, {"worker": 12.345, "API": 0.5}]
    table = section(sweep, sweep.values, found, plots=tmp_path)
    assert "| characters | worker, ms | API, ms |" in table
    assert "| 1,000 | 12.3 | 0.5 |" in table
    assert "worker" in (tmp_path / "sizes.svg").read_text()


def test_tables_have_every_contender_and_say_how_it_compares_with_saq() -> None:
    runs = [MeasuredRun(it.name, 200, FIGURES) for it in CONTENDERS]
    table = rendered(runs, ["a fact"])
    assert [it.name for it in CONTENDERS if f"| {it.name} |" not in table] == []
    assert "| 1.00 (1.00 to 1.00) | 1.00 | 0.25 | 1.00 |" in table
    faster = MeasuredRun("2 workers", 200, {**FIGURES, "per_s": 150.0})
    slow = MeasuredRun("2,000 in flight", 2_000, FIGURES)
    lines = varied([MeasuredRun(HONE, 200, FIGURES), faster, slow]).splitlines()
    assert lines[-2].startswith("| 2 workers | 200 ms | 150 | 1.50 | 0.70 | 0.30 | 0.25 |")
    assert lines[-1].startswith("| 2,000 in flight | 2000 ms | 100 | - |")


def test_what_a_core_carries_follows_from_its_cpu_time() -> None:
    table = carried([MeasuredRun(HONE, 200, FIGURES)], ["a fact"])
    assert "| Redis | 2.0 | 350 | 30 million |" in table


@pytest.mark.parametrize("place", [PRINTED, SCALE, CAPACITY])
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


def test_what_a_library_does_counts_for_the_layer_that_calls_it() -> None:
    with Profile() as profile:
        for _ in range(100):
            TextRequest(task="Answer the customer.").is_about(re.compile("customer"))
    found = costs(profile.getstats())
    (reading,) = (layer for layer in LAYERS if "workers/engine/text_replies.py" in layer.paths)
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
