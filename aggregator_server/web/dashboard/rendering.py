"""Templates: Jinja2 with escaping, filters for times and sizes, styles and scripts, and errors in plain words."""

import hashlib
import re
import time
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from aggregator_server.errors import AggregatorError
from aggregator_server.web.dashboard.documents import help_address
from aggregator_server.web.dashboard.languages import LANGUAGES, N_, gettext, ngettext, spoken
from aggregator_server.web.http_errors import retry_headers, status_of

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


# Errors without an entry here speak plainly themselves.
WORDS = {
    "internal_error": N_("Something failed on the server. Its log says more."),
    "round_not_found": N_("There is no such round."),
    "schedule_not_found": N_("There is no such schedule, or it has ended."),
    "device_not_found": N_("There is no such device."),
    "class_not_found": N_("There is no such class, or it is in another state than this needs."),
    "invitation_not_found": N_("There is no such invitation."),
    "class_name_taken": N_("Another class has that name. Choose another one."),
    "round_open": N_("A round is open. Wait for its end, or cancel it on its page."),
    "round_closed": N_("The round is over."),
    "round_not_done": N_("That round has no result to go back to."),
    "uploads_gone": N_("The uploads of that round are no longer kept. Go back to the round before it."),
    "last_class": N_("A fleet needs at least one class with a recording."),
    "too_many_classes": N_("The fleet has as many classes as it may have. Retire one first."),
    "device_revoked": N_("The device was revoked, or left. It needs a new invitation."),
    "feature_mismatch": N_("The device's features are not those of the fleet."),
    "no_devices": N_("No device can take part now."),
    "no_public_set": N_("The fleet has no public set yet. Publish one first."),
    "no_model": N_("This strategy shares a model, and none has been published yet."),
    "model_too_small": N_("The shared model has too few slots for the fleet's classes."),
    "model_replaced": N_("This round would replace the devices' own models. Say below whether it may."),
    "invalid_plan": N_("The round cannot be started with these settings."),
    "unknown_strategy": N_("There is no such strategy."),
    "unauthorised": N_("This token opens nothing here."),
    "too_many": N_("There were too many attempts. Wait, and try again."),
    "too_large": N_("What was sent is too large."),
    "too_slow": N_("What was sent arrived too slowly. Send it again."),
    "storage_full": N_("The server's disk is full. Make room on it; nothing was kept of what was sent."),
}
# By HTTP status, where there is no code that a page could know.
BY_STATUS = {
    404: N_("There is no page at this address."),
    405: N_("This address takes no such request. Go back, and open the page anew."),
    408: WORDS["too_slow"],
    413: WORDS["too_large"],
    422: N_("What was sent cannot be read."),
    503: N_("The server has too much to do at this moment. Try again."),
    507: WORDS["storage_full"],
}
_FOR_PROGRAMS = re.compile(r"(GET|POST|PUT|PATCH|DELETE) /|/v1/|/docs")


def plain(error: AggregatorError) -> str:
    """Return an error in plain words, in the language of the page."""
    return gettext(WORDS[error.code]) if error.code in WORDS else _said(error)


def details(error: AggregatorError) -> str:
    """Return what else the server says, in English, without the clauses that are for programs; empty where none is."""
    clauses = _said(error).split("; ") if error.code in WORDS else []
    return "; ".join(clause for clause in clauses if not _FOR_PROGRAMS.search(clause))


def _said(error: AggregatorError) -> str:
    return str(error).encode("utf-8", "backslashreplace").decode()


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
        error: why what was asked for was not done; the template gets it.
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
