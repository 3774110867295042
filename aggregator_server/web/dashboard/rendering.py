"""Templates: Jinja2 with escaping, filters for times and sizes, and what every page is given."""

from __future__ import annotations

import time
from datetime import datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from aggregator_server.errors import AggregatorError
from aggregator_server.web.dashboard.assets import address_of
from aggregator_server.web.http_errors import retry_headers, status_of

_TEMPLATES = Path(__file__).parent / "templates"
_STEPS = ((60.0, "s"), (60.0, "min"), (24.0, "h"), (float("inf"), "days"))
_BYTES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))

# What the address of a page says was done; anything else that stands there is ignored.
NOTES = {
    "admitted": "The device may take part from the next round on.",
    "approved": "The class is one of the fleet's now.",
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
    "started": "The round is open.",
}


@cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(ago=ago, day=day, seconds=duration, bytes=size)
    found.globals.update(address_of=address_of, program_version=version("auricle"))
    return found


def render(
    request: Request,
    template: str,
    *,
    error: AggregatorError | None = None,
    **values: Any,  # noqa: ANN401  (a template takes anything)
) -> HTMLResponse:
    """Return a page.

    Args:
        request: that it answers.
        template: name of the file.
        error: why what was asked for was not done; the template gets it.
        values: for the template.
    """
    status, headers = (200, {}) if error is None else (status_of(type(error)), retry_headers(error))
    return HTMLResponse(render_text(request, template, error=error, **values), status, headers)


def render_text(request: Request, template: str, **values: Any) -> str:  # noqa: ANN401  (a template takes anything)
    """Return a part of a page as HTML; the arguments are those of :func:`render`."""
    visit = getattr(request.state, "visit", None)
    note = NOTES.get(request.query_params.get("note", ""))
    return _environment().get_template(template).render(visit=visit, path=request.url.path, note=note, **values)


def ago(moment: datetime | None) -> str:
    """Say how long ago something was, or when it will be."""
    if moment is None:
        return "never"
    seconds = time.time() - moment.timestamp()
    if abs(seconds) < 5:
        return "just now"
    return f"{duration(seconds)} ago" if seconds > 0 else f"in {duration(-seconds)}"


def day(moment: datetime | None) -> str:
    """Write a time in UTC."""
    return "never" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"


def duration(seconds: float) -> str:
    """Write a duration with one unit."""
    value = float(seconds)
    for factor, unit in _STEPS:
        if value < 2 * factor or factor == float("inf"):
            return f"{value:.0f}\u00a0{unit}"  # on one line
        value /= factor
    raise AssertionError("the last unit has no bound")


def size(count: float) -> str:
    """Write a number of bytes."""
    unit, factor = next(((unit, factor) for unit, factor in _BYTES if count >= factor), ("bytes", 1.0))
    value = count / factor
    return f"{value:.1f} {unit}" if value < 10 and factor > 1 else f"{value:.0f} {unit}"
