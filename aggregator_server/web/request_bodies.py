"""What is done with a request before a route sees it: its address is read, its body checked within bounds."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aggregator_server import limits
from aggregator_server.errors import AggregatorError, InvalidRequestError, RefusedError
from aggregator_server.web.http_errors import PageOf, error_response, for_caller, refusal
from fleet_protocol.bounded_json import require_bounded
from fleet_protocol.errors import JsonError
from fleet_protocol.limits import MESSAGE_BYTES, MODEL_BYTES, PUBLIC_SET_BYTES, UPDATE_BYTES

# Addresses that take arrays. Their routes check who calls, and read the body piece by piece onto the disk.
_STREAMED = (
    (re.compile(r"/v1/public-set"), PUBLIC_SET_BYTES),
    (re.compile(r"/v1/model"), MODEL_BYTES),
    (re.compile(r"/v1/rounds/[^/]*/update"), UPDATE_BYTES),
)
_OF_STRANGERS = "/sign-in"  # the form that anybody may send
_MESSAGES = "/v1/"  # where the addresses of messages begin; all others are the dashboard's
# Where devices ask; people and probes wait for no device.
_OF_FLEET = re.compile(r"/v1/(work|devices|blobs/[^/]*|rounds/[^/]*/(update|learned|private/[a-z]*))")
_NUL = b"%00"
_ABSOLUTE = re.compile(rb"https?://([^/]*)", re.IGNORECASE)
_RequireKnown = Callable[[Request], Awaitable[None]]


class Addresses:
    """ASGI middleware: reads a request that says in another way which address it wants, and what of it.

    - HEAD is answered as GET is, without the body (RFC 9110, 9.3.2).
    - ``GET http://host/path``, as clients ask a proxy, is ``GET /path`` of that host (RFC 9112, 3.2.2).
    """

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http":
            if _NUL in scope["raw_path"] or _NUL in scope["query_string"]:
                message = "an address of this server has no character NUL (%00)"
                await error_response(422, "invalid_request", message)(scope, receive, send)
                return
            scope = dict(scope)
            if found := _ABSOLUTE.match(scope["raw_path"]):
                scope["path"] = unquote(scope["raw_path"][found.end() :].decode("latin-1")) or "/"
                others = [header for header in scope["headers"] if header[0] != b"host"]
                scope["headers"] = [*others, (b"host", found[1])]
            if scope["method"] == "HEAD":
                scope["method"], send = "GET", _head_alone(send)
        await self._app(scope, receive, send)


def _head_alone(send: Send) -> Send:
    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return send_head


class Turns:
    """Lets few requests begin in each turn of the event loop, in the order of their arrival. It belongs to that loop.

    So health and people's requests need not wait for a fleet that comes as one (docs/security.md, "Load").
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def mine(self) -> None:
        """Wait for a turn."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            loop.call_soon(self._let_some_begin, loop)
        await turn

    def _let_some_begin(self, loop: asyncio.AbstractEventLoop) -> None:
        for _ in range(min(limits.BEGUN_AT_ONCE, len(self._waiting))):
            turn = self._waiting.popleft()
            if not turn.done():  # its request was cancelled
                turn.set_result(None)
        if self._waiting:
            loop.call_soon(self._let_some_begin, loop)


class RequestBodies:
    """ASGI middleware.

    - Of the requests of a whole fleet, few begin at once.
    - A body is refused that is, or says that it is, larger than its address takes, and one that arrives too slowly.
    - A JSON message is read only from callers whose token opens something, and passed on only within its bounds.
    - A form of the dashboard is small; its page checks who sends it.
    """

    def __init__(self, app: ASGIApp, require_known: _RequireKnown, page_of: PageOf) -> None:
        """Wrap an application.

        ``require_known`` raises an AggregatorError unless the server knows a request's token. ``page_of`` makes a page
        of a refusal, for browsers.
        """
        self._page_of = page_of
        self._app = app
        self._require_known = require_known
        self._beginning = Turns()
        self._turns = asyncio.Semaphore(limits.UPLOADS_READ_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] == "http" and _OF_FLEET.fullmatch(scope["path"]):
            await self._beginning.mine()
        if scope["type"] != "http" or not _has_body(scope):
            await self._app(scope, receive, send)
            return
        turn = _Turn(self._turns)
        try:
            bounded = await self._bounded(scope, receive, turn)
        except AggregatorError as error:
            await for_caller(Request(scope), refusal(error), self._page_of)(scope, receive, send)
            return
        try:
            await self._app(scope, bounded, send)
        finally:
            turn.end()

    async def _bounded(self, scope: Scope, receive: Receive, turn: _Turn) -> Receive:
        """Return a receive that keeps the bounds: of a stream while it is read, of a message by reading it now."""
        streamed = _largest_stream(scope)
        if not scope["path"].startswith(_MESSAGES):  # a form: its page checks who sends it, and reads it
            limit = limits.STRANGERS_FORM_BYTES if scope["path"] == _OF_STRANGERS else limits.FORM_BYTES
            return _Body(scope, receive, limit).receive
        body = _Body(scope, receive, streamed or MESSAGE_BYTES)
        if streamed:
            return turn.of(body.receive) if scope["path"].endswith("/update") else body.receive
        await self._require_known(Request(scope))
        message = await body.whole()
        try:
            require_bounded(message, limits.MESSAGE, "the body")
        except JsonError as error:
            raise InvalidRequestError(f"{scope['method']} {scope['path']}: {error}") from error
        return _once(message, receive)


class _Turn:
    """Lets few bodies be read at once: all of a fleet's would fill the memory and keep others waiting.

    Who is slow has no turn, and needs none: its bytes come one after the other anyway.
    """

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns = turns
        self._is_mine = False

    def of(self, receive: Receive) -> Receive:
        """Return a receive that gives the first piece when it is its turn."""
        has_begun = False

        async def in_turn() -> Message:
            nonlocal has_begun
            if not has_begun:
                await self._turns.acquire()
                has_begun = self._is_mine = True
            overdue = asyncio.get_running_loop().call_later(limits.TURN_S, self.end)
            try:
                message = await receive()
            finally:
                overdue.cancel()
            if not message.get("more_body", False):
                self.end()
            return message

        return in_turn

    def end(self) -> None:
        """Let another body be read."""
        if self._is_mine:
            self._is_mine = False
            self._turns.release()


class _Body:
    """A request's body: counted and timed while it is received."""

    def __init__(self, scope: Scope, receive: Receive, limit: int) -> None:
        self._where = f"{scope['method']} {scope['path']}"
        self._receive = receive
        self._limit = limit
        self._received = 0
        self._begun = time.monotonic()
        declared = _header(scope, b"content-length")
        if declared.isdigit():
            self._require_at_most(int(declared))

    async def receive(self) -> Message:
        """Receive the next piece."""
        seconds = limits.BODY_S + self._received / limits.SLOWEST_BYTES_PER_S - (time.monotonic() - self._begun)
        try:
            async with asyncio.timeout(max(0.0, min(limits.STALL_S, seconds))):
                message = await self._receive()
        except TimeoutError:
            raise RefusedError(
                "too_slow",
                f"{self._where}: {self._received} bytes of the body arrived in {time.monotonic() - self._begun:.0f} s, "
                "and then too few; send it again",
            ) from None
        self._received += len(message.get("body", b""))
        self._require_at_most(self._received)
        return message

    async def whole(self) -> bytes:
        """Receive all of it; of a client that hangs up, what it sent."""
        pieces, more = [], True
        while more:
            message = await self.receive()
            pieces.append(message.get("body", b""))
            more = message.get("more_body", False)
        return b"".join(pieces)

    def _require_at_most(self, size: int) -> None:
        if size > self._limit:
            raise RefusedError(
                "too_large", f"{self._where}: a body of {size} bytes or more; this address takes {self._limit}"
            )


def _largest_stream(scope: Scope) -> int:
    """Return the largest body of an address that takes arrays, in bytes; 0 for others."""
    if scope["method"] != "PUT":
        return 0
    return next((limit for pattern, limit in _STREAMED if pattern.fullmatch(scope["path"])), 0)


def _header(scope: Scope, wanted: bytes) -> bytes:
    return next((bytes(value) for name, value in scope["headers"] if name == wanted), b"")


def _has_body(scope: Scope) -> bool:
    return _header(scope, b"content-length").strip(b"0") != b"" or _header(scope, b"transfer-encoding") != b""


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
