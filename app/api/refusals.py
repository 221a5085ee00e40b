"""Refusals that only HTTP knows."""

from app.contract.errors import HoneError


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
