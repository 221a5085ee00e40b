"""Errors as application/problem+json (RFC 9457), and the errors that only the HTTP layer raises."""

import logging
import re
from collections.abc import Iterator, Mapping

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import Scope

from app.contract.errors import (
    FieldError,
    HoneError,
    IdempotencyMismatch,
    Internal,
    InvalidRequest,
    MalformedHeader,
    NotFound,
    Problem,
    pointer_to,
)
from app.contract.invalid_values import in_one, sentence_of
from app.contract.overlays import Overlay

log = logging.getLogger(__name__)


class CrossSite(HoneError):
    """The request was sent by a web page of another origin."""

    code, status, title = "cross_site", 403, "Requests of other web sites are refused"
    fix = "Programs need not send `Origin`. For a web page, add its origin to `HONE_CORS_ORIGINS`."


class Misdirected(HoneError):
    """`Host` is not a name of this server."""

    code, status, title = "misdirected", 421, "The request is for another host"
    fix = "Use a name of the server, or add this one to `HONE_ALLOWED_HOSTS`."


class MethodNotAllowed(HoneError):
    """The path exists, but does not support this method."""

    code, status, title = "method_not_allowed", 405, "The method is not allowed"
    fix = "Use one of the methods in `Allow`."


class NotAcceptable(HoneError):
    """None of the media types in `Accept` is available."""

    code, status, title = "not_acceptable", 406, "None of the accepted media types is available"
    fix = "Accept a media type that `detail` names, or send no `Accept`."


class RequestTimeout(HoneError):
    """The request was not received in time."""

    code, status, title = "request_timeout", 408, "The request timed out"
    fix = "Send the head of a request at once, and its body with at least 50 kB per second."


class UnsupportedMediaType(HoneError):
    """The media type of the body is not supported; it must be JSON."""

    code, status, title = "unsupported_media_type", 415, "The media type is not supported"
    fix = "Send JSON with `Content-Type: application/json`."


class HeadersTooLarge(HoneError):
    """The request line and headers, or the trailers and chunk sizes of a body, are too large."""

    code, status, title = "headers_too_large", 431, "The headers are too large"
    fix = "Send fewer or shorter headers, and filters that are shorter."


PAST_THE_BOUNDARY = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of responses that do not pass the boundary, which gives them to all others."""

RATE_LIMIT = "rate_limit"
"""In the state of a request: the fields of its quota, once it was counted."""

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
MEDIA_TYPE = "application/problem+json"

OPENAI = "/openai/v1"
"""Below this path requests, answers and errors have OpenAI's form."""

OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def problem_of(error: HoneError, instance: str, root_path: str = "") -> Problem:
    """Return the problem document of an error; `type` leads to its cause and what to do."""
    return Problem(
        type=f"{root_path}/docs/errors#{error.code}",
        title=error.title,
        status=error.status,
        detail=error.detail,
        instance=instance,
        code=error.code,
        errors=error.errors or None,
    )


def response_of(
    error: HoneError, scope: Scope, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the error response to a request, with `Retry-After` if the error has one."""
    extra = dict(headers or {})
    if error.retry_after_s is not None:
        extra["Retry-After"] = str(error.retry_after_s)
    if is_openai(scope):
        is_bad = isinstance(error, InvalidRequest | IdempotencyMismatch)
        status = 400 if is_bad else error.status
        return Response(to_json(openai_error(error)), status, extra, "application/json")
    problem = problem_of(error, scope["path"], scope.get("root_path", ""))
    body = problem.model_dump_json(exclude_none=True)
    return Response(body, error.status, extra, MEDIA_TYPE)


def is_openai(scope: Scope) -> bool:
    """Return whether a request is for a path below `OPENAI`."""
    path, root = scope["path"], scope.get("root_path", "")
    return f"{path.removeprefix(root)}/".startswith(f"{OPENAI}/")


def openai_error(error: HoneError) -> dict[str, dict[str, str | None]]:
    """Return an error in OpenAI's form; `param` is the first value that is wrong."""
    usual = "server_error" if error.status >= 500 else "invalid_request_error"
    pointer = error.errors[0].pointer if error.errors else ""
    return {
        "error": {
            "message": error.detail,
            "type": OPENAI_TYPES.get(error.status, usual),
            "param": re.sub(r"/(\d+)", r"[\1]", pointer[1:]).replace("/", ".") or None,
            "code": error.code,
        }
    }


def install(app: FastAPI) -> None:
    """Make `app` answer every error, including the framework's own, with a problem document."""
    app.add_exception_handler(HoneError, _refused)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(HTTPException, _framework)
    app.add_exception_handler(ClientDisconnect, _disconnected)
    app.add_exception_handler(Exception, _defect)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HoneError)
    if isinstance(error, Internal):
        log.error("%s", error.detail, exc_info=error)
    overlay: Overlay | None = getattr(request.state, "overlay", None)
    if overlay and isinstance(error, InvalidRequest):
        error = overlay.blamed(error)
    return response_of(error, request.scope)


async def _unreadable(request: Request, error: Exception) -> Response:
    """Reject a path, query parameter or header; bodies are parsed elsewhere."""
    assert isinstance(error, RequestValidationError)
    # Optional parameters also report "none required"; drop that message.
    found = [wrong for wrong in error.errors() if wrong["type"] != "none_required"]
    wrong = [(error["loc"][0], str((*error["loc"], "")[1]), sentence_of(error)) for error in found]
    for where, name, why in wrong:
        if where == "path":
            return await _refused(request, _no_resource(request.path_params[name], why))
        if where == "header" or name == "cursor":
            return await _refused(request, MalformedHeader(f"{where} {name}: {why}"))
    reasons: dict[str, list[str]] = {}
    for _, name, why in wrong:
        reasons.setdefault(name, []).append(why)
    return await _refused(
        request, invalid_query({name: in_one(sentences) for name, sentences in reasons.items()})
    )


def _no_resource(segment: str, why: str) -> NotFound:
    """Return the error for a segment of a path that is none of the kind that stands there."""
    fact = f"is not {why.removeprefix('must be ')}" if why.startswith("must be ") else why
    return NotFound(f"{segment[:200]} {fact}")


def invalid_query(why: Mapping[str, str]) -> InvalidRequest:
    """Return the error for query parameters, by name with what is wrong."""
    errors = tuple(
        FieldError(pointer=pointer_to(name), detail=sentence) for name, sentence in why.items()
    )
    detail = "; ".join(f"query {name}: {sentence}" for name, sentence in why.items())
    return InvalidRequest(detail, errors=errors)


async def _framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return response_of(NotFound(f"no resource at {request.url.path}"), request.scope)
    if error.status_code == 405:
        allowed = ", ".join(_allowed(request))
        refusal = MethodNotAllowed(f"{request.method} is not allowed; allowed methods: {allowed}")
        return response_of(refusal, request.scope, {"Allow": allowed})
    return await _defect(request, error)


def _allowed(request: Request) -> Iterator[str]:
    """Yield the methods of all routes with this path; the framework lists only the first."""
    for method in METHODS:
        scope = {**request.scope, "method": "GET" if method == "HEAD" else method}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes):
            yield method


async def _disconnected(_request: Request, _error: Exception) -> Response:
    return Response(status_code=400)


async def _defect(request: Request, _error: Exception) -> Response:
    """Answer 500; the framework raises the error again after that, and the server logs it.

    It is answered outside of all layers, so that nothing else adds these headers.
    """
    quota = request.scope.get("state", {}).get(RATE_LIMIT, {})
    return response_of(Internal("the error was logged"), request.scope, PAST_THE_BOUNDARY | quota)
