"""The page's templates, in which everything is escaped, and what its forms send."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast
from urllib.parse import parse_qs

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from edge_client.errors import ClipError
from edge_client.owner_page.device import Kind, OwnedDevice

_FORM_BYTES = 4096


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises ClipError if it is larger than any that the page sends."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _FORM_BYTES:
            raise ClipError(f"a form of more than {_FORM_BYTES} bytes is refused")
    fields = parse_qs(body.decode(errors="replace"), keep_blank_values=True)
    return {name: values[-1] for name, values in fields.items()}


def kind_of(given: str) -> Kind:
    """Return a kind of event. Raises ClipError if it is none."""
    if given in ("detected", "unknown"):
        return cast("Kind", given)
    raise ClipError(f"{given[:100]!r} is no kind of event; detected or unknown")


def number_of(given: str) -> int:
    """Return a whole number, not negative. Raises ClipError if it is none."""
    if not given.isdecimal() or len(given) > 15:
        raise ClipError(f"{given[:100]!r} is not a number")
    return int(given)


def root_of(path: str) -> str:
    """Return what leads from an address of the page to its beginning, as a browser resolves it.

    All links are relative, so that they hold behind a proxy that puts the page below a path of its own.
    """
    return "../" * (path.count("/") - 1) or "./"


class Pages:
    """Renders the templates of a device."""

    def __init__(self, device: OwnedDevice, csrf_token: str) -> None:
        """Prepare. ``csrf_token``: what every form of the page sends with it."""
        self._environment = Environment(
            loader=PackageLoader("edge_client.owner_page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {"clock": _clock, "iso": _iso, "weekday": lambda day: day.strftime("%a %d %b")}
        self._environment.globals |= {
            "device": device.config.device.name,
            "csrf_token": csrf_token,
            "plays": device.plays,
            "forgets": device.forgets,
            "paused": device.paused,
            "root": root_of("/"),
        }

    def page(self, template: str, code: int = 200, /, **values: Any) -> HTMLResponse:  # noqa: ANN401  (what it shows)
        """Return a page with an HTTP status."""
        return HTMLResponse(self._environment.get_template(template).render(values), code)


def _clock(at_ms: float) -> str:
    then = datetime.fromtimestamp(at_ms / 1e3)
    return then.strftime("%H:%M:%S" if then.date() == datetime.now().date() else "%d %b, %H:%M")


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1e3).astimezone().isoformat(timespec="seconds")
