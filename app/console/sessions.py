"""The sessions of browsers: of people who showed an API key, or signed in at an OpenID provider."""

import hmac
import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.access.callers import SESSION_S, Caller, Directory, KeyEnded, Metering
from app.access.keyring import Keyring
from app.access.people import SignInFailed
from app.access.signed import SESSION_COOKIE, session_in
from app.console.pages import message_page
from app.contract.access import Scope
from app.contract.errors import (
    BodyTooLarge,
    FieldError,
    Forbidden,
    HoneError,
    InvalidRequest,
    NotFound,
)

if TYPE_CHECKING:
    from app.access.openid import OpenIdProvider

MOST_BYTES = 1_000
SIGN_IN = "/console/oidc"
CALLBACK = f"{SIGN_IN}/callback"
OWN_PAGE = re.compile(r"/console(/[A-Za-z0-9_./~-]*)?(\?[A-Za-z0-9_.~%&=:+/-]*)?")
"""Where a person may be led after signing in: no other host, and nothing but the console."""

_log = logging.getLogger(__name__)
router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class _Cookie:
    name: str
    path: str
    seconds: int
    samesite: Literal["strict", "lax"]


SESSION = _Cookie(SESSION_COOKIE, "", SESSION_S, "strict")
PENDING = _Cookie("hone_sign_in", SIGN_IN, 600, "lax")
"""The provider leads the browser back, which is a navigation from another site."""


class SignIn(BaseModel):
    """The API key of a person who signs in."""

    model_config = ConfigDict(extra="forbid")

    key: str = Field(min_length=1, max_length=200)


def the_directory(request: Request) -> Directory:
    """Return who may call what."""
    directory: Directory = request.state.directory
    return directory


Callers = Annotated[Directory, Depends(the_directory)]


@router.get("/console/session")
async def session(request: Request) -> dict[str, Any]:
    """Return who this browser acts as: by its session, or without one where no key is needed.

    `is_open`: no key is needed because there are none yet.
    """
    caller: Caller = request.state.caller
    directory: Directory = request.state.directory
    return {
        "tenant": caller.tenant,
        "scopes": sorted(caller.scopes),
        "key_id": caller.key_id,
        "name": directory.name_of(caller.key_id),
        "reviews_as": caller.reviews_as,
        "is_open": directory.is_open,
    }


@router.post("/console/session")
async def sign_in(request: Request, directory: Callers) -> Response:
    """Begin a session with an API key. The browser keeps it where no script can read it."""
    body = await request.body()
    if len(body) > MOST_BYTES:
        raise BodyTooLarge(f"the body must have at most {MOST_BYTES} bytes")
    try:
        key = SignIn.model_validate_json(body).key
    except ValidationError:
        missing = FieldError(pointer="/key", detail="an API key is required")
        raise InvalidRequest("the body must have an API key as `key`", errors=(missing,)) from None
    metering: Metering = request.state.metering
    try:
        caller, text = await directory.session_of(key.strip().encode())
    except KeyEnded as ended:
        metering.refused(ended.record.tenant, ended.record.id, ended.status)
        raise
    if Scope.READ not in caller.scopes:
        raise Forbidden("this API key allows no reading, which the console needs (`read`)")
    await _end(request, directory)  # the browser forgets the session before
    await _record(request, caller, "signIn")
    response = Response(status_code=204)
    _set(response, request, SESSION, text)
    return response


@router.delete("/console/session")
async def sign_out(request: Request, directory: Callers) -> Response:
    """End the session: copies of its cookie work no longer."""
    await _end(request, directory)
    response = Response(status_code=204)
    _set(response, request, SESSION, "")
    return response


async def _end(request: Request, directory: Directory) -> None:
    session = session_in(request.headers.get("cookie", "").encode("latin-1"))
    if session and (caller := await directory.end_session(session)) is not None:
        await _record(request, caller, "signOut")


async def _record(request: Request, caller: Caller, action: str) -> None:
    metering: Metering = request.state.metering
    assert caller.key_id is not None
    await metering.record(caller.tenant, caller.key_id, action, caller.key_id)


@router.get(SIGN_IN)
async def sign_in_elsewhere(request: Request, directory: Callers, to: str = "") -> Response:
    """Lead to the OpenID provider, and after the sign-in there to the page `to` of the console."""
    provider = _provider(request)
    page = to if OWN_PAGE.fullmatch(to) else "/console"
    pending = provider.begun(page, directory.now_ms())
    try:
        address = await provider.address(pending, _callback(request))
    except SignInFailed as failed:
        return _failed(request, failed)
    response = RedirectResponse(address, 303)
    _set(response, request, PENDING, await directory.kept(pending))
    return response


@router.get(CALLBACK)
async def signed_in_elsewhere(request: Request, directory: Callers) -> Response:
    """Begin a session for a person whom the provider has led back."""
    try:
        text, to = await _let_in(request, directory)
    except SignInFailed as failed:
        response = _failed(request, failed)
    except HoneError as error:
        response = _failed(request, SignInFailed(str(error), error.status))
    else:
        response = RedirectResponse(request.scope.get("root_path", "") + to, 303)
        _set(response, request, SESSION, text)
    _set(response, request, PENDING, "")
    return response


async def _let_in(request: Request, directory: Directory) -> tuple[str, str]:
    """Return the text of a new session, and the page to show."""
    asked, provider = request.query_params, _provider(request)
    pending = await directory.pending(request.cookies.get(PENDING.name, ""))
    state = asked.get("state", "")
    if pending is None or not hmac.compare_digest(pending.state.encode(), state.encode()):
        raise SignInFailed(
            "This browser has not begun this sign-in, or more than ten minutes ago. Begin again.",
            400,
        )
    if "error" in asked:
        said = asked.get("error_description") or asked["error"]
        raise SignInFailed(f"The provider says: {' '.join(said.split())[:300]}")
    person = await provider.person(pending, asked.get("code", ""), _callback(request))
    grant = person.granted(request.state.settings.oidc_grants)
    keyring: Keyring = request.state.keyring
    record = await keyring.admit(person, grant, directory.now_ms() + SESSION_S * 1000)
    caller, text = await directory.session_of_person(record)
    await _end(request, directory)
    await _record(request, caller, "signIn")
    return text, pending.to


def _provider(request: Request) -> "OpenIdProvider":
    provider: OpenIdProvider | None = request.state.openid
    if provider is None:
        raise NotFound("no OpenID provider is set (HONE_OIDC_ISSUER)")
    return provider


def _callback(request: Request) -> str:
    root = request.scope.get("root_path", "")
    return f"{request.url.scheme}://{request.headers['host']}{root}{CALLBACK}"


def _failed(request: Request, failed: SignInFailed) -> Response:
    _log.warning("a person could not sign in: %s", failed)
    return message_page(request, "You are not signed in", str(failed), failed.status)


def _set(response: Response, request: Request, cookie: _Cookie, text: str) -> None:
    """Have the browser keep a text where no script can read it, or forget it if it is empty."""
    response.set_cookie(
        cookie.name,
        text,
        max_age=cookie.seconds if text else 0,
        path=request.scope.get("root_path", "") + cookie.path or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite=cookie.samesite,
    )
