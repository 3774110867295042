"""The page Rules: what the device does when it hears something; made, tested and removed there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from edge_client.errors import ClipError
from edge_client.owner_page.device import OwnedDevice
from edge_client.owner_page.pages import Pages, read_form
from edge_client.rules.owners import Rules, described

_WAYS = ("notify", "webhook", "mqtt")
_TESTED = "test"


class RulesPage:
    """The addresses of the page. Who may start programs of ``rules.d`` writes that into the configuration."""

    def __init__(self, device: OwnedDevice, pages: Pages) -> None:
        config = device.config
        self._device, self._pages, self._written = device, pages, config.rules
        self._rules = Rules(device.state, config)

    def routes(self) -> list[Route]:
        """Return the routes of the page."""
        return [
            Route("/rules", self.show),
            Route("/rules/add", self.add, methods=["POST"]),
            Route("/rules/test", self.test, methods=["POST"]),
            Route("/rules/remove", self.remove, methods=["POST"]),
        ]

    def show(self, request: Request) -> Response:
        """Show all rules, and the form that makes one, of the sound in ``label``."""
        rules, (lost, why) = self._rules.every(), self._rules.lost()
        found = [
            {**one, "when": described(rule), "written": rule in self._written}
            for one, rule in zip(self._rules.listed(), rules, strict=True)
        ]
        config, labels = self._device.config, self._device.teaching().known_labels()
        shown = {"rules": found, "lost": lost, "why": why, "labels": labels, "label": request.query_params.get("label")}
        return self._pages.page("rules.html", home=config.home is not None, mqtt=config.mqtt is not None, **shown)

    async def add(self, request: Request) -> Response:
        """Make a rule of a form."""
        form = await read_form(request)
        await run_in_threadpool(self._rules.add, _values(form))
        return JSONResponse({"message": f"The rule {form['name']} is kept. Test it."})

    async def test(self, request: Request) -> Response:
        """Do what a rule says, and say how that went; it waits for the receiver."""
        form = await read_form(request)
        done = await run_in_threadpool(self._rules.test, form.get("name", ""), _TESTED)
        return JSONResponse({"message": f"Done: {', '.join(done)}."})

    async def remove(self, request: Request) -> Response:
        """Remove a rule that was made here."""
        form = await read_form(request)
        await run_in_threadpool(self._rules.remove, form.get("name", ""))
        return JSONResponse({"message": f"The rule {form['name']} is removed."})


def _values(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of a rule. Raises ClipError where a field is none that the form sends."""
    way, address = form.get("way", ""), form.get("address", "").strip()
    if way not in _WAYS:
        raise ClipError(f"a rule tells by {', '.join(_WAYS)}, not {way[:40]!r}")
    if not address:
        raise ClipError("the rule needs an address: where should it tell?")
    label, pause = form.get("label", ""), form.get("pause_min", "").strip() or "0"
    try:
        pause_min = float(pause)
    except ValueError:
        raise ClipError(f"{pause[:40]!r} is no number of minutes") from None
    values = {
        "name": form.get("name", "").strip(),
        "labels": (label,) if label else (),
        "hours": tuple(part.strip() for part in form.get("hours", "").split(",") if part.strip()),
        "pause_min": pause_min,
        "home": form.get("home") == "yes",
        way: (address,) if way == "notify" else address,
    }
    return values | ({"message": message} if (message := form.get("message", "").strip()) else {})
