"""The FastAPI application: routes over a store, a scheduler that moves rounds, and one shape for every error."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from importlib.metadata import version

import anyio.to_thread
from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from aggregator_server.rounds.computation import Computation
from aggregator_server.rounds.notifier import Notifier
from aggregator_server.rounds.retention import remove_left_uploads
from aggregator_server.rounds.scheduler import RoundScheduler
from aggregator_server.security import Tokens
from aggregator_server.store import Store
from aggregator_server.store.database import CONNECTIONS
from aggregator_server.web import http_errors
from aggregator_server.web.docs_page import render
from aggregator_server.web.guard import Guard
from aggregator_server.web.intake import Intake
from aggregator_server.web.routes import (
    audit,
    blobs,
    classes,
    devices,
    health,
    invitations,
    model,
    public_set,
    rounds,
    tokens,
    uploads,
    work,
)
from aggregator_server.web.routes.access import require_known
from aggregator_server.web.service import Service, Terms

_ROUTES = (
    health, devices, invitations, tokens, public_set, model, blobs, work, uploads, rounds, classes, audit,
)  # fmt: skip
_DESCRIPTION = (
    "Combines what devices learned about sounds, without their audio. Every error, that of an unknown address (404) "
    "or method (405) included, is an ErrorReply: {\"error\": {\"code\", \"message\"}} with a stable code."
)  # fmt: skip


def create_app(store: Store, first_tokens: Tokens, terms: Terms | None = None) -> FastAPI:
    """Return the server's application; the store stays the caller's, to close."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # More threads than connections to the database would only wait for one another.
        anyio.to_thread.current_default_thread_limiter().total_tokens = CONNECTIONS - 2
        new_work = Notifier()
        computation = Computation(store.blobs)
        scheduler = RoundScheduler(store, new_work, computation)
        app.state.service = Service(
            store, first_tokens, new_work, scheduler, computation, Guard(store), terms or Terms()
        )
        await asyncio.to_thread(remove_left_uploads, store)
        moving = asyncio.create_task(scheduler.run())
        try:
            yield
        finally:
            computation.close()  # first: the scheduler's thread waits for it
            moving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await moving

    app = FastAPI(
        title="Auricle aggregator",
        version=version("auricle"),
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    http_errors.install(app)
    app.add_middleware(Intake, require_known=require_known)
    for module in _ROUTES:
        app.include_router(module.router)

    @app.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    def docs() -> str:
        return render(app.openapi())

    return app
