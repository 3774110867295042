"""A limit on the size of request bodies, before anything reads them into memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aggregator_server.errors import TooLargeError
from aggregator_server.web.http_errors import error_response

_MAX_DRAINED = 16 * 2**20
_DRAIN_S = 2.0


class BodyLimit:
    """ASGI middleware: answers 413 as soon as a body is, or says that it is, larger than its address takes."""

    def __init__(self, app: ASGIApp, limit_of: Callable[[str, str], int]) -> None:
        """Wrap an application.

        Args:
            app: what to wrap.
            limit_of: (method, path) -> bytes.
        """
        self._app = app
        self._limit_of = limit_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body counted."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit_of(scope["method"], scope["path"])
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        if declared.isdigit() and int(declared) > limit:
            await _drain(receive)
            response = error_response(413, TooLargeError.code, _message(scope, int(declared), limit))
            await response(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                await _drain(receive)
                raise HTTPException(413, _message(scope, received, limit))
            return message

        await self._app(scope, counted, send)


async def _drain(receive: Receive) -> None:
    """Read on for a while: otherwise a client that is still sending sees a broken connection instead of the answer."""
    left = _MAX_DRAINED
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def _message(scope: Scope, size: int, limit: int) -> str:
    return f"{scope['method']} {scope['path']}: a body of {size} bytes or more; this address takes at most {limit}"
