"""The caller's own endpoint judges a draft; only public addresses are ever called."""

import json
import socket
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError
from standardwebhooks import Webhook

from app.contract.endpoints import AllowedTargets
from app.contract.validators.http import HttpValidator
from tests.local_endpoint import (
    SECRET,
    EndpointAnswer,
    FixedResolver,
    answering_with,
    endpoint,
    signing_of,
)
from workers.outbound.guarded_client import guarded_socket, is_public, open_endpoints
from workers.validators.http import check_http
from workers.validators.running import ServerResources, compile_validators
from workers.validators.violation import (
    MAX_VIOLATIONS,
    Measurement,
    ValidatorUnavailable,
    Violation,
)


async def judged(answer: EndpointAnswer, draft: str = "a draft", **fields: Any) -> tuple[Any, ...]:
    async with endpoint(answer) as (url, _, endpoints):
        validator = HttpValidator(kind="http", url=url, **fields)
        return await check_http(validator, draft, endpoints, "ref_1/iterations/1/check")


async def test_a_draft_that_the_endpoint_passes_has_no_findings() -> None:
    assert await judged(answering_with({"passed": True, "findings": [], "more": 1})) == ()


async def test_findings_are_handed_on() -> None:
    finding = {"message": "too cold", "fix": "warm it", "span": {"start": 2, "end": 7}}
    said = {"passed": False, "findings": [{**finding, "quote": "draft"}, {"message": "odd"}]}
    first, second = await judged(answering_with(said))
    assert first == Violation("too cold", "warm it", (2, 7), "draft")
    assert (second.message, second.span) == ("odd", None)


SCORED: dict[str, Any] = {"score": {"as": "decides"}}


async def test_a_score_that_is_asked_for_is_handed_on_and_needs_no_verdict() -> None:
    said = {"score": 0.25, "reason": "dull"}
    assert await judged(answering_with(said), **SCORED) == (Measurement(0.25, "dull"),)
    measured, found = await judged(answering_with({**said, "passed": False}), **SCORED)
    assert isinstance(measured, Measurement)
    assert isinstance(found, Violation)


async def test_a_score_that_is_not_asked_for_is_ignored() -> None:
    assert await judged(answering_with({"passed": True, "score": 0.25})) == ()


@pytest.mark.parametrize(
    "said", [{"passed": True}, {"score": 1.5}, {"score": "1"}, {"score": None}]
)
async def test_an_answer_without_the_score_that_is_asked_for_fails_the_step(said: Any) -> None:
    with pytest.raises(ValidatorUnavailable, match="score: "):
        await judged(answering_with(said), **SCORED)


async def test_a_place_outside_the_draft_is_left_out() -> None:
    found = {"message": "x", "span": {"start": 2, "end": 999}, "quote": "not there"}
    (hit,) = await judged(answering_with({"passed": False, "findings": [found]}))
    assert (hit.span, hit.quote) == (None, None)


async def test_a_draft_that_fails_without_a_finding_has_one_all_the_same() -> None:
    assert len(await judged(answering_with({"passed": False}))) == 1
    many = [{"message": "x" * 2000}] * 99
    found = await judged(answering_with({"passed": False, "findings": many}))
    assert len(found) == MAX_VIOLATIONS
    assert len(found[0].message) <= 500


async def test_the_call_is_signed_and_names_its_step() -> None:
    async with endpoint(answering_with({"passed": True})) as (url, asked, endpoints):
        checks = compile_validators(
            [HttpValidator(kind="http", url=url)], resources=ServerResources(endpoints=endpoints)
        )
        assert await checks.run("ein „Entwurf“", "ref_1/iterations/2/check") == ()
        (request,) = asked
        body = await request.text()
    assert json.loads(body) == {"draft": "ein „Entwurf“"}
    assert Webhook(SECRET).verify(body, dict(request.headers)) == json.loads(body)
    assert request.headers["Idempotency-Key"] == "ref_1/iterations/2/check/validators/0"
    assert (request.method, request.content_type) == ("POST", "application/json")


