"""Every HTTP error in the one shape ``{"error": {"code", "message"}}``, also in the OpenAPI schema."""

import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from aggregator_server import errors
from aggregator_server.limits import RETRY_AFTER_S
from aggregator_server.store.free_space import is_full
from fleet_protocol.messages.rest import ErrorReply

_log = logging.getLogger(__name__)
_SILENT_S = 10.0
_STATE_AWAY = "the server's database or store does not answer; nothing was lost. Send it again later"
PageOf = Callable[[Request, Response], Response]
Handler = Callable[[Request, Exception], Awaitable[Response]]
_Responses = dict[int | str, dict[str, Any]]


def status_of(error: errors.AggregatorError) -> int:
    """Return the HTTP status of an exception."""
    return errors.CODES[error.code][0]


def documented(*codes: str) -> _Responses:
    """Return a route's error responses for the OpenAPI schema, from texts of codes of ``errors.CODES``.

    Every route may also fail with 500, 503 or 507: a proxy before the server says ``busy`` of any of them. A body that
    may be too large may also be too slow.
    """
    own = " ".join(codes).split()
    by_status: dict[int, list[str]] = {}
    slow = ("too_slow",) if "too_large" in own else ()
    for code in (*own, *slow, "busy", "state_away", "storage_full", "internal_error"):
        status, meaning = errors.CODES[code]
        by_status.setdefault(status, []).append(f"`{code}`: {meaning}")
    return {
        status: {"model": ErrorReply, "description": " ".join(meanings)}
        for status, meanings in sorted(by_status.items())
    }


def error_response(status: int, code: str, message: str) -> JSONResponse:
    """Return an error in the one shape; text that cannot be encoded is escaped."""
    text = message.encode("utf-8", "backslashreplace").decode()
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": {"code": code, "message": text}}, status, headers)


class _Away:
    """Says in the log why database or store do not answer, and not for every request."""

    def __init__(self) -> None:
        self._next = 0.0

    def note(self, error: errors.StateAwayError) -> None:
        """Log an error, unless one was logged lately."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _SILENT_S
            _log.warning("requests are answered with 503: %s", error)


_away = _Away()


def refusal(error: errors.AggregatorError) -> JSONResponse:
    """Return what a client sees of an exception; where the state is, is not for it."""
    text = _STATE_AWAY if isinstance(error, errors.StateAwayError) else str(error)
    response = error_response(status_of(error), error.code, text)
    response.headers.update(retry_headers(error))
    return response


def retry_headers(error: errors.AggregatorError) -> dict[str, str]:
    """Return the header that says when to try again; none where that is of no use."""
    if isinstance(error, errors.TooManyError):
        return {"Retry-After": str(math.ceil(error.retry_after_s))}
    return {"Retry-After": str(RETRY_AFTER_S)} if status_of(error) == 503 else {}


def install(app: FastAPI, page_of: PageOf) -> None:
    """Make an application answer every error in the one shape, and browsers with a page."""

    def handled(handler: Handler) -> Callable[[Request, Exception], Awaitable[Response]]:
        async def answer(request: Request, error: Exception) -> Response:
            return for_caller(request, await handler(request, error), page_of)

        return answer

    app.add_exception_handler(errors.AggregatorError, handled(_refused))
    app.add_exception_handler(RequestValidationError, handled(_invalid))
    app.add_exception_handler(HTTPException, handled(_http))
    app.add_exception_handler(ClientDisconnect, handled(_gone))
    app.add_exception_handler(OSError, handled(_disk))
    app.add_exception_handler(OperationalError, handled(_disk))
    app.add_exception_handler(Exception, handled(_unforeseen))


def for_caller(request: Request, answer: Response, page_of: PageOf) -> Response:
    """Return an answer as it is for programs; for a browser that opens a page, as a page."""
    opens_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1/")
    return page_of(request, answer) if opens_page else answer


async def _refused(_request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, errors.StateAwayError):
        _away.note(error)
    return refusal(error if isinstance(error, errors.AggregatorError) else errors.AggregatorError(str(error)))


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    problems = error.errors() if isinstance(error, RequestValidationError) else []
    text = "; ".join(f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in problems[:5])
    described = "what /openapi.json describes; a message is JSON, with the header Content-Type: application/json"
    return error_response(422, "invalid_request", f"the request is not {described}: {text}")


async def _http(request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    where = f"{request.method} {request.url.path}"
    if status == 404:
        return error_response(404, "not_found", f"{where}: there is nothing at this address; see /openapi.json")
    if status == 405:
        return error_response(405, "method_not_allowed", f"{where}: another method is needed; see /openapi.json")
    if status == 400:
        return error_response(422, "invalid_request", f"{where}: the body is not readable JSON")
    return error_response(status, "internal_error", f"{where}: {getattr(error, 'detail', error)}")


async def _gone(_request: Request, _error: Exception) -> JSONResponse:
    # Nobody reads this: the client hung up while it was sending.
    return error_response(422, "invalid_request", "the body ended early")


async def _disk(request: Request, error: Exception) -> JSONResponse:
    if not is_full(error, request.app.state.service.store.folder):
        raise error
    where = f"{request.method} {request.url.path}"
    message = f"{where}: the server's disk is full; its operator must free space. Nothing of the request was kept."
    return error_response(507, "storage_full", message)


async def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    where = f"{request.method} {request.url.path}"
    message = f"{where} failed with {type(error).__name__}; the server's log says more. Try again later."
    response = error_response(500, "internal_error", message)
    response.headers["Connection"] = "close"  # the server closes it after an exception: say so to clients
    return response
