"""The page's addresses, and what those answer that show the device, or record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from edge_client import owner_undo
from edge_client.config import Config
from edge_client.detection.observed_rates import rate_sentences
from edge_client.detection.sensitivity import STEPS
from edge_client.errors import ClipError
from edge_client.owner_page.access import CSRF, Access, AccessMiddleware, sign_in_route
from edge_client.owner_page.asking import AskingPage
from edge_client.owner_page.device import OwnedDevice, answers
from edge_client.owner_page.forms import FORMS, form_route
from edge_client.owner_page.history import HistoryPage
from edge_client.owner_page.pages import Pages, kind_of, number_of, read_form, root_of
from edge_client.owner_page.pausing import pausing_routes
from edge_client.owner_page.recordings import OfferingPage, SentFiles, adding
from edge_client.owner_page.rules import RulesPage
from edge_client.owner_page.streams import UNBUFFERED, LiveStream, Recording
from fleet_protocol.bundle.feature_settings import JointSettings
from fleet_protocol.errors import AuricleError

_MOST_TAKES = 50


def create_app(config_path: Path, config: Config, access: Access, offers: Path | None = None) -> Starlette:
    """Return the page of a device as an ASGI application; ``offers``: of :class:`OfferingPage`."""
    device = OwnedDevice(config_path, config)
    offering = OfferingPage(device, offers)
    page = OwnerPage(device, access, offering)
    routes = [
        Route("/", page.listen),
        Route("/heard", page.heard),
        Route("/heard/answer", page.answer, methods=["POST"]),
        Route("/heard/{kind}/{at_ms}.wav", page.sound),
        *page.asking.routes(),
        *pausing_routes(device),
        *HistoryPage(device, page.pages).routes(),
        *RulesPage(device, page.pages).routes(),
        Route("/live", page.live),
        Route("/status", page.status),
        Route("/teach", page.teach),
        Route("/teach/record", page.record, methods=["POST"]),
        Route("/teach/offered", offering.teach, methods=["POST"]),
        Route("/teach/discard", page.discard, methods=["POST"]),
        Route("/sounds", page.sounds),
        Route("/sounds/clip", page.clip),
        *SentFiles(device).routes(),
        *(form_route(device, address) for address in FORMS),
        sign_in_route(access, page.pages),
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
    ]
    failures: dict[Any, Any] = {AuricleError: page.failed, OSError: page.failed}
    guarded = Middleware(AccessMiddleware, access=access)
    return Starlette(routes=routes, middleware=[guarded], exception_handlers=failures, debug=False)


class OwnerPage:
    """What each address answers. Plain methods run in a thread, as whatever reads the disk must."""

    def __init__(self, device: OwnedDevice, access: Access, offering: OfferingPage) -> None:
        self._device, self._offering = device, offering
        self.pages = Pages(device, access.sign(CSRF))
        self._live = LiveStream(device.config.device.state)
        self.asking = AskingPage(device, self.pages)
        self._recording = Recording()

    def listen(self, _: Request) -> Response:
        """Show what the device hears now, and heard lately."""
        room = self._device.status().get("room")
        shown = {**self._heard(), **self.asking.shown()}
        return self.pages.page("listen.html", rates=rate_sentences(room) if room else (), **shown)

    def heard(self, request: Request) -> Response:
        """Return the list of what was heard, as a part of the page; with the event ``kind`` and ``at_ms`` in it."""
        query = request.query_params
        if "at_ms" in query:
            self._device.wait_for(kind_of(query.get("kind", "")), number_of(query["at_ms"]))
        return self.pages.page("heard.html", **self._heard())

    def _heard(self) -> dict[str, Any]:
        shown = {"heard": self._device.heard(), "detected": self._device.detected_kept()}
        return shown | answers(self._device.teaching())

    async def answer(self, request: Request) -> Response:
        """Take the owner's word for what an event was, and teach it."""
        form = await read_form(request)
        kind, at_ms = kind_of(form.get("kind", "")), number_of(form.get("at_ms", ""))
        label, device = form.get("label", "").strip(), self._device
        if form.get("says") == "wrong":
            after = await run_in_threadpool(device.deny, at_ms)
        else:
            after = await run_in_threadpool(device.answer, kind, at_ms, label)
        return JSONResponse({"message": f"Thank you. {after}"})

    def sound(self, request: Request) -> Response:
        """Return the sound of an event."""
        try:
            kind, at_ms = kind_of(request.path_params["kind"]), number_of(request.path_params["at_ms"])
        except ClipError:
            raise HTTPException(404) from None
        path = self._device.sound(kind, at_ms).path
        return FileResponse(path, media_type="audio/wav")

    async def live(self, _: Request) -> Response:
        """Stream what the daemon hears."""
        stream = self._live.open()
        return stream or JSONResponse({"error": "the page is open in too many windows; close one"}, 503)

    def status(self, request: Request) -> Response:
        """Return how the daemon is, as far as the page needs it, and of a ``label`` the takes and what would help."""
        status, label = self._device.status(), request.query_params.get("label", "")
        return JSONResponse(
            {
                "running": status["running"],
                "listens": self._device.teaching().learns_by_itself,
                "learning": self._device.learning(),
                "takes": self._device.takes(label),
                "advice": self._device.advice(label),
                "waiting_for": (status.get("training") or {}).get("waiting_for"),
                "error": (status.get("teaching") or {}).get("error", ""),
            }
        )

    def teach(self, request: Request) -> Response:
        """Show the form that begins a recording session."""
        teaching = self._device.teaching()
        labels, label = teaching.known_labels(), request.query_params.get("label", "")
        alone = bool(teaching.label_map.reserved)
        settings = teaching.settings
        words_alone = not settings.hears_sounds and not isinstance(settings, JointSettings)
        shown = {"labels": labels, "label": label, "alone": alone, "words_alone": words_alone}
        shown |= {"silent": self._device.silent(), "offers": self._offering.labels(teaching)}
        return self.pages.page("teach.html", **adding(settings), **shown)

    async def record(self, request: Request) -> Response:
        """Record takes; the answer is a line of JSON for every step."""
        form = await read_form(request)
        count = number_of(form.get("count", ""))
        if not 1 <= count <= _MOST_TAKES:
            raise ClipError(f"{count} takes cannot be recorded at once; ask for 1 to {_MOST_TAKES}")
        teaching = await run_in_threadpool(self._device.teaching)
        label = teaching.require_slot(form.get("label", "").strip())
        lines = self._recording.lines(teaching, label, count)
        return StreamingResponse(lines, headers=UNBUFFERED, media_type="application/x-ndjson")

    async def discard(self, request: Request) -> Response:
        """Have the take of a number discarded, of the session that goes on."""
        form = await read_form(request)
        self._recording.discard(number_of(form.get("take", "")))
        return JSONResponse({})

    def sounds(self, _: Request) -> Response:
        """Show what the device knows, and from whom."""
        teaching = self._device.teaching()
        return self.pages.page(
            "sounds.html",
            **adding(teaching.settings),
            steps=STEPS,
            listens=self._device.config.microphone is not None,
            sounds=self._device.sounds(teaching),
            offered=[sound for sound in teaching.offered if sound not in teaching.known_labels()],
            offers=teaching.offers(),
            changes=owner_undo.changes(teaching),
            status=self._device.status(),
            bundle=self._device.bundle_name(),
            room=teaching.label_map.free,
            fleet=self._device.config.server,
            holds_some=bool(teaching.chosen or teaching.store.size_bytes()),
            used_mb=teaching.store.size_bytes() / 1e6,
            quota_mb=self._device.config.clips.quota_mb,
        )

    def clip(self, request: Request) -> Response:
        """Return a clip that the owner taught."""
        query = request.query_params
        return FileResponse(self._device.clip(query.get("label", ""), query.get("clip", "")).path)

    async def failed(self, request: Request, error: Exception) -> Response:
        """Say what went wrong."""
        status = 409 if isinstance(error, AuricleError) else 500
        if "text/html" in request.headers.get("accept", ""):
            return self.pages.page("failed.html", status, error=str(error), root=root_of(request.scope["path"]))
        return JSONResponse({"error": str(error)}, status)