async def test_a_repeated_step_has_the_same_id() -> None:
    async with endpoint(answering_with({"passed": True})) as (url, asked, endpoints):
        for step in ("a", "a", "b"):
            await check_http(HttpValidator(kind="http", url=url), "x", endpoints, step)
    first, again, other = (request.headers["webhook-id"] for request in asked)
    assert first == again != other


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (answering_with("", 302), "redirects are not followed"),
        (answering_with("gone", 404), "answered 404"),
        (answering_with("no JSON"), "invalid answer"),
        (answering_with({"passed": "yes"}), "passed: "),
        (answering_with({"findings": []}), "passed: "),
        (answering_with({"passed": False, "findings": [{}]}), "findings/0/message"),
        (answering_with("[" * 100_000), "invalid answer"),
        (answering_with("x" * 300_000), "more than 262144 bytes"),
    ],
)
async def test_what_is_no_verdict_fails_the_step(answer: EndpointAnswer, said: str) -> None:
    with pytest.raises(ValidatorUnavailable, match=said):
        await judged(answer)


async def test_an_endpoint_that_is_down_for_a_moment_is_asked_again() -> None:
    statuses = iter([503, 200])

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"passed": True}, status=next(statuses))

    assert await judged(answer) == ()


async def test_an_endpoint_that_does_not_answer_fails_the_step() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        reply = web.StreamResponse()
        await reply.prepare(request)
        await request.content.wait_eof()
        while True:
            await reply.write(b" ")

    with pytest.raises(ValidatorUnavailable):
        await judged(answer, timeout_s=0.3)


async def test_without_a_secret_nothing_is_called() -> None:
    validator = HttpValidator(kind="http", url="https://example.com")
    with pytest.raises(ValidatorUnavailable, match="HONE_SECRET_KEY"):
        await compile_validators([validator], resources=ServerResources()).run("x")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "2130706433", "0x7f000001", "127.1", "[::1]", "[::]", "0.0.0.0",
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "rebound.example",
    ],
)  # fmt: skip
async def test_a_guarded_call_never_reaches_this_machine(host: str) -> None:
    async with endpoint(answering_with({"passed": True})) as (url, asked, _):
        port = url.rpartition(":")[2]
        resolver = FixedResolver("127.0.0.1") if host == "rebound.example" else None
        async with open_endpoints(signing_of, resolver=resolver) as endpoints:
            validator = HttpValidator(kind="http", url=f"http://{host}:{port}", timeout_s=60)
            with pytest.raises(ValidatorUnavailable, match=r"no public address|not a valid server"):
                await check_http(validator, "x", endpoints, "step")
        assert asked == []


@pytest.mark.parametrize(
    "address",
    [
        "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.100.100.200",
        "169.254.169.254", "168.63.129.16", "192.0.0.192", "192.88.99.1", "198.18.0.1",
        "198.51.100.7", "203.0.113.7", "224.0.0.1", "239.255.255.250", "240.0.0.1",
        "255.255.255.255", "0.0.0.0", "127.8.8.8", "::", "::1", "::127.0.0.1", "::ffff:10.0.0.1",
        "::ffff:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "100::1",
        "2001::1", "2001:0:53aa:64c::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::",
        "2002:808:808::1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1",
        "fe80::1%eth0", "fec0::1", "ff02::1", "ff0e::1", "4000::1", "not an address", "",
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_gets_no_socket(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(OSError, match="no public address"):
        guarded_socket(
            AllowedTargets(), (socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, 443))
        )


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "172.15.0.1", "172.32.0.1", "100.128.0.1", "192.0.1.1", "223.255.255.1",
     "2606:4700::1111", "2a00:1450:4001::1", "2001:4860:4860::8888", "2003::1", "2400:cb00::1"],
)  # fmt: skip
def test_an_address_of_the_public_internet_gets_one(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    ["ftp://e.com", "file:///etc/passwd", "http://user:pw@e.com", "http://", "https://a b.com",
     "http://e.com\\@127.0.0.1/", "unix:///x", "//e.com", "javascript:1", "http://[::1", "http://]",
     "http://e.com:99999", "http://e.com:0", "http://e..com", "http://.", f"http://{'a' * 64}.com"],
)  # fmt: skip
def test_a_url_that_is_no_plain_address_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        HttpValidator(kind="http", url=url)
