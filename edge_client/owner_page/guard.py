"""What every request passes before the page sees it, and what every answer carries.

Other sites open in the same browser must neither read the page nor make it do something: names that lead here by DNS
rebinding, forms and scripts of other origins, frames, and sounds embedded elsewhere are refused.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edge_client.owner_page.access import Access

SESSION, CSRF = "session", "csrf"
COOKIE = "auricle_page"
CSRF_HEADER = "x-csrf-token"
SIGN_IN, STATIC = "/sign-in", "/static/"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    # Not no-referrer: a browser would then not say either that a form of ours was sent by a page of ours.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refused request, or let the application answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refusal(Request(scope)) or self._app
        await answer(scope, receive, sealed)

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        name = _hostname(host)
        if name is None or not self._access.knows(name):
            return PlainTextResponse(
                f"This page is not called {host[:100]!r}. If it should be, add the name to names in [ui].\n", 421
            )
        path, asks = request.url.path, request.method in ("GET", "HEAD")
        if not asks and not _same_origin(request, host):
            return JSONResponse({"error": "another site asked for this; it was refused"}, 403)
        if asks and _from_another_site(request):
            return PlainTextResponse("another site asked for this; it was refused\n", 403)
        if path == SIGN_IN or path.startswith(STATIC):
            return None
        if self._access.sign_in and not self._access.is_signed(request.cookies.get(COOKIE, ""), SESSION):
            page = asks and "text/html" in request.headers.get("accept", "")
            return RedirectResponse(SIGN_IN, 303) if page else JSONResponse({"error": "sign in first"}, 401)
        if not asks and not self._access.is_signed(request.headers.get(CSRF_HEADER, ""), CSRF):
            return JSONResponse({"error": "this page is from before a restart; load it again"}, 403)
        return None


def _hostname(host: str) -> str | None:
    """Return the name in a Host header; None where it is none."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _same_origin(request: Request, host: str) -> bool:
    """Return whether a page of ours asks, by what the browser says (Origin, or at least Fetch Metadata)."""
    origin = request.headers.get("origin")
    if origin is not None:
        return origin in (f"http://{host}", f"https://{host}")
    return request.headers.get("sec-fetch-site") == "same-origin"


def _from_another_site(request: Request) -> bool:
    """Return whether another site embeds something of ours; a link to the page is allowed."""
    site, mode = request.headers.get("sec-fetch-site", "none"), request.headers.get("sec-fetch-mode", "")
    return site in ("cross-site", "same-site") and mode != "navigate"
