"""The FastAPI application: routes over a store, a scheduler that moves rounds, and one shape for every error."""

import asyncio
import base64
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader

from aggregator_server import limits
from aggregator_server.rounds.computation import Computation
from aggregator_server.rounds.queries import write_seen
from aggregator_server.rounds.scheduler import Notifier, RoundScheduler
from aggregator_server.security import Tokens
from aggregator_server.store import Store
from aggregator_server.store.servers import Kind
from aggregator_server.web import http_errors
from aggregator_server.web.dashboard import classes as class_pages
from aggregator_server.web.dashboard import fleet, invitations, live, open_pages, overview
from aggregator_server.web.dashboard import rounds as round_pages
from aggregator_server.web.dashboard.rendering import HEADERS, page_of
from aggregator_server.web.guard import Guard
from aggregator_server.web.intake import Addresses, Intake
from aggregator_server.web.metrics import Metrics
from aggregator_server.web.routes import blobs, classes, devices, health, publications, rounds, tokens, uploads, work
from aggregator_server.web.routes.access import require_known
from aggregator_server.web.service import Flusher, Readiness, Service, Terms

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "code,pre{font-family:ui-monospace,monospace;background:#f3f3f3}pre{padding:.6rem;overflow:auto}"
    "summary{cursor:pointer;padding:.3rem 0}table{border-collapse:collapse}"
    "td,th{border:1px solid #ccc;padding:.2rem .6rem;text-align:left;vertical-align:top}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a browser may load for the page: nothing but the style within it."""


def render(schema: dict[str, Any]) -> str:
    """Return the page for an OpenAPI schema."""
    loader = FileSystemLoader(Path(__file__).parent / "templates")
    template = Environment(loader=loader, autoescape=True, trim_blocks=True).get_template("docs.html")
    return template.render(schema, style=_STYLE, to_json=partial(json.dumps, indent=1))


# A request is compared with one after the other: those that a whole fleet sends come first.
_ROUTES = (work, uploads, blobs, health, devices, tokens, publications, rounds, classes)
PAGES = (live, open_pages, overview, fleet, round_pages, class_pages, invitations)
_DESCRIPTION = (
    "Combines what devices learned about sounds, without their audio. Every error, that of an unknown address (404) "
    'or method (405) included, is an ErrorReply: {"error": {"code", "message"}} with a stable code.'
)


def create_app(
    store: Store, first_tokens: Tokens, terms: Terms | None = None, docs_url: str | None = None, root_path: str = ""
) -> FastAPI:
    """Return the server's application; the store stays the caller's, to close.

    Args:
        first_tokens: Tokens of ``tokens.json`` or the environment.
        docs_url: where the documentation's site is, for the pages' links of help; None: at this server itself.
        root_path: path that the server stands below, like ``/auricle``; "": it has a host of its own.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = limits.OTHER_THREADS
        new_work, computation = Notifier(lambda: store.tell("work")), Computation(store.blobs)
        await asyncio.to_thread(computation.start)
        scheduler = RoundScheduler(store, new_work, computation)
        guard = Guard(store)
        app.state.service = Service(
            store=store,
            tokens=first_tokens,
            new_work=new_work,
            scheduler=scheduler,
            compute=computation,
            guard=guard,
            terms=terms or Terms(),
            device_threads=anyio.CapacityLimiter(limits.DEVICE_THREADS),
            disk_threads=anyio.CapacityLimiter(limits.DISK_THREADS),
            flusher=Flusher(store.flush),
            readiness=Readiness(store),
            metrics=Metrics(store),
        )
        app.state.streams = live.Streams()

        def heard(kind: Kind) -> None:
            scheduler.wake_here()
            if kind == "work":
                new_work.notify_here()

        await asyncio.to_thread(store.join, heard)
        await asyncio.to_thread(scheduler.clean)
        tasks = [asyncio.create_task(scheduler.run()), asyncio.create_task(guard.run())]
        try:
            yield
        finally:
            computation.close()  # first: the scheduler's thread waits for it
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await asyncio.to_thread(store.leave)
            await asyncio.to_thread(write_seen, store)
            await asyncio.to_thread(guard.note_more, ends=True)

    app = FastAPI(
        title="Auricle aggregator",
        version=version("auricle"),
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        servers=[{"url": root_path}] if root_path else None,
    )
    app.state.docs_url, app.state.root_path = docs_url, root_path
    http_errors.install(app, page_of)
    app.add_middleware(Intake, require_known=require_known, page_of=page_of)
    app.add_middleware(Addresses, root_path=root_path)  # the last one is the first that sees a request
    for module in (*_ROUTES, *PAGES):
        app.include_router(module.router)

    @app.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    def docs() -> HTMLResponse:
        return HTMLResponse(render(app.openapi()), headers=HEADERS | {"Content-Security-Policy": POLICY})

    return app
