"""The FastAPI application: routes over a store, a scheduler that moves rounds, and one shape for every error."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from importlib.metadata import version

import anyio
import anyio.to_thread
from fastapi import FastAPI

from aggregator_server import limits
from aggregator_server.errors import CODES, StateAwayError
from aggregator_server.operator_changes.merge_and_retire import remove_leaving
from aggregator_server.rounds.computation import Computation
from aggregator_server.rounds.scheduler import Notifier, RoundScheduler
from aggregator_server.security import Tokens
from aggregator_server.store.store import Kind, Store
from aggregator_server.web import http_errors
from aggregator_server.web.dashboard import classes as class_pages
from aggregator_server.web.dashboard import fleet, invitations, open_pages, overview
from aggregator_server.web.dashboard import rounds as round_pages
from aggregator_server.web.dashboard.rendering import page_of
from aggregator_server.web.refused_requests import RefusedRequests
from aggregator_server.web.request_bodies import Addresses, RequestBodies
from aggregator_server.web.routes import blobs, classes, devices, health, publications, rounds, tokens, work
from aggregator_server.web.routes.access import require_known
from aggregator_server.web.service import Flusher, Readiness, Service, Terms

# A request is compared with one after the other: those that a whole fleet sends come first.
_ROUTES = (work, blobs, health, devices, tokens, publications, rounds, classes)
PAGES = (open_pages, overview, fleet, round_pages, class_pages, invitations)
_DESCRIPTION = (
    "Combines what devices learned about sounds, without their audio. Every error is an ErrorReply: "
    '{"error": {"code", "message"}} with a stable code. Errors of no address below: '
    + " ".join(f"`{code}`: {CODES[code][1]}" for code in ("not_found", "method_not_allowed", "forged_form"))
)


def create_app(store: Store, first_tokens: Tokens, terms: Terms | None = None) -> FastAPI:
    """Return the application; the store stays the caller's, to close. The tokens are the server's own two."""

    terms = terms or Terms()
    store.devices_needed = terms.devices_needed

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = limits.OTHER_THREADS
        new_work, computation = Notifier(lambda: store.tell("work")), Computation(store.blobs)
        await asyncio.to_thread(computation.start)
        scheduler = RoundScheduler(store, new_work, computation, remove_leaving)
        app.state.service = Service(
            store=store,
            tokens=first_tokens,
            new_work=new_work,
            scheduler=scheduler,
            refused_requests=RefusedRequests(store),
            terms=terms,
            device_threads=anyio.CapacityLimiter(limits.DEVICE_THREADS),
            disk_threads=anyio.CapacityLimiter(limits.DISK_THREADS),
            flusher=Flusher(store.flush),
            readiness=Readiness(store),
        )

        def heard(kind: Kind) -> None:
            scheduler.wake_here()
            if kind == "work":
                new_work.notify_here()

        await asyncio.to_thread(store.join, heard)
        await asyncio.to_thread(scheduler.clean)
        moving = asyncio.create_task(scheduler.run())
        try:
            yield
        finally:
            computation.close()  # first: the scheduler's thread waits for it
            moving.cancel()
            await asyncio.wait([moving])
            await asyncio.to_thread(store.leave)
            with contextlib.suppress(StateAwayError):
                await asyncio.to_thread(store.write_seen)

    app = FastAPI(
        title="Auricle aggregator",
        version=version("auricle"),
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    http_errors.install(app, page_of)
    app.add_middleware(RequestBodies, require_known=require_known, page_of=page_of)
    app.add_middleware(Addresses)  # the last one is the first that sees a request
    for module in (*_ROUTES, *PAGES):
        app.include_router(module.router)
    return app
