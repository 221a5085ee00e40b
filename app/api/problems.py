"""Errors as application/problem+json (RFC 9457), and those that only HTTP knows."""

from collections.abc import Iterator, Mapping

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from app.contract.errors import HoneError, MalformedHeader, NotFound, Problem


class MethodNotAllowed(HoneError):
    """The address exists, but not for this method."""

    code, status, title = "method_not_allowed", 405, "The method is not allowed here"


class NotAcceptable(HoneError):
    """Nothing that `Accept` names can be sent."""

    code, status, title = "not_acceptable", 406, "None of the accepted media types is offered"


class RequestTimeout(HoneError):
    """The request did not arrive in time."""

    code, status, title = "request_timeout", 408, "The request took too long to arrive"


class UnsupportedMediaType(HoneError):
    """The body is in a format that this server does not read."""

    code, status, title = "unsupported_media_type", 415, "The body has to be JSON"


class Internal(HoneError):
    """A defect of this server."""

    code, status, title = "internal", 500, "Something went wrong on this server"


class HeadersTooLarge(HoneError):
    """The request line and headers are larger than any honest ones."""

    code, status, title = "headers_too_large", 431, "The headers are too large"


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
MEDIA_TYPE = "application/problem+json"


def problem_of(error: HoneError, instance: str) -> Problem:
    """Return what a client is told; `type` refers to the page that lists the codes."""
    return Problem(
        type=f"/docs#{error.code}",
        title=error.title,
        status=error.status,
        detail=error.detail,
        instance=instance,
        code=error.code,
        errors=error.errors or None,
    )


def response_of(
    error: HoneError, instance: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the response that refuses, with `Retry-After` where the error has one."""
    extra = dict(headers or {})
    if error.retry_after_s is not None:
        extra["Retry-After"] = str(error.retry_after_s)
    body = problem_of(error, instance).model_dump_json(exclude_none=True)
    return Response(body, error.status, extra, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Let `app` answer every error, its framework's own included, with a problem."""
    app.add_exception_handler(HoneError, _refused)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(HTTPException, _framework)
    app.add_exception_handler(ClientDisconnect, _nobody_listens)
    app.add_exception_handler(Exception, _defect)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HoneError)
    return response_of(error, request.url.path)


async def _unreadable(request: Request, error: Exception) -> Response:
    """Bodies are read elsewhere: this is a path, a query parameter or a header."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where, name = first["loc"][0], first["loc"][-1] if len(first["loc"]) > 1 else ""
    if where == "path":
        return await _refused(request, NotFound(f"there is nothing at {request.url.path}"))
    return await _refused(request, MalformedHeader(f"{where} {name}: {first['msg']}"))


async def _framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 404:
        return response_of(NotFound(f"there is nothing at {path}"), path)
    if error.status_code == 405:
        allowed = ", ".join(_allowed(request))
        refusal = MethodNotAllowed(f"{request.method} is not possible here; allowed: {allowed}")
        return response_of(refusal, path, {"Allow": allowed})
    return await _defect(request, error)


def _allowed(request: Request) -> Iterator[str]:
    """Every method of every route with this path; the framework names those of the first."""
    for method in METHODS:
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes):
            yield method


async def _nobody_listens(_request: Request, _error: Exception) -> Response:
    return Response(status_code=400)


async def _defect(request: Request, _error: Exception) -> Response:
    """The error itself is raised again, behind the response, and logged by the server."""
    return response_of(Internal("the failure was logged"), request.url.path)
