"""A server behind nginx, by the configuration that comes with the aggregator."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.proxy import proxied
from tests.support.aggregator_process import Aggregator


@contextmanager
def behind_proxy(server: Aggregator, *, tls: bool = False, **changes: str) -> Iterator[Aggregator]:
    """Start a server and nginx before it, whose address it has meanwhile; ``changes`` are values of directives."""
    if shutil.which("nginx", path="/usr/sbin:/usr/bin") is None:
        pytest.skip("nginx is not installed (Debian: apt-get install nginx-light)")
    server.options += ("--behind-proxy", "127.0.0.1", *(("--tls", "proxy") if tls else ()))
    server.start()
    certificate = server.data / "tls" / "server.pem" if tls else None
    try:
        with proxied(server.data.with_name(f"{server.data.name}-proxy"), [server.url], certificate, **changes) as url:
            server.url = url
            yield server
    finally:
        server.__exit__()
