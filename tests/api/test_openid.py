"""People sign in at an OpenID provider; who is not who the provider says does not come in."""

import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from pydantic import SecretStr, ValidationError

from app.access.callers import Directory
from app.access.keyring import Keyring
from app.access.people import Person, SignInFailed
from app.contract.access import OPERATOR, KeyRequest, Scope
from app.main import create_app
from app.settings import Grant, Settings
from app.store import Store
from tests.api.api_client import REQUEST
from tests.api.conftest import requiring_keys, running
from tests.openid_provider import CLIENT_ID, CLIENT_SECRET, Claims, OpenIdServer, openid_provider
from tests.waiting import TIMEOUT_S

SIGN_IN = "/console/oidc"
SESSION = "/console/session"
GROUPS = (
    "admins=default:admin,read editors=acme:submit,read reviewers=acme:read,review"
    " readers=other:read"
)


@pytest.fixture(scope="module")
def settings(settings: Settings) -> Settings:
    return requiring_keys(settings)


@pytest.fixture
async def provider() -> AsyncIterator[OpenIdServer]:
    async with openid_provider() as provider:
        provider.person["groups"] = ["editors", "reviewers", "readers"]
        yield provider


@pytest.fixture
async def browser(
    settings: Settings, provider: OpenIdServer, redis_url: str
) -> AsyncIterator[httpx.AsyncClient]:
    """A browser, and a server that knows the provider."""
    known = {
        "oidc_issuer": provider.issuer,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": SecretStr(CLIENT_SECRET),
        "oidc_groups": GROUPS,
    }
    with running(settings.model_copy(update=known)) as url:
        async with as_browser(url) as client:
            yield client


