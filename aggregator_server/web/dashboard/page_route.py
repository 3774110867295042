"""A route whose every answer is a page: errors are shown as HTML, and headers say what a browser may do with it."""

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from aggregator_server.errors import AggregatorError, NotAuthenticatedError, RefusedError
from aggregator_server.web.dashboard.rendering import BY_STATUS, NOTES, WORDS, details, plain, render
from aggregator_server.web.http_errors import status_of

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
            if response.headers.get("location", "").startswith("/"):
                response.headers["location"] = request.app.state.root_path + response.headers["location"]
            response.headers.setdefault("Cache-Control", "no-store")
            response.headers.update(HEADERS)
            return response

        return answer_as_page


def error_page(request: Request, error: AggregatorError) -> Response:
    """Return the page that says what went wrong."""
    title = _TITLES.get(status_of(error), "That did not work")
    return render(request, "error.html", error=error, title=title, message=plain(error), more=details(error))


def page_of(request: Request, answer: Response) -> Response:
    """Return the page for a browser in place of an answer for programs: of an address that is none, for example."""
    status = answer.status_code
    title = _TITLES.get(status, "That did not work")
    message = BY_STATUS.get(status, WORDS["internal_error"])
    page = render(request, "error.html", title=title, message=message, more="")
    page.status_code = status
    kept = {name: value for name, value in answer.headers.items() if name in ("retry-after", "connection", "allow")}
    page.headers.update(HEADERS | {"Cache-Control": "no-store"} | kept)
    return page


def _to_sign_in(request: Request) -> Response:
    """Send a browser to the sign-in page; from there it comes back to the page that it asked for."""
    if request.url.path.startswith("/live/"):
        return error_page(request, NotAuthenticatedError("nobody is signed in"))
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
