"""The page's templates. Everything that they show is escaped."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse


class Pages:
    """Renders the templates of a device."""

    def __init__(self, name: str, csrf_token: str) -> None:
        """Prepare.

        Args:
            name: of the device.
            csrf_token: what every form of the page sends with it.
        """
        self._environment = Environment(
            loader=PackageLoader("edge_client.owner_page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {"clock": _clock, "iso": _iso}
        self._environment.globals |= {"device": name, "csrf_token": csrf_token}

    def page(self, template: str, code: int = 200, /, **values: Any) -> HTMLResponse:  # noqa: ANN401  (what it shows)
        """Return a page with an HTTP status."""
        return HTMLResponse(self._environment.get_template(template).render(values), code)


def _clock(at_ms: int) -> str:
    """Return a time of the day, with the day where it is not today."""
    then = datetime.fromtimestamp(at_ms / 1e3)
    return then.strftime("%H:%M:%S" if then.date() == datetime.now().date() else "%d %b, %H:%M")


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1e3).astimezone().isoformat(timespec="seconds")
