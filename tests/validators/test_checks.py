"""The port: findings of every validator, and hostile ones that block no other."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from app.contract.judgement import OnFail, Span
from app.contract.validators import AnyValidator
from app.contract.validators.json import JsonSchemaValidator
from app.contract.validators.text import ContainsValidator, LengthValidator, RegexValidator
from tests.processes import is_alive
from tests.waiting import TIMEOUT_S, eventually
from workers.children.child_process import environment
from workers.validators.check_process import CheckProcess
from workers.validators.running import ServerResources, compile_validators


@pytest.fixture(scope="module")
def check_process() -> Iterator[CheckProcess]:
    with CheckProcess() as check_process:
        yield check_process


def schema(value: Any, on_fail: OnFail = OnFail.VETO) -> JsonSchemaValidator:
    return JsonSchemaValidator(kind="json_schema", schema=value, on_fail=on_fail)


def doubling(keyword: str) -> dict[str, Any]:
    """Twenty-five lines that take 2 ** 25 visits."""
    steps = {f"{n}": {keyword: [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(25)}
    return {"$ref": "#/$defs/0", "$defs": steps | {"25": {"type": "integer"}}}


PRIVATE = {"unevaluatedProperties": False, "allOf": [{"$ref": "#/$defs/a"}] * 1500}
NAMES = {f"n{number}": True for number in range(1500)}
HOSTILE: dict[str, tuple[AnyValidator, str]] = {
    "allOf of references": (schema(doubling("allOf")), "1"),
    "anyOf of references": (schema(doubling("anyOf")), '"x"'),
    "a reference to itself": (schema({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}), "1"),
    "wide unevaluated": (
        schema(PRIVATE | {"$defs": {"a": {"properties": NAMES}}}),
        "{" + ",".join(f'"n{number}": 1' for number in range(15_000)) + "}",
    ),
    "errors infinitely recursive": (
        schema({"anyOf": [{"items": {"type": "string"}}] * 900}),
        "[" + "1," * 90_000 + "1]",
    ),
    "slow states": (
        schema({"patternProperties": {f".*x.{{900}}y.{{{n}}}$": False for n in range(60)}}),
        '{"' + "x" * 190_000 + '": 1}',
    ),
}


async def test_findings_name_their_validator_and_what_it_does(check_process: CheckProcess) -> None:
    checks = compile_validators(
        [
            LengthValidator(kind="length", max_words=1),
            ContainsValidator(kind="contains", texts=("two",)),
            RegexValidator(kind="regex", pattern="two", expect="no_match", on_fail=OnFail.WARN),
            schema({"type": "object"}, OnFail.REVISE),
        ],
        check_process,
    )
    found = await checks.run("one two")
    assert [(each.source, each.kind, each.on_fail) for each in found] == [
        ("validators/0", "length", OnFail.VETO),
        ("validators/2", "regex", OnFail.WARN),
        ("validators/3", "json_schema", OnFail.REVISE),
    ]
    assert found[1].span == Span(start=4, end=7)
    assert all(each.fix for each in found)


async def test_nothing_is_wrong_when_everything_passes(check_process: CheckProcess) -> None:
    assert (
        await compile_validators([schema({"required": ["a"]})], check_process).run('{"a": 1}') == ()
    )
    assert await compile_validators([], check_process).run("anything") == ()


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_validator_is_a_finding(name: str, check_process: CheckProcess) -> None:
    validator, draft = HOSTILE[name]
    (finding,) = await compile_validators([validator], check_process).run(draft)
    assert "could not be checked" in finding.message or "infinitely recursive" in finding.message


async def test_a_hostile_pattern_ends(check_process: CheckProcess) -> None:
    validator = RegexValidator(kind="regex", pattern="(x*)*" * 150 + ".{500}y")
    (finding,) = await compile_validators([validator], check_process).run("x" * 200_000)
    assert finding.kind == "regex"


async def test_a_hostile_validator_leaves_the_event_loop_free(check_process: CheckProcess) -> None:
    check_process.check(schema({"type": "array"}), "[]")
    assert check_process.pid
    os.kill(check_process.pid, signal.SIGSTOP)  # as if it took so long
    validator, draft = HOSTILE["allOf of references"]
    running = asyncio.create_task(compile_validators([validator], check_process).run(draft))
    for _ in range(20):
        await asyncio.sleep(0.001)
        assert not running.done()
    os.kill(check_process.pid, signal.SIGCONT)
    assert await running


async def test_a_check_does_not_wait_until_all_hostile_ones_before_it_have_ended() -> None:
    ended: list[str] = []

    async def check(name: str, validator: AnyValidator, draft: str) -> None:
        (found,) = await compile_validators([validator]).run(draft, f"{name}/check")
        ended.append(f"{name}: {found.message[:20]}")

    hostile = HOSTILE["allOf of references"][0]
    await asyncio.gather(
        *(check(f"hostile {n}", hostile, "1") for n in range(4)),
        check("harmless", schema({"type": "array"}), "{}"),
    )
    assert ended[-1] == "hostile 3: could not be checked"
    assert any(it.startswith("harmless: at the document") for it in ended)


async def test_the_next_check_is_right_after_a_hostile_one(check_process: CheckProcess) -> None:
    validator, draft = HOSTILE["slow states"]
    await compile_validators([validator], check_process).run(draft)
    (finding,) = await compile_validators([schema({"type": "array"})], check_process).run("{}")
    assert finding.message == 'at the document: {} is not of type "array"'


async def test_an_invalid_pattern_is_a_finding(check_process: CheckProcess) -> None:
    validator = RegexValidator(kind="regex", pattern="(")
    (finding,) = await compile_validators([validator], check_process).run("text")
    assert "RE2" in finding.message


def test_a_process_that_was_killed_is_replaced(check_process: CheckProcess) -> None:
    validator = schema({"type": "array"})
    check_process.check(validator, "[]")
    pid = check_process.pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    assert check_process.check(validator, "[]") == ()


def test_the_process_ends_with_its_parent() -> None:
    script = (
        "from workers.validators.check_process import shared_check_process\n"
        "from app.contract.validators.json import JsonSchemaValidator as V\n"
        "shared_check_process().check(V(kind='json_schema', schema=True), '1')\n"
        "print(shared_check_process().pid, flush=True)\n"
        "import os, sys; os._exit(0) if 'abruptly' in sys.argv else None\n"
    )
    for how in ("abruptly", "by itself"):
        ended = subprocess.run(
            [sys.executable, "-c", script, how], capture_output=True, text=True, check=True
        )
        assert ended.stderr == ""
        assert eventually(partial(_is_gone, int(ended.stdout)))


def _is_gone(pid: int) -> bool:
    return not is_alive(pid)


def test_the_process_that_runs_checks_is_given_no_keys() -> None:
    secrets = {"OPENAI_API_KEY": "k", "HONE_SECRET_KEY": "k", "HONE_REDIS_URL": "redis://:k@h"}
    given = environment({"PATH": "/bin", **secrets})
    assert given["PATH"] == "/bin"
    assert not given.keys() & secrets.keys()


def test_the_process_that_runs_checks_loads_neither_a_store_nor_a_client() -> None:
    program = "import sys, workers.validators.check_process_main; print(*sys.modules)"
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert {"redis", "aiohttp", "opentelemetry", "app.store"}.isdisjoint(loaded)


async def test_the_cpu_time_of_a_refinement_is_used_up_by_its_own_checks(
    check_process: CheckProcess,
) -> None:
    hostile, draft = HOSTILE["allOf of references"]
    limited = ServerResources(check_cpu_s=0.1)
    checks = compile_validators([hostile], check_process, resources=limited)
    await checks.run(draft)
    (finding,) = await checks.run(draft)
    assert "have used their 0.1 s of CPU time" in finding.message
    others = compile_validators([schema(True)], check_process, resources=limited)
    assert await others.run(draft) == ()


def test_a_process_whose_worker_has_died_ends_without_a_word() -> None:
    with checks_for_nobody() as process:
        process.stdout.close()
        process.stdin.write(b"1 " + ASKED + b"\n")
        process.stdin.close()
        assert (process.stderr.read(), process.wait(TIMEOUT_S)) == (b"", 0)


def test_a_process_that_fails_logs_one_line_of_json() -> None:
    with checks_for_nobody() as process:
        process.stdin.write(b"no question\n")
        process.stdin.close()
        (line,) = process.stderr.read().splitlines()
        said = json.loads(line)
        assert (said["process"], said["message"]) == ("checks", "a check failed")


ASKED = json.dumps(
    {
        "does": "check",
        "validator": LengthValidator(kind="length", max_words=1).model_dump_json(by_alias=True),
        "draft": "Two words.",
        "documents": [],
    }
).encode()


@contextmanager
def checks_for_nobody() -> Iterator[Any]:
    command = [sys.executable, "-m", "workers.validators.check_process_main", "1"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()
