"""Speaks to a running server as a person does: JSON over HTTP."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aggregator_server.errors import AggregatorError, ServerError
from fleet_protocol.ground.addresses import address_problem, without_password

if TYPE_CHECKING:
    import httpx

_TIMEOUT_S = 60.0


class Client:
    """A server's address and a person's token; every request opens a connection of its own."""

    def __init__(self, url: str, token: str, authority: Path | None = None) -> None:
        """Prepare; nothing is sent yet.

        ``authority``: certificate (PEM) that vouches for the server; None: the system's authorities. Raises
        AggregatorError: the address is none, or the authority cannot be used.
        """
        if problem := address_problem(url):
            raise AggregatorError(f"--url must look like http://host:port; {without_password(url)!r} {problem}")
        self.url = url
        self._head = {"Authorization": f"Bearer {token}"} if token else {}  # anybody may ask for its health
        self._tls: ssl.SSLContext | bool = _trust(authority) if url.startswith("https:") else False

    def get(self, path: str, **query: object) -> Any:  # noqa: ANN401  (whatever JSON says)
        """Return the answer to ``GET``; ``query`` stands behind ``?``. Raises ServerError: none, or a refusal."""
        return self._ask("GET", path, params=query)

    def send(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401
        """Send JSON or nothing; return the answer, None if it is empty. Raises ServerError: none, or a refusal."""
        return self._ask(method, path, json=document)

    def put(self, path: str, body: bytes, **query: object) -> Any:  # noqa: ANN401
        """Send bytes; return the answer. Raises ServerError: the server does not answer, or says no."""
        return self._ask("PUT", path, params=query, content=body)

    def _ask(self, method: str, path: str, params: Mapping[str, object] | None = None, **body: Any) -> Any:  # noqa: ANN401
        import httpx  # here: `--help` needs no extra

        given = {name: str(value) for name, value in (params or {}).items() if value is not None}
        address = f"{self.url.rstrip('/')}{path}"
        try:
            # Proxies of the environment are for the way out of a network; a fleet's server is within it.
            with httpx.Client(verify=self._tls, timeout=_TIMEOUT_S, headers=self._head, trust_env=False) as client:
                answer = client.request(method, address, params=given or None, **body)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise ServerError(f"{self.url} does not answer: {error or type(error).__name__}") from error
        if not answer.is_success:
            raise _refusal(self.url, answer)
        try:
            return answer.json() if answer.content else None
        except ValueError as error:
            raise ServerError(f"{self.url} answers what no aggregator would; check the address") from error


def _trust(authority: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise AggregatorError(f"--authority {authority} cannot be used: {error}") from error


def _refusal(url: str, answer: httpx.Response) -> ServerError:
    status = answer.status_code
    try:
        found = answer.json()["error"]
        return ServerError(f"{found['message']} ({status} {found['code']})")
    except (ValueError, KeyError, TypeError):
        return ServerError(f"{url} answers {status}, and not as an aggregator does; check the address")
