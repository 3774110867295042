"""What follows a form: the page that shows what it did, and who else has to know."""

from __future__ import annotations

from fastapi.responses import RedirectResponse

from aggregator_server.web.dashboard.rendering import NOTES
from aggregator_server.web.service import Service


def to_page(path: str, done: str) -> RedirectResponse:
    """Send the browser to a page that says what was done."""
    assert done in NOTES
    return RedirectResponse(f"{path}?note={done}", 303)


def wake(service: Service) -> None:
    """Have the open round look at what it waits for, and devices at what there is to do."""
    service.scheduler.wake()
    service.new_work.notify()
