"""Calls the endpoint of a request without the framework's layers in between.

FastAPI declares routes and parameters, and writes the OpenAPI document. For each request it passes
seven layers and inspects the declarations anew, which takes longer than most endpoints. Here the
declarations are read once. What is not one of these routes, and traced requests, FastAPI answers.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, get_origin

from fastapi import FastAPI, Request, Response
from fastapi._compat import ModelField
from fastapi.datastructures import DefaultPlaceholder
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.params import Param
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

TRACED = "fastapi.telemetry"  # in the scope of a request for which FastAPI makes a span

_PATH = re.compile(r"(/[^/{}]*|/\{\w+\})+")
_PARAMETERS = ("path_params", "query_params", "header_params")
_UNSUPPORTED = (
    "cookie_params",
    "body_params",
    "websocket_param_name",
    "http_connection_param_name",
    "background_tasks_param_name",
    "security_scopes_param_name",
    "own_oauth_scopes",
    "concurrency",
)


class Dispatcher:
    """ASGI layer that answers the requests for `routes`, and passes on all others."""

    def __init__(self, app: ASGIApp, api: FastAPI, routes: Iterable[BaseRoute]) -> None:
        self._app = app
        handlers = api.exception_handlers.items()
        self._handlers = {kind: it for kind, it in handlers if kind not in {500, Exception}}
        self._paths = _Paths()
        for route in routes:
            if isinstance(route, APIRoute) and _PATH.fullmatch(route.path):
                endpoint = _Endpoint(route) if is_direct(route) else None
                self._paths.add(route.path, route.methods or (), endpoint)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_plain = scope["type"] == "http" and TRACED not in scope
        endpoint = self._paths.find(scope) if is_plain else None
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = endpoint.route
        request = Request(scope, receive, send)
        try:
            response = await endpoint.answer(request)
        except Exception as error:
            kind = next((it for it in type(error).__mro__ if it in self._handlers), None)
            if kind is None:
                raise
            response = await self._handlers[kind](request, error)  # type: ignore[misc]
        await response(scope, receive, send)


def is_direct(route: BaseRoute) -> bool:
    """Return whether the dispatcher can answer a route, in the way that FastAPI does."""
    return (
        isinstance(route, APIRoute)
        and _PATH.fullmatch(route.path) is not None
        and (route.response_field is None or isinstance(route.response_class, DefaultPlaceholder))
        and _is_direct(route.dependant)
    )


def _is_direct(dependant: Dependant) -> bool:
    fields = [it for name in _PARAMETERS for it in getattr(dependant, name)]
    annotations = [it.field_info.annotation for it in fields]
    return (
        inspect.iscoroutinefunction(dependant.call)
        and dependant.use_cache
        and not any(getattr(dependant, name) for name in _UNSUPPORTED)
        and not any(isinstance(it, type) and issubclass(it, BaseModel) for it in annotations)
        and not any(it.field_info.default_factory for it in fields)
        and all(map(_is_direct, dependant.dependencies))
    )


@dataclass
class _Paths:
    """A tree of the segments of paths: literal ones, and a parameter; endpoints by method."""

    literal: "dict[str, _Paths]" = field(default_factory=dict)
    parameter: "dict[str, _Paths]" = field(default_factory=dict)  # at most one
    endpoints: "dict[str, _Endpoint | None]" = field(default_factory=dict)

    def add(self, path: str, methods: Iterable[str], endpoint: "_Endpoint | None") -> None:
        """Add an endpoint, None for one that FastAPI answers.

        Of two for one path and method the first counts.
        """
        at = self
        for segment in path.split("/"):
            of = at.parameter if segment.startswith("{") else at.literal
            at = of.setdefault(segment.strip("{}"), _Paths())
            assert len(of) == 1 or of is not at.parameter
        for method in methods:
            at.endpoints.setdefault(method, endpoint)

    def find(self, scope: Scope) -> "_Endpoint | None":
        """Return the endpoint, if there is one, and put its route and parameters into the scope."""
        path, root = scope["path"], scope.get("root_path", "")
        if root and path.startswith(f"{root}/"):
            path = path[len(root) :]
        at, found = self, {}
        for segment in path.split("/"):
            if segment in at.literal:
                at = at.literal[segment]
            elif segment and at.parameter:
                [(name, at)] = at.parameter.items()
                found[name] = segment
            else:
                return None
        endpoint = at.endpoints.get(scope["method"])
        if endpoint is not None:
            scope["path_params"], scope["route"] = found, endpoint.route
        return endpoint


class _Endpoint:
    """The function of a route, and how its result becomes a response."""

    def __init__(self, route: APIRoute) -> None:
        self.route = route
        self._call = _Call(route.dependant)
        needed = map(_Call, _all_needed(route.dependant))
        self._needed = tuple({it.function: it for it in needed}.values())
        self._status = route.status_code
        self._content = route.response_field

    async def answer(self, request: Request) -> Response:
        """Return the response; raise what the function raises, or RequestValidationError."""
        given = _Given(request)
        for call in self._needed:
            inner = call.arguments(given)
            if inner is not None:
                given.found[call.function] = await call.function(**inner)
        arguments = self._call.arguments(given)
        if arguments is None:
            raise RequestValidationError(given.errors)
        result = await self._call.function(**arguments)
        if isinstance(result, Response):
            return result
        content = b"" if self._content is None else self._content.serialize_json(result)
        status = (given.response and given.response.status_code) or self._status or 200
        media_type = "application/json" if content else None
        response = Response(content, status, media_type=media_type)
        if given.response is not None:
            response.raw_headers.extend(given.response.raw_headers)
        return response


def _all_needed(dependant: Dependant) -> Iterator[Dependant]:
    """Yield what has to be called before a function, each after what it needs itself."""
    for inner in dependant.dependencies:
        yield from _all_needed(inner)
        yield inner


class _Given:
    """What one request gives to the functions that are called for it."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.response: Response | None = None  # unless a function asks for it
        self.found: dict[Callable[..., Any], Any] = {}
        """What each function that could be called has returned."""
        self.errors: list[Any] = []

    def to_change(self) -> Response:
        """Return the response whose status and headers a function may set."""
        if self.response is None:
            self.response = Response(status_code=204)  # without a content-length
            self.response.status_code = 0  # unless a function sets one
        return self.response


