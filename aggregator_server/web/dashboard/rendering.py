"""Templates: Jinja2 with escaping, filters for times and sizes, styles and scripts, and errors in plain words."""

import hashlib
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from aggregator_server.errors import CODES, AggregatorError, RefusedError
from aggregator_server.web.http_errors import retry_headers, status_of
from fleet_protocol.errors import without_requests

_FOLDER = Path(__file__).parent / "static"
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Asset:
    """A file, and the first half of its SHA-256."""

    data: bytes
    media_type: str
    digest: str


@cache
def assets() -> dict[str, Asset]:
    """Return every file by its name below the folder."""
    return {
        path.relative_to(_FOLDER).as_posix(): Asset(
            path.read_bytes(), _TYPES[path.suffix], hashlib.sha256(path.read_bytes()).hexdigest()[:32]
        )
        for path in sorted(_FOLDER.rglob("*"))
        if path.suffix in _TYPES
    }


def address_of(name: str) -> str:
    """Return the address of a file."""
    return f"/static/{name}?{assets()[name].digest}"


# By HTTP status, where an answer for programs becomes a page.
_BY_STATUS = {
    404: "There is no page at this address.",
    405: "This address takes no such request. Go back, and open the page anew.",
    408: "What was sent arrived too slowly. Send it again.",
    413: "What was sent is too large.",
    422: "What was sent cannot be read.",
    503: "The server has too much to do at this moment. Try again.",
    507: "The server's disk is full. Free space on it; nothing that was sent was kept.",
}
_FAILED = "Something failed on the server. Its log says more."


def plain(error: AggregatorError) -> str:
    """Return what an error says, without the clauses that are for programs."""
    if error.code == "internal_error":
        return _FAILED
    said = str(error).encode("utf-8", "backslashreplace").decode()
    text = without_requests(said) or CODES[error.code][1]
    return text[:1].upper() + text[1:]


_TEMPLATES = Path(__file__).parent / "templates"
_UNITS = ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))

# What the address of a page says was done; anything else that stands there is ignored.
NOTES = {
    "all-admitted": "The devices may take part from the next round on.",
    "approved": "Every device listens for the class from the next round on, unless it finds that it cannot.",
    "admitted": "The device may take part from the next round on.",
    "cancelled": "The round was cancelled.",
    "invitation-revoked": "The invitation lets nobody in any more.",
    "merged": "The two classes are one now.",
    "quarantined": "The device's uploads no longer count.",
    "released": "The device's uploads count again.",
    "renamed": "The class has its new name.",
    "restored": "The fleet is back at the state after that round.",
    "retired": "The class is no longer one of the fleet's.",
    "revoked": "The device is shut out for good.",
    "signed-out": "You are signed out.",
    "started": "The round was started.",
    "undone": "That was undone. Devices follow with their next request.",
}


@cache
def environment() -> Environment:
    """Return the templates' environment."""
    found = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(ago=ago, day=day, seconds=duration, bytes=size, number=number, percent=percent)
    found.filters.update(plain=plain)
    found.globals.update(address_of=address_of, program_version=version("auricle"))
    return found


def render(
    request: Request,
    template: str,
    *,
    error: AggregatorError | None = None,
    **values: Any,  # noqa: ANN401  (a template takes anything)
) -> HTMLResponse:
    """Return a page. ``error``: why what was asked for was not done; the template gets it."""
    status, headers = (200, {}) if error is None else (status_of(error), retry_headers(error))
    visit = getattr(request.state, "visit", None)
    note = NOTES.get(request.query_params.get("note", ""), "")
    page = {"visit": visit, "path": request.url.path, "note": note}
    text = environment().get_template(template).render(page, error=error, **values)
    return HTMLResponse(text, status, headers)


def ago(moment: datetime | None) -> str:
    """Say how long ago something was, or when it will be."""
    if moment is None:
        return "never"
    seconds = time.time() - moment.timestamp()
    if abs(seconds) < 5:
        return "just now"
    return f"{duration(seconds)}\u00a0ago" if seconds > 0 else f"in\u00a0{duration(-seconds)}"


def day(moment: datetime | None) -> str:
    """Write a time in UTC."""
    return "never" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"


def duration(seconds: float) -> str:
    """Write a duration with one unit, on one line."""
    length, name = next((unit for unit in _UNITS if seconds >= 2 * unit[0]), _UNITS[-1])
    return f"{seconds / length:.0f}\u00a0{name}"


def size(count: float) -> str:
    """Write a number of bytes."""
    factor, unit = next((step for step in _BYTES if count >= step[0]), _BYTES[-1])
    value = count / factor
    return f"{value:.{1 if value < 10 and factor > 1 else 0}f} {unit}"


def number(value: float, digits: int = 0) -> str:
    """Write a number with so many digits behind the decimal separator."""
    return f"{value:.{digits}f}"


def percent(value: float, digits: int = 0) -> str:
    """Write a number of percent."""
    return f"{value:.{digits}f} %"


SIGN_IN = "/sign-in"
HEADERS = {
    # No script, style or picture but the server's own, none within the page itself, and nobody may frame it.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not `no-referrer`: with it, a browser does not say where a form comes from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_TITLES = {
    401: "Not signed in",
    403: "Not allowed",
    404: "Nothing here",
    409: "Not now",
    422: "Not understood",
    429: "Too many attempts",
    503: "Busy",
}


class SignInNeededError(Exception):
    """Nobody is signed in."""


class PageRoute(APIRoute):
    """Answers requests of browsers."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request, errors included."""
        answer = super().get_route_handler()

        async def answer_as_page(request: Request) -> Response:
            try:
                response = await answer(request)
            except SignInNeededError:
                response = _to_sign_in(request)
            except AggregatorError as error:
                response = error_page(request, error)
            except RequestValidationError:
                response = error_page(request, RefusedError("not_found", "the address names something that cannot be"))
            response.headers.setdefault("Cache-Control", "no-store")
            response.headers.update(HEADERS)
            return response

        return answer_as_page


def error_page(request: Request, error: AggregatorError) -> Response:
    """Return the page that says what went wrong."""
    title = _TITLES.get(status_of(error), "That did not work")
    return render(request, "error.html", error=error, title=title, message=plain(error))


def page_of(request: Request, answer: Response) -> Response:
    """Return the page for a browser in place of an answer for programs: of an address that is none, for example."""
    status = answer.status_code
    title = _TITLES.get(status, "That did not work")
    message = _BY_STATUS.get(status, _FAILED)
    page = render(request, "error.html", title=title, message=message)
    page.status_code = status
    kept = {name: value for name, value in answer.headers.items() if name in ("retry-after", "connection", "allow")}
    page.headers.update(HEADERS | {"Cache-Control": "no-store"} | kept)
    return page


def _to_sign_in(request: Request) -> Response:
    """Send a browser to the sign-in page; from there it comes back to the page that it asked for."""
    if request.method != "GET":
        return RedirectResponse(SIGN_IN, 303)
    return RedirectResponse(f"{SIGN_IN}?next={quote(request.url.path)}", 303)


_LONGEST_PATH = 500  # of a page to go on to: the form that carries it is small


def to_page(path: str, done: str) -> RedirectResponse:
    """Send the browser to a page that says what was done."""
    assert done in NOTES
    return RedirectResponse(f"{path}?note={done}", 303)


def own_page(wanted: str) -> str:
    """Return an address of this server: whoever makes up a link must not send people elsewhere."""
    is_path = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and len(wanted) <= _LONGEST_PATH
    return wanted if is_path and wanted.isascii() and wanted.isprintable() else "/"
