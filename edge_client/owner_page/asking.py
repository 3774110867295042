"""What the page asks: the sounds about which the device is in doubt, with the buttons that answer."""

from __future__ import annotations

import time
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from edge_client.clips.folders import labels_with_clips
from edge_client.owner_page.device import OwnedDevice
from edge_client.owner_page.pages import Pages, read_form
from edge_client.questions.answers import answer, open_questions, store_of
from edge_client.questions.asking import guess_about

# How long the list is taken to be as it was, where no file changed: questions become old.
_SAME_S = 60.0


class AskingPage:
    """What each address about questions answers."""

    def __init__(self, device: OwnedDevice, pages: Pages) -> None:
        self._device, self._pages = device, pages
        self._seen: tuple[float, Any, dict[str, Any]] | None = None

    def routes(self) -> list[Route]:
        """Return the addresses."""
        return [
            Route("/questions", self.questions),
            Route("/questions/answer", self.answer, methods=["POST"]),
            Route("/questions/{question}.wav", self.sound),
        ]

    def shown(self) -> dict[str, Any]:
        """Return open questions and labels. Open windows ask every ten seconds: files are read where one changed."""
        state, config = self._device.state, self._device.config
        key = (state.database.key(), state.model.key(), labels_with_clips(config.clips_folder))
        seen, at = self._seen, time.monotonic()
        if seen is None or seen[1] != key or at - seen[0] >= _SAME_S:
            seen = self._seen = at, key, self._read()
        return seen[2]

    def _read(self) -> dict[str, Any]:
        teaching = self._device.teaching()
        asked = [
            {
                "id": one.question_id,
                "at_ms": round(1e3 * one.at),
                "label": one.label,
                "detected": one.detected,
                "guess": guess_about(one, teaching.guesser),
            }
            for one in open_questions(teaching)
        ]
        offers = [one for one in teaching.offers() if one.is_asked]
        return {"questions": asked, "known": teaching.known_labels(), "asked_offers": offers}

    def questions(self, _: Request) -> Response:
        """Return the list of questions, as a part of the page."""
        return self._pages.page("questions.html", **self.shown())

    async def answer(self, request: Request) -> Response:
        """Take the owner's answer, and learn it."""
        form = await read_form(request)
        given = form.get("id", ""), form.get("says", ""), form.get("label", "").strip()
        told = await run_in_threadpool(lambda: answer(self._device.teaching(), *given))
        return JSONResponse({"message": f"Thank you. {told}"})

    def sound(self, request: Request) -> Response:
        """Return the sound of a question."""
        store = store_of(self._device.teaching())
        return FileResponse(store.sound(store.find(request.path_params["question"])), media_type="audio/wav")