class _Call:
    """A function, and where its arguments come from."""

    def __init__(self, dependant: Dependant) -> None:
        assert dependant.call is not None
        self.function: Callable[..., Awaitable[Any]] = dependant.call
        self._needed = tuple((it.name or "", it.call) for it in dependant.dependencies)
        fields = (it for name in _PARAMETERS for it in getattr(dependant, name))
        self._parameters = tuple(map(_Parameter, fields))
        self._request_name = dependant.request_param_name
        self._response_name = dependant.response_param_name

    def arguments(self, given: _Given) -> dict[str, Any] | None:
        """Return the arguments by name; None if it cannot be called, and `given.errors` say why."""
        arguments: dict[str, Any] = {}
        is_complete = True
        for name, function in self._needed:
            if function in given.found:
                arguments[name] = given.found[function]
            else:
                is_complete = False
        for parameter in self._parameters:
            arguments[parameter.name], errors = parameter.read(given.request)
            if errors:
                given.errors += errors
                is_complete = False
        if self._request_name:
            arguments[self._request_name] = given.request
        if self._response_name:
            arguments[self._response_name] = given.to_change()
        return arguments if is_complete else None


class _Parameter:
    """A path, query or header parameter."""

    def __init__(self, declared: ModelField) -> None:
        info = declared.field_info
        assert isinstance(info, Param)
        self.name = declared.name
        self._field = declared
        self._where = info.in_.value
        alias = declared.validation_alias or declared.alias
        is_converted = self._where == "header" and alias == declared.name
        self._alias = alias.replace("_", "-") if is_converted else alias
        self._header = self._alias.lower().encode("latin-1")
        self._is_list = get_origin(info.annotation) is list
        self._is_required = info.is_required()
        self._default = None if self._is_required else declared.get_default()
        self._loc = (self._where, self._alias)

    def read(self, request: Request) -> tuple[Any, Sequence[Any]]:
        """Return the valid value or the default, and what is wrong with what was sent."""
        value = self._sent(request)
        if value is None or value == []:
            if self._is_required:
                missing = {"type": "missing", "loc": self._loc, "msg": "Field required"}
                return None, [missing | {"input": None}]
            return (copy(self._default) if self._is_list else self._default), ()
        return self._field.validate(value, loc=self._loc)

    def _sent(self, request: Request) -> Any:
        if self._where == "path":
            return request.path_params[self._alias]
        if self._where == "header":
            headers = request.scope["headers"]
            sent = [value.decode("latin-1") for name, value in headers if name == self._header]
            if self._is_list:
                return sent
            return sent[0] if sent else None
        if not request.scope["query_string"]:
            return None
        query = request.query_params
        return query.getlist(self._alias) if self._is_list else query.get(self._alias)
