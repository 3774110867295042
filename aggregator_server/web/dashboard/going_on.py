"""What follows a form: the page that shows what it did."""

from __future__ import annotations

from fastapi.responses import RedirectResponse

from aggregator_server.web.dashboard.rendering import NOTES

_LONGEST_PATH = 500  # of a page to go on to: the form that carries it is small


def to_page(path: str, done: str) -> RedirectResponse:
    """Send the browser to a page that says what was done."""
    assert done in NOTES
    return RedirectResponse(f"{path}?note={done}", 303)


def own_page(wanted: str) -> str:
    """Return an address of this server: whoever makes up a link must not send people elsewhere."""
    is_path = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and len(wanted) <= _LONGEST_PATH
    return wanted if is_path and wanted.isascii() and wanted.isprintable() else "/"
