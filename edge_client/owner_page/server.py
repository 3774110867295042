"""The page's process: a socket, uvicorn by its public options, and a clean end.

Connections that say nothing keep their places: who lets others in the network open the page without a proxy trusts them
(docs/security.md).
"""

from __future__ import annotations

import logging
import signal
import socket
import sys
from pathlib import Path

import uvicorn

from edge_client.config import Config
from edge_client.logs import set_up_log
from edge_client.owner_page.access import Access, page_token, require_allowed
from edge_client.owner_page.app import create_app

# Open connections; each page that is open has one, and a browser opens a few more. Beyond them the answer is 503.
_CONNECTIONS = 256
_HEAD_BYTES = 16 * 2**10  # of a request's line and headers
_GRACE_S = 2


class _Server(uvicorn.Server):
    """Ends although pages are open: their streams would go on for ever."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # of streams that are cut off
        await super().shutdown(sockets)


def serve(config_path: Path, config: Config, *, new_token: bool = False, offers: Path | None = None) -> int:
    """Serve the owner's page until SIGTERM or SIGINT; return the exit status. ``offers``: of :class:`OfferingPage`.

    Raises ConfigError if the page would be reachable from elsewhere, and nobody said so; OSError if the address cannot
    be listened on, or the state folder belongs to another user.
    """
    set_up_log()
    require_allowed(config.ui)
    listener = _listen(config.ui.host, config.ui.port)
    # Only now: a page that cannot be served signs nobody out.
    access = Access.of(config.ui, page_token(config.device.state, new=new_token))
    host = f"[{config.ui.host}]" if ":" in config.ui.host else config.ui.host
    print(f"the owner's page: http://{host}:{listener.getsockname()[1]}/", flush=True)
    if access.sign_in:
        print(f"its token: {access.token}", flush=True)
    server = _Server(
        uvicorn.Config(
            create_app(config_path, config, access, offers),
            http="h11",
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_CONNECTIONS,
            h11_max_incomplete_event_size=_HEAD_BYTES,
            timeout_graceful_shutdown=_GRACE_S,
        )
    )
    # It would warn of each request that is none, of which anybody can send any number.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))  # the server sends itself the signal again when it has ended
    server.run([listener])
    return 0


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise OSError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another by --port, or end what "
            "listens there"
        ) from error
