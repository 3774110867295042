"""What is checked of a request's body before anything reads it: who sends it, its size, and what JSON it may hold."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from fastapi import HTTPException, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aggregator_server import limits
from aggregator_server.errors import InvalidRequestError, NotAuthenticatedError, TooLargeError
from aggregator_server.web.http_errors import error_response
from fleet_protocol.bounded_json import require_bounded
from fleet_protocol.errors import JsonError

# Addresses that take arrays. Their routes look who calls, and read the body piece by piece onto the disk.
_STREAMED = (
    (re.compile(r"/v1/public-set"), limits.PUBLIC_SET_BYTES),
    (re.compile(r"/v1/model"), limits.MODEL_BYTES),
    (re.compile(r"/v1/rounds/[^/]*/update"), limits.UPDATE_BYTES),
)
OpensSomething = Callable[[Request], Awaitable[bool]]


class Intake:
    """ASGI middleware.

    - A body that is, or says that it is, larger than its address takes is answered with 413.
    - A JSON message is read only from callers whose token opens something, and passed on only within its bounds.
    """

    def __init__(self, app: ASGIApp, opens_something: OpensSomething) -> None:
        """Wrap an application.

        Args:
            app: what to wrap.
            opens_something: tells whether a request's token is one that the server knows.
        """
        self._app = app
        self._opens_something = opens_something

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] != "http" or not _has_body(scope):
            await self._app(scope, receive, send)
            return
        streamed = _largest_stream(scope)
        limit = streamed or limits.MESSAGE_BYTES
        declared = _header(scope, b"content-length")
        if declared.isdigit() and int(declared) > limit:
            await error_response(413, TooLargeError.code, _too_large(scope, int(declared), limit))(scope, receive, send)
            return
        counted = _counted(scope, receive, limit)
        if streamed:
            await self._app(scope, counted, send)
            return
        if not await self._opens_something(Request(scope)):
            refusal = "this address needs a token that the server knows: `Authorization: Bearer <token>`"
            await error_response(401, NotAuthenticatedError.code, refusal)(scope, receive, send)
            return
        try:
            body = await _whole(counted)
            require_bounded(body, limits.MESSAGE, "the body")
        except HTTPException as error:
            await error_response(error.status_code, TooLargeError.code, error.detail)(scope, receive, send)
        except JsonError as error:
            text = f"{scope['method']} {scope['path']}: {error}"
            await error_response(422, InvalidRequestError.code, text)(scope, receive, send)
        else:
            await self._app(scope, _once(body, receive), send)


def _largest_stream(scope: Scope) -> int:
    """Return the largest body of an address that takes arrays, in bytes; 0 for others."""
    if scope["method"] != "PUT":
        return 0
    return next((limit for pattern, limit in _STREAMED if pattern.fullmatch(scope["path"])), 0)


def _header(scope: Scope, wanted: bytes) -> bytes:
    return next((bytes(value) for name, value in scope["headers"] if name == wanted), b"")


def _has_body(scope: Scope) -> bool:
    return _header(scope, b"content-length").strip(b"0") != b"" or _header(scope, b"transfer-encoding") != b""


def _counted(scope: Scope, receive: Receive, limit: int) -> Receive:
    """Return a receive that raises when the body becomes larger than the limit."""
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise HTTPException(413, _too_large(scope, received, limit))
        return message

    return counted


async def _whole(receive: Receive) -> bytes:
    """Read a body to its end; of a client that hangs up, what it sent."""
    pieces, more = [], True
    while more:
        message = await receive()
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(pieces)


def _once(body: bytes, receive: Receive) -> Receive:
    """Return a receive that gives the body first."""
    given = False

    async def first_the_body() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return first_the_body


def _too_large(scope: Scope, size: int, limit: int) -> str:
    return f"{scope['method']} {scope['path']}: a body of {size} bytes or more; this address takes at most {limit}"
