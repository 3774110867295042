"""What changes by itself: the open round, as server-sent events. Each event is a part of a page, as HTML.

A stream looks at the rounds every second, because commands change them too. It ends after a minute, and the
page asks for another one: so a session that has ended gets none.
"""

import itertools
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from aggregator_server import limits
from aggregator_server.errors import RefusedError
from aggregator_server.rounds.views.replies import list_rounds, summarise_round
from aggregator_server.schemas import RoundSummary
from aggregator_server.web.dashboard.access import Signed, Visit
from aggregator_server.web.dashboard.rendering import PageRoute, render_text
from aggregator_server.web.dashboard.round_figures import open_round_view, plane_of_round, round_view
from aggregator_server.web.routes.access import CurrentService
from aggregator_server.web.routes.rounds import RoundId
from aggregator_server.web.service import Service

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ReadRounds = Callable[[], tuple[RoundSummary, ...]]
Draw = Callable[[], str]


@dataclass
class Streams:
    """The streams of this process, by their numbers from 0. It belongs to one event loop."""

    sessions: dict[int, str] = field(default_factory=dict)

    def enter(self, visit: Visit) -> int:
        """Count one more stream of a session, if it may have one, and return its number.

        Raises:
            RefusedError: it has too many, or all together are too many.
        """
        own = sum(secret == visit.secret for secret in self.sessions.values())
        if own >= limits.STREAMS_PER_SESSION or len(self.sessions) >= limits.STREAMS:
            raise RefusedError("busy", "too many live pages are open; this one shows what it showed when it was opened")
        number = next(number for number in itertools.count() if number not in self.sessions)
        self.sessions[number] = visit.secret
        return number

    def leave(self, number: int) -> None:
        """Count it no longer."""
        del self.sessions[number]


async def _streams(request: Request) -> Streams:
    found: Streams = request.app.state.streams
    return found


OpenStreams = Annotated[Streams, Depends(_streams)]


@router.get("/live/now")
async def watch_now(
    request: Request, service: CurrentService, visit: Signed, streams: OpenStreams
) -> StreamingResponse:
    """Send what is open now, whenever that changes."""

    def draw() -> str:
        return render_text(request, "_now.html", current=open_round_view(service.store, time.time()))

    return _stream(service, visit, streams, lambda: list_rounds(service.store, None, 1), draw)


@router.get("/live/rounds/{round_id}")
async def watch_round(
    request: Request, service: CurrentService, visit: Signed, streams: OpenStreams, round_id: RoundId, shown: str = ""
) -> StreamingResponse:
    """Send the devices of a round, whenever one of them uploaded or learned.

    Once the round no longer stands as it is shown, its whole page is sent, which then asks for a stream of its own.
    """

    def draw() -> str:
        view = round_view(service.store, round_id, time.time())
        if view.standing == shown:
            return render_text(request, "_round.html", view=view)
        return render_text(request, "_round_page.html", view=view, plane=plane_of_round(view), anew=True)

    return _stream(service, visit, streams, lambda: (summarise_round(service.store, round_id),), draw)


class _Counted(StreamingResponse):
    """A stream that is counted until it ends, also where its client is gone before it begins."""

    def __init__(self, events: AsyncIterator[str], streams: Streams, number: int) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self._streams = streams
        self._number = number

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.leave(self._number)


def _stream(service: Service, visit: Visit, streams: Streams, read: ReadRounds, draw: Draw) -> StreamingResponse:
    number = streams.enter(visit)
    return _Counted(_events(service, f"page {number}", read, draw), streams, number)


async def _events(service: Service, page: str, read: ReadRounds, draw: Draw) -> AsyncIterator[str]:
    end, shown = time.monotonic() + limits.STREAM_S, None
    while time.monotonic() < end and not service.new_work.closed:
        event = service.new_work.subscribe(page)
        found = await run_in_threadpool(read)
        if found != shown:
            shown = found
            yield _as_event(await run_in_threadpool(draw))
        await service.new_work.wait(event, limits.STREAM_LOOK_S)


def _as_event(html: str) -> str:
    return "".join(f"data: {line}\n" for line in html.splitlines() if line.strip()) + "\n"