@asynccontextmanager
async def as_browser(url: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Sec-Fetch-Site": "same-origin"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT_S) as client:
        yield client


async def led_back(browser: httpx.AsyncClient, to: str = "/console/cost") -> str:
    """Begin to sign in, and return the address to which the provider leads back."""
    begun = await browser.get(SIGN_IN, params={"to": to})
    assert begun.status_code == 303, begun.text
    async with httpx.AsyncClient(timeout=TIMEOUT_S) as elsewhere:
        return str((await elsewhere.get(begun.headers["Location"])).headers["Location"])


async def signed_in(browser: httpx.AsyncClient) -> httpx.Response:
    headers = {"Sec-Fetch-Site": "cross-site"}  # as a browser says of such a redirection
    return await browser.get(await led_back(browser), headers=headers)


async def refused(browser: httpx.AsyncClient, answer: httpx.Response, said: str) -> None:
    """Nobody is signed in, and a page says why."""
    assert said in answer.text
    assert answer.status_code >= 400
    assert answer.headers["Content-Type"].startswith("text/html")
    assert (await browser.get(SESSION)).status_code == 401


async def test_a_person_signs_in_acts_in_the_tenant_of_the_first_group_and_signs_out(
    browser: httpx.AsyncClient, store: Store, settings: Settings
) -> None:
    answer = await signed_in(browser)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/console/cost")
    who = (await browser.get(SESSION)).json()
    assert (who["tenant"], who["name"]) == ("acme", "ann@example.com")
    assert who["scopes"] == ["read", "review", "submit"]
    acting = {"Hone-Session": who["key_id"]}
    made = await browser.post("/v1/refinements", json=REQUEST, headers=acting)
    assert made.status_code == 202
    kept = dict(browser.cookies)
    assert (await browser.delete(SESSION)).status_code == 204
    browser.cookies.update(kept)
    assert (await browser.get(SESSION)).status_code == 401
    log = await store.access.audited("acme", None, 9)
    done = [(it.action, it.by) for it in log.data]
    assert [*dict.fromkeys(it for it, _ in done)] == ["signOut", "submitRefinement", "signIn"]
    assert {by for _, by in done} == {who["key_id"]}
    (listed,) = await Keyring(store.access, settings).keys("acme")
    assert (listed.id, listed.name) == (who["key_id"], "ann@example.com")


async def test_a_group_that_is_lost_counts_until_the_session_ends_or_the_next_sign_in(
    browser: httpx.AsyncClient, provider: OpenIdServer
) -> None:
    await signed_in(browser)
    before = (await browser.get(SESSION)).json()
    provider.person["groups"] = ["reviewers"]
    assert (await browser.get(SESSION)).json()["scopes"] == before["scopes"]
    await signed_in(browser)
    after = (await browser.get(SESSION)).json()
    assert (after["key_id"], after["scopes"]) == (before["key_id"], ["read", "review"])
    provider.person["groups"] = []
    answer = await signed_in(browser)
    assert answer.status_code == 403
    assert "You are in no group that may use this server." in answer.text


async def test_groups_may_come_from_the_endpoint_about_the_person(
    browser: httpx.AsyncClient, provider: OpenIdServer
) -> None:
    del provider.person["groups"]
    provider.told = {"groups": "admins"}
    await signed_in(browser)
    assert (await browser.get(SESSION)).json()["scopes"] == ["admin", "read"]
    for groups, sub in (("admins", "somebody else"), (7, "1"), ({"admins": 1}, "1")):
        provider.told = {"groups": groups, "sub": sub}
        assert (await signed_in(browser)).status_code == 403


async def test_whom_an_administrator_has_revoked_is_out_at_once_and_stays_out(
    browser: httpx.AsyncClient, store: Store, settings: Settings
) -> None:
    await signed_in(browser)
    key_id = (await browser.get(SESSION)).json()["key_id"]
    await Keyring(store.access, settings).revoke(OPERATOR, key_id)
    answer = await signed_in(browser)
    assert (answer.status_code, "revoked your access" in answer.text) == (403, True)


async def test_half_a_surrogate_pair_in_a_name_breaks_no_answer(
    browser: httpx.AsyncClient, provider: OpenIdServer
) -> None:
    provider.person["email"] = "\ud800@example.com"
    await signed_in(browser)
    assert (await browser.get(SESSION)).json()["name"] == "?@example.com"


async def test_a_person_can_be_named_as_a_reviewer_after_the_session_and_not_once_revoked(
    store: Store, settings: Settings
) -> None:
    keyring = Keyring(store.access, settings)
    grant = Grant("*", "acme", (Scope.READ, Scope.REVIEW))
    ann = Person("https://login.example.com", "ann", "Ann", frozenset())
    known_as = (await keyring.admit(ann, grant, ends_at=1)).id
    async with Directory(store.access, settings) as directory:
        assert await directory.not_reviewing("acme", [known_as]) == ()
        await keyring.revoke(OPERATOR, known_as)
        assert await directory.not_reviewing("acme", [known_as]) == (known_as,)


async def test_who_was_revoked_stays_out_when_keys_that_ended_make_room(
    store: Store, settings: Settings
) -> None:
    keyring, grant = Keyring(store.access, settings), Grant("*", "acme", (Scope.READ,))
    ann = Person("https://login.example.com", "ann", "Ann", frozenset())
    ends_at = (await store.access.state()).now_ms + 60_000
    await keyring.revoke(OPERATOR, (await keyring.admit(ann, grant, ends_at)).id)
    key = await keyring.create(OPERATOR, KeyRequest(tenant="acme"))
    (made,) = await store.access.get([key.id])
    assert made
    await store.access.put(*((None, replace(made, id=f"key_{n:012}")) for n in range(998)))
    await keyring.create(OPERATOR, KeyRequest(tenant="acme"))
    await keyring.revoke(OPERATOR, key.id)
    with pytest.raises(SignInFailed, match="revoked your access"):
        await keyring.admit(ann, grant, ends_at)


@pytest.mark.parametrize("kept", ["", "honep_e30.x", "another"])
async def test_a_sign_in_that_another_browser_has_begun_is_refused(
    browser: httpx.AsyncClient, kept: str
) -> None:
    address = await led_back(browser)
    if kept == "another":
        await browser.get(SIGN_IN)
    else:
        browser.cookies.clear()
        browser.cookies.set("hone_sign_in", kept, path=SIGN_IN)
    await refused(browser, await browser.get(address), "has not begun this sign-in")


async def test_a_code_works_once_and_its_browser_forgets_the_sign_in(
    browser: httpx.AsyncClient,
) -> None:
    address = await led_back(browser)
    kept = dict(browser.cookies)
    assert (await browser.get(address)).status_code == 303
    assert "hone_sign_in" not in browser.cookies
    async with as_browser(str(browser.base_url)) as thief:
        thief.cookies.update(kept)
        await refused(thief, await thief.get(address), "invalid_grant")


async def test_a_session_is_a_new_one_and_ends_that_before(browser: httpx.AsyncClient) -> None:
    await signed_in(browser)
    before = browser.cookies["hone_session"]
    await signed_in(browser)
    assert browser.cookies["hone_session"] != before
    async with as_browser(str(browser.base_url)) as other:
        other.cookies.set("hone_session", before)
        assert (await other.get(SESSION)).status_code == 401


def unsigned(_provider: OpenIdServer, claims: Claims) -> str:
    return jwt.encode(claims, "", "none")


def signed_with_what_is_public(provider: OpenIdServer, claims: Claims) -> str:
    """A token whose HMAC has the public key as its secret (RFC 8725, 2.1)."""
    public = provider.key.public_key().public_numbers().n.to_bytes(256)
    return jwt.encode(claims, public, "HS256", headers={"kid": "1"})


def signed_by_another(_provider: OpenIdServer, claims: Claims) -> str:
    key = generate_private_key(65_537, 2_048)
    return jwt.encode(claims, key, "RS256", headers={"kid": "1"})


def with_a_key_of_its_own(provider: OpenIdServer, claims: Claims) -> str:
    text = signed_by_another(provider, claims)
    header, rest = text.split(".", 1)
    jku = {"alg": "RS256", "kid": "2", "jku": "http://127.0.0.1:1/keys"}
    assert header
    return f"{urlsafe_b64encode(json.dumps(jku).encode()).rstrip(b'=').decode()}.{rest}"


@pytest.mark.parametrize(
    "sign", [unsigned, signed_with_what_is_public, signed_by_another, with_a_key_of_its_own]
)
async def test_a_token_that_the_provider_has_not_signed_is_refused(
    browser: httpx.AsyncClient, provider: OpenIdServer, sign: object
) -> None:
    provider.sign = sign  # type: ignore[assignment]
    await refused(browser, await signed_in(browser), "token of the provider is not valid")


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://evil.example"},
        {"aud": "another client"},
        {"aud": ["another client"], "azp": CLIENT_ID},
        {"azp": "another client"},
        {"aud": [CLIENT_ID, "another client"]},
        {"nonce": "of another sign-in"},
        {"nonce": None},
        {"exp": 1_000},
        {"sub": None},
    ],
    ids=str,
)
async def test_a_token_for_another_client_time_or_sign_in_is_refused(
    browser: httpx.AsyncClient, provider: OpenIdServer, changed: Claims
) -> None:
    sign = provider.sign
    provider.sign = lambda of, claims: sign(of, claims | changed)
    await refused(browser, await signed_in(browser), "token of the provider is")


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example/console",
        "//evil.example",
        "/console//evil.example\\@",
        "/console@evil.example",
        "/consoles",
        "/v1/refinements",
        "/console\r\nSet-Cookie: a=b",
        "\\\\evil.example",
    ],
)
async def test_nobody_is_led_elsewhere_afterwards(browser: httpx.AsyncClient, to: str) -> None:
    answer = await browser.get(await led_back(browser, to))
    assert answer.headers["Location"] == "/console"


