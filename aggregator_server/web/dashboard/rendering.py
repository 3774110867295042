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
from aggregator_server.web.dashboard.documents import help_address
from aggregator_server.web.dashboard.languages import LANGUAGES, N_, gettext, ngettext, spoken
from aggregator_server.web.dashboard.plain_words import details, plain
from aggregator_server.web.http_errors import retry_headers, status_of

TEMPLATES = Path(__file__).parent / "templates"
# Seconds of each unit, and how a duration is said with it: how long, how long ago, how soon.
_UNITS = (
    (86_400.0, N_("%(value)s days"), N_("%(value)s days ago"), N_("in %(value)s days")),
    (3_600.0, N_("%(value)s h"), N_("%(value)s h ago"), N_("in %(value)s h")),
    (60.0, N_("%(value)s min"), N_("%(value)s min ago"), N_("in %(value)s min")),
    (1.0, N_("%(value)s s"), N_("%(value)s s ago"), N_("in %(value)s s")),
)
_BYTES = ((1e9, N_("%(value)s GB")), (1e6, N_("%(value)s MB")), (1e3, N_("%(value)s kB")), (1.0, N_("%(value)s bytes")))

# What the address of a page says was done; anything else that stands there is ignored.
NOTES = {
    "admitted": N_("The device may take part from the next round on."),
    "approved": N_("The class is one of the fleet's now."),
    "cancelled": N_("The round was cancelled."),
    "changed": N_("The chosen devices were changed, all of them."),
    "invitation-revoked": N_("The invitation lets nobody in any more."),
    "merged": N_("The two classes are one now."),
    "quarantined": N_("The device's uploads no longer count."),
    "released": N_("The device's uploads count again."),
    "renamed": N_("The class has its new name."),
    "restored": N_("The fleet is back at the state after that round."),
    "retired": N_("The class is no longer one of the fleet's."),
    "revoked": N_("The device is shut out for good."),
    "schedule-ended": N_("The schedule opens no more rounds."),
    "scheduled": N_("The schedule was made. Its rounds open by themselves."),
    "signed-out": N_("You are signed out."),
    "started": N_("The round was started."),
}


@cache
def environment() -> Environment:
    """Return the templates' environment; ``trans`` and ``_()`` speak the language of the request."""
    found = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    found.policies["ext.i18n.trimmed"] = True
    found.install_gettext_callables(gettext, ngettext, newstyle=True)  # type: ignore[attr-defined]
    found.filters.update(ago=ago, day=day, seconds=duration, bytes=size, number=number, percent=percent, said=gettext)
    found.filters.update(plain=plain, details=details)
    found.globals.update(address_of=address_of, program_version=version("auricle"), languages=LANGUAGES)
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
    note = gettext(NOTES.get(request.query_params.get("note", ""), ""))
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    page = {"visit": visit, "path": request.url.path, "note": note, "language": spoken()}
    page["help"] = help_address(template, request.app.state.docs_url)
    page["here"] = here if request.method == "GET" else "/"  # where a person goes on in another language
    return environment().get_template(template).render(page, **values)


def ago(moment: datetime | None) -> str:
    """Say how long ago something was, or when it will be."""
    if moment is None:
        return gettext("never")
    seconds = time.time() - moment.timestamp()
    if abs(seconds) < 5:
        return gettext("just now")
    return _with_unit(abs(seconds), 2 if seconds > 0 else 3)


def day(moment: datetime | None) -> str:
    """Write a time in UTC."""
    return gettext("never") if moment is None else f"{spoken().day(moment)} UTC"


def duration(seconds: float) -> str:
    """Write a duration with one unit."""
    return _with_unit(float(seconds), 1)


def _with_unit(seconds: float, form: int) -> str:
    unit = next((unit for unit in _UNITS if seconds >= 2 * unit[0]), _UNITS[-1])
    text = gettext(str(unit[form])) % {"value": spoken().number(seconds / unit[0])}
    return text.replace(" ", "\u00a0")  # on one line


def size(count: float) -> str:
    """Write a number of bytes."""
    factor, unit = next((step for step in _BYTES if count >= step[0]), _BYTES[-1])
    value = count / factor
    return gettext(unit) % {"value": spoken().number(value, 1 if value < 10 and factor > 1 else 0)}


def number(value: float, digits: int = 0) -> str:
    """Write a number with so many digits behind the decimal separator."""
    return spoken().number(value, digits)


def percent(value: float, digits: int = 0) -> str:
    """Write a number of percent."""
    return f"{spoken().number(value, digits)} %"
