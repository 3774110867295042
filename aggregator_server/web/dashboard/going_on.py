"""What follows a form: the page that shows what it did."""

from __future__ import annotations

from fastapi.responses import RedirectResponse

from aggregator_server.web.dashboard.rendering import NOTES


def to_page(path: str, done: str) -> RedirectResponse:
    """Send the browser to a page that says what was done."""
    assert done in NOTES
    return RedirectResponse(f"{path}?note={done}", 303)
