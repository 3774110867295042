"""Recordings that the page takes in: those that a browser sends, another device's file, and what a trial offers."""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from pathlib import Path
from typing import Any, BinaryIO

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from edge_client.audio.recordings import SUFFIXES
from edge_client.clips.importing import Summary
from edge_client.errors import ClipError
from edge_client.owner import Teaching
from edge_client.owner_archive import exported, largest_bytes, take_in
from edge_client.owner_changes import import_recordings
from edge_client.owner_page.device import OwnedDevice
from edge_client.owner_page.pages import read_form
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.ground.atomic_files import write_atomically

# Of one recording: more than a minute, of which no more is read, in two channels at 48 kHz.
LARGEST_BYTES = 16 * 2**20
# For a recording, or another device's file, to come.
_RECORDING_S, _ARCHIVE_S = 60.0, 600.0
# Recordings of a label that follow each other within so many seconds are taken back together.
_TOGETHER_S = 60.0
_NAME = 80


def adding(settings: FeatureSettings) -> dict[str, Any]:
    """Return what the form needs to know: which files are read here, and what a browser makes of others."""
    rate_hz, clip_s = settings.sample_rate_hz, settings.clip_s
    return {"largest": LARGEST_BYTES, "rate_hz": rate_hz, "clip_s": clip_s, "suffixes": sorted(SUFFIXES)}


class SentFiles:
    """Takes what browsers send; a second file of a kind is refused while one is read: each may need much memory."""

    def __init__(self, device: OwnedDevice) -> None:
        self._device = device
        self._adding, self._importing = asyncio.Lock(), asyncio.Lock()

    def routes(self) -> list[Route]:
        """Return the addresses."""
        return [
            Route("/teach/add", self.add, methods=["POST"]),
            Route("/sounds/export", self.export),
            Route("/sounds/import", self.take_in, methods=["POST"]),
        ]

    async def add(self, request: Request) -> Response:
        """Take the body for a recording of a ``label``, with its file's ``name``. Raises EdgeError if it is refused."""
        if self._adding.locked():
            raise ClipError("another recording is being added; wait a moment, then try again")
        async with self._adding:
            teaching = await run_in_threadpool(self._device.teaching)
            label = teaching.require_slot(request.query_params.get("label", "").strip())
            name = re.sub(r"[^\w.-]+", "_", request.query_params.get("name", ""))[-_NAME:].lstrip(".") or "recording"
            with tempfile.TemporaryDirectory(prefix="auricle-") as folder:
                path = Path(folder) / name
                too_much = (
                    f"a recording of more than {LARGEST_BYTES // 2**20} MB is refused: cut out the sound, or use "
                    "`auricle-edge import` on the device"
                )
                with path.open("wb") as file:
                    await _receive(request, file, LARGEST_BYTES, too_much, _RECORDING_S, "recording")
                told = await run_in_threadpool(_import, teaching, label, path)
        return JSONResponse({"message": told, "after": teaching.after(terminal=False)})

    def export(self, _: Request) -> Response:
        """Return the file for another device, part by part. Raises ClipError if there is nothing in it."""
        parts = exported(self._device.teaching(), [])
        headers = {"content-disposition": 'attachment; filename="auricle-clips.zip"'}
        return StreamingResponse(parts, headers=headers, media_type="application/zip")

    async def take_in(self, request: Request) -> Response:
        """Take in the body, another device's file. Raises EdgeError if it is refused."""
        if self._importing.locked():
            raise ClipError("another file is being taken in; wait a moment, then try again")
        async with self._importing:
            teaching = await run_in_threadpool(self._device.teaching)
            most = largest_bytes(teaching)
            too_much = f"a file of more than {most / 1e6:.0f} MB is refused: so much is no clip store"
            # On the device's own disk, without a name: it is gone with this process.
            with tempfile.TemporaryFile(dir=self._device.state.folder) as file:
                await _receive(request, file, most, too_much, _ARCHIVE_S, "file")
                result = await run_in_threadpool(take_in, teaching, file)
        after = teaching.after(terminal=False) if result.stored else ""
        return JSONResponse(
            {"message": f"{' '.join(line.rstrip('.') + '.' for line in result.lines())} {after}".rstrip()}
        )


async def _receive(request: Request, file: BinaryIO, most: int, too_much: str, within_s: float, what: str) -> None:
    """Write the body into a file as it comes: in memory it would stand beside what is made of it."""
    size = 0
    try:
        async with asyncio.timeout(within_s):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise ClipError(too_much)
                await run_in_threadpool(file.write, part)
    except ClientDisconnect:
        raise ClipError(f"the browser left before the {what} was whole") from None
    except TimeoutError:
        shorter = ": send a shorter one" if what == "recording" else ""
        raise ClipError(f"the {what} did not come within {within_s:g} seconds{shorter}") from None


def _import(teaching: Teaching, label: str, path: Path) -> str:
    """Store a recording; return what became of it, or raise why it is refused, in words that know its name alone."""
    found, act = Summary(), next(iter(teaching.state.acts.all()), None)
    if act is not None and ((act.kind, act.label) != ("added", label) or abs(time.time() - act.at) > _TOGETHER_S):
        act = None
    import_recordings(teaching, path, label, teaching.require_slot, found, act=act)
    for problem in found.refused.values():
        raise ClipError(problem.replace(f"{path.parent}/", ""))
    return "The device has it already." if found.present else "The device keeps it."


class OfferingPage:
    """Sounds that a demonstration offers to teach: its device plays recordings, so that nobody can record there.

    ``folder``, None where nothing is offered, holds the takes of each, ``<label>/*.wav``. What the device plays once it
    knows them is in ``<label>/played``.
    """

    def __init__(self, device: OwnedDevice, folder: Path | None) -> None:
        self._device, self._folder = device, folder

    def labels(self, teaching: Teaching) -> list[str]:
        """Return the sounds that are offered and not known yet."""
        if self._folder is None or not self._device.plays():
            return []
        offered = {path.name for path in self._folder.iterdir() if path.is_dir()}
        return sorted(offered - set(teaching.known_labels()))

    async def teach(self, request: Request) -> Response:
        """Teach an offered sound, and have the device play it from now on. Raises ClipError if it is not offered."""
        label = (await read_form(request)).get("label", "")
        return JSONResponse({"takes": await run_in_threadpool(self._teach, label)})

    def _teach(self, label: str) -> int:
        teaching = self._device.teaching()
        microphone = teaching.config.microphone
        if self._folder is None or label not in self.labels(teaching):
            raise ClipError(f"no sound called {label[:100]!r} is offered (any more)")
        assert microphone is not None
        assert microphone.file is not None
        import_recordings(teaching, self._folder / label, label, teaching.require_slot, Summary())
        for path in sorted((self._folder / label / "played").glob("*.wav")):
            write_atomically(microphone.file / path.name, path.read_bytes())
        return len(teaching.store.clips(label))