@pytest.mark.parametrize(
    "described",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "ftp://127.0.0.1/token"},
        {"jwks_uri": None},
    ],
)
async def test_a_provider_that_describes_another_one_is_not_asked(
    browser: httpx.AsyncClient, provider: OpenIdServer, described: Claims
) -> None:
    provider.described = described
    answer = await browser.get(SIGN_IN)
    assert (answer.status_code, "oidc" in answer.headers.get("Location", "")) == (502, False)


async def test_what_the_provider_says_is_shown_as_text(browser: httpx.AsyncClient) -> None:
    begun = await browser.get(SIGN_IN)
    state = parse_qs(urlsplit(begun.headers["Location"]).query)["state"][0]
    asked = {"state": state, "error": "access_denied", "error_description": "<script>x</script>"}
    answer = await browser.get(f"{SIGN_IN}/callback", params=asked)
    await refused(browser, answer, "The provider says: &lt;script&gt;")


async def test_a_person_is_no_key_that_anybody_could_have(
    browser: httpx.AsyncClient, store: Store, settings: Settings
) -> None:
    await signed_in(browser)
    key_id = (await browser.get(SESSION)).json()["key_id"]
    guess = f"hone_{key_id.removeprefix('key_')}_{'0' * 43}"
    headers = {"Authorization": f"Bearer {guess}"}
    async with as_browser(str(browser.base_url)) as other:
        assert (await other.get("/v1/refinements", headers=headers)).status_code == 401
    (record,) = await store.access.get([key_id])
    assert record is not None
    assert record.issuer.startswith("http://127.0.0.1:")


async def test_without_a_provider_nothing_leads_there(settings: Settings, redis_url: str) -> None:
    with running(settings) as url:
        async with as_browser(url) as browser:
            assert (await browser.get(SIGN_IN)).status_code == 404
            assert 'data-provider=""' in (await browser.get("/console")).text


def test_the_first_group_in_the_setting_says_the_tenant() -> None:
    grants = Settings(oidc_groups="a=one:read b%20c=two:submit,read *=two:read,review").oidc_grants
    person = Person("https://login.example", "1", "ann", frozenset({"b c"}))
    assert person.granted(grants) == Grant("b c", "two", (Scope.READ, Scope.REVIEW, Scope.SUBMIT))
    assert replace(person, groups=frozenset()).granted(grants).scopes == (Scope.READ, Scope.REVIEW)
    with pytest.raises(SignInFailed):
        person.granted(grants[:1])


@pytest.mark.parametrize(
    "wrong",
    [
        {"oidc_issuer": "http://login.example"},
        {"oidc_issuer": "login.example"},
        {"oidc_groups": "admins"},
        {"oidc_groups": "admins=default:everything"},
        {"oidc_groups": "admins=Not a tenant:read"},
    ],
)
def test_a_setting_that_is_none_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Settings(**wrong)  # type: ignore[arg-type]


def test_a_provider_without_a_client_or_groups_is_no_setting() -> None:
    with pytest.raises(ValueError, match="requires HONE_OIDC_CLIENT_ID and HONE_OIDC_GROUPS"):
        create_app(Settings(oidc_issuer="https://login.example"))
