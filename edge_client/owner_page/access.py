"""Who may open the page: its token and sign-in, the names by which browsers ask for it, and what each request passes.

Other sites open in the same browser must neither read the page nor make it do something: names that lead here by DNS
rebinding, forms and scripts of other origins, frames, and sounds embedded elsewhere are refused.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import secrets
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edge_client.config.sections import UiConfig
from edge_client.owner_page.own_certificate import own_names
from edge_client.owner_page.pages import Pages, read_form, root_of
from fleet_protocol.ground.addresses import is_address
from fleet_protocol.ground.atomic_files import write_durably

log = logging.getLogger(__name__)

_KEY = "page.key"
# 80 bits: nobody guesses them, and a person can type them.
_BYTES = 10
# Letters and digits of a token that is kept: what was cut off, or emptied by a full disk, lets nobody in.
_SHORTEST = 16
# Before the answer to a wrong one.
_WRONG_TOKEN_S = 0.5
_COOKIE_S = 30 * 86_400
_LOCAL = ("localhost", "127.0.0.1", "::1")
CSRF, _SESSION = "csrf", "session"
_COOKIE = "auricle_page"
_CSRF_HEADER = "x-csrf-token"
_SIGN_IN, _STATIC = "/sign-in", "/static/"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self' blob:; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
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


def page_token(state: Path, *, new: bool = False) -> str:
    """Return the token of the sign-in, like ``k3vq-52xc-qe7h-ma4t``; drawn on first use, and kept in the state."""
    path = state / _KEY
    kept = path.read_text(encoding="ascii", errors="replace").strip() if path.exists() else None
    if kept is not None and not new and len(_plain(kept)) >= _SHORTEST:
        return kept
    if kept is not None and not new:
        log.warning("%s holds no token of at least %d letters and digits; another one is drawn", path, _SHORTEST)
    drawn = base64.b32encode(secrets.token_bytes(_BYTES)).decode().lower()
    token = "-".join(drawn[at : at + 4] for at in range(0, len(drawn), 4))
    write_durably(path, token.encode())
    return token


def _plain(token: str) -> str:
    """Return what counts of a token: its letters and digits."""
    return "".join(character for character in token.lower() if character.isascii() and character.isalnum())


@dataclass(frozen=True)
class Access:
    """What the page asks of a browser.

    ``names`` are those under which it may be asked for, in lower case; ``any_address`` allows numbers too, since
    whoever owns a name can have it lead here (DNS rebinding). ``proxy`` is the address that alone may ask, and that
    lets nobody in who may not open the page; "" for none. ``secure``: the page itself speaks TLS.
    """

    token: str
    names: frozenset[str]
    any_address: bool
    sign_in: bool
    proxy: str = ""
    secure: bool = False

    @classmethod
    def of(cls, config: UiConfig, token: str) -> Access:
        """Return what the configuration asks for."""
        if config.proxy:
            return cls(token, frozenset(), any_address=False, sign_in=False, proxy=config.proxy)
        local = config.is_local
        names = frozenset({*_LOCAL, *(name.lower() for name in config.names), *(() if local else own_names(config))})
        return cls(token, names, any_address=not local, sign_in=not local or bool(config.names), secure=config.secure)

    def knows(self, host: str) -> bool:
        """Return whether a browser may ask for the page under this name, without a port."""
        return host.lower() in self.names or (self.any_address and is_address(host))

    def is_token(self, given: str) -> bool:
        """Return whether somebody gave the token; blanks, dashes and case do not count."""
        return hmac.compare_digest(_plain(given).encode(), _plain(self.token).encode())

    def sign(self, purpose: str) -> str:
        """Return what only this page can know for a purpose: 64 hex digits."""
        return hmac.digest(self.token.encode(), purpose.encode(), hashlib.sha256).hex()

    def is_signed(self, given: str, purpose: str) -> bool:
        """Return whether somebody gave what :meth:`sign` returned."""
        return hmac.compare_digest(given.encode(), self.sign(purpose).encode())


def sign_in_link(page: str, token: str) -> str:
    """Return the address that signs in whoever opens it. A browser sends what is behind # to nobody."""
    return f"{page}{_SIGN_IN[1:]}#{token}"


def sign_in_route(access: Access, pages: Pages) -> Route:
    """Return the address that asks for the token; whoever has it gets a cookie, whoever has not waits."""

    async def answer(request: Request) -> Response:
        if request.method != "POST":
            return pages.page("sign_in.html", wrong=False)
        if not access.is_token((await read_form(request)).get("token", "")):
            await asyncio.sleep(_WRONG_TOKEN_S)
            return pages.page("sign_in.html", 403, wrong=True)
        found = RedirectResponse("./", 303)
        signed, secure = access.sign(_SESSION), access.secure
        found.set_cookie(_COOKIE, signed, max_age=_COOKIE_S, secure=secure, httponly=True, samesite="strict")
        return found

    return Route(_SIGN_IN, answer, methods=["GET", "POST"])


class AccessMiddleware:
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
                if self._access.proxy:  # which shows the page in a frame of its own pages
                    headers["content-security-policy"] = _POLICY.replace("ancestors 'none'", "ancestors 'self'")
            await send(message)

        answer = self._refusal(Request(scope)) or self._app
        await answer(scope, receive, sealed)

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        name = _hostname(host)
        if self._access.proxy:
            if request.client is None or request.client.host != self._access.proxy:
                return PlainTextResponse("This page is opened through the proxy of [ui] alone.\n", 403)
            # The proxy knows the names; a browser names one of them, or the proxy says which one it was.
            host = request.headers.get("x-forwarded-host", host)
        elif name is None or not self._access.knows(name):
            return PlainTextResponse(
                f"This page is not called {host[:100]!r}. If it should be, add the name to names in [ui].\n", 421
            )
        path, asks = str(request.scope["path"]), request.method in ("GET", "HEAD")
        if not asks and not _same_origin(request, host):
            return JSONResponse({"error": _said_of_origin(request, host)}, 403)
        if asks and _from_another_site(request):
            return PlainTextResponse("another site asked for this; it was refused\n", 403)
        if path == _SIGN_IN or path.startswith(_STATIC):
            return None
        if self._access.sign_in and not self._access.is_signed(request.cookies.get(_COOKIE, ""), _SESSION):
            page = asks and "text/html" in request.headers.get("accept", "")
            sign_in = f"{root_of(path)}{_SIGN_IN[1:]}"
            return RedirectResponse(sign_in, 303) if page else JSONResponse({"error": "sign in first"}, 401)
        if not asks and not self._access.is_signed(request.headers.get(_CSRF_HEADER, ""), CSRF):
            return JSONResponse({"error": "this page is from before a restart; load it again"}, 403)
        return None


def _hostname(host: str) -> str | None:
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


def _said_of_origin(request: Request, host: str) -> str:
    """Return why a request of another page is refused, with both names: a proxy in front may keep one back."""
    origin = request.headers.get("origin")
    if origin is None:
        return "another site asked for this; it was refused"
    return (
        f"a page of {origin[:200]!r} asked for this, and this page was asked for as {host[:200]!r}; it was refused. If "
        "both are this page, let the proxy in front pass the name on (nginx: proxy_set_header Host $http_host)"
    )


def _from_another_site(request: Request) -> bool:
    """Return whether another site embeds something of ours; a link to the page is allowed."""
    site, mode = request.headers.get("sec-fetch-site", "none"), request.headers.get("sec-fetch-mode", "")
    return site in ("cross-site", "same-site") and mode != "navigate"
