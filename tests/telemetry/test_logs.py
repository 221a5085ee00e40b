"""What is logged, in which form, and what never is."""

import io
import json
import logging
import os
import time
from collections.abc import Iterator

import pytest
from pydantic import BaseModel, ValidationError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError

from app.telemetry import Formats, configure_logs, request_id, safe_request_id

log = logging.getLogger("workers.test")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def logged(form: Formats, level: str = "info") -> io.StringIO:
    out = io.StringIO()
    configure_logs("worker", form, level, out)
    return out


def test_an_event_is_an_object_with_its_fields() -> None:
    out = logged("auto")
    log.info("refinement ended", extra={"refinement": "ref_1", "cost_usd": None, "calls": 3})
    (line,) = out.getvalue().splitlines()
    said = json.loads(line)
    assert said["time"].endswith("+00:00")
    del said["time"], said["pid"]
    assert said == {
        "level": "info",
        "process": "worker",
        "logger": "workers.test",
        "message": "refinement ended",
        "refinement": "ref_1",
        "calls": 3,
    }


def test_on_a_terminal_it_is_a_line_to_read() -> None:
    out = logged("text")
    log.warning("it waits", extra={"model": "openai:a", "detail": "two words", "seconds": 1.23456})
    assert out.getvalue().endswith(
        f"WARNING workers.test[{os.getpid()}]: it waits model=openai:a detail='two words'"
        " seconds=1.235\n"
    )


@pytest.mark.parametrize("form", ["json", "text"])
def test_the_id_of_the_request_stands_on_every_line(form: Formats) -> None:
    out = logged(form)
    told = request_id.set("req_7")
    log.info("inside")
    request_id.reset(told)
    log.info("outside")
    inside, outside = out.getvalue().splitlines()
    assert ("req_7" in inside, "req_7" in outside) == (True, False)


def test_less_grave_events_than_the_level_are_not_logged() -> None:
    out = logged("json", "warning")
    log.info("no")
    log.warning("yes")
    assert len(out.getvalue().splitlines()) == 1


PRIVATE = "".join(("pri", "vate"))  # not to be found in a line of this file


class Typed(BaseModel):
    """Fails with a message that contains the value."""

    number: int


@pytest.mark.parametrize("form", ["json", "text"])
def test_an_exception_is_logged_without_what_it_was_about(form: Formats) -> None:
    out = logged(form)
    try:
        try:
            Typed.model_validate({"number": PRIVATE})
        except ValidationError as error:
            raise RuntimeError("x" * 300 + PRIVATE) from error
    except RuntimeError:
        log.exception("it failed")
    said = out.getvalue()
    assert PRIVATE not in said
    assert "RuntimeError" in said
    assert "ValidationError" in said
    assert "test_logs.py" in said


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [
        (b"4bf92f35-77b3", True),
        (b"a" * 128, True),
        (b"a" * 129, False),
        (b"a b", False),
        (b'"', False),
        (b"\xff", False),
        (b"", False),
        (None, False),
    ],
)
def test_a_request_id_of_a_client_is_kept_if_it_is_harmless(
    given: bytes | None, is_kept: bool
) -> None:
    kept = safe_request_id(given)
    assert (kept.encode() == given) == is_kept
    assert is_kept or (kept.startswith("req_") and kept != safe_request_id(given))


def test_an_outage_of_redis_is_a_line_a_minute_for_each_kind_of_error() -> None:
    out = logged("json")
    gone, full = RedisConnectionError("Connection refused."), OutOfMemoryError("full")
    for error in (gone, gone, full, gone, full):
        log.warning("cannot dequeue, retry in %.1f s: %s", 0.5, error)
    log.warning("%s: a line about something else", "ref_1")
    later = logging.LogRecord("workers.test", 30, "", 1, "Redis is unavailable: %s", (gone,), None)
    for after_s in (0, 30, 61):
        later = logging.makeLogRecord(later.__dict__ | {"created": time.time() + after_s})
        log.handle(later)
    said = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["message"], line.get("repeated")) for line in said] == [
        ("cannot dequeue, retry in 0.5 s: Connection refused.", None),
        ("cannot dequeue, retry in 0.5 s: full", None),
        ("ref_1: a line about something else", None),
        ("Redis is unavailable: Connection refused.", None),
        ("Redis is unavailable: Connection refused.", 1),
    ]


def test_in_an_outage_no_error_is_left_out_and_no_other_subject() -> None:
    out = logged("json")
    gone = RedisConnectionError("Connection refused.")
    for what in ("erase", "erase", "revoke"):
        log.error("not in the audit log: %s: %s", what, gone)
    for cell in (1, 1, 2):
        log.warning("cell %d is away: %s", cell, gone)
    said = [
        json.loads(line)["message"].partition(": Conn")[0]
        for line in out.getvalue().split("\n")[:-1]
    ]
    assert said == [
        "not in the audit log: erase",
        "not in the audit log: erase",
        "not in the audit log: revoke",
        "cell 1 is away",
        "cell 2 is away",
    ]
