"""Speaks to a running server as a person does: JSON over HTTP, with the standard library alone."""

import http.client
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from aggregator_server.errors import AggregatorError, ServerError

_TIMEOUT_S = 60.0


class Client:
    """A server's address and a person's token; every request opens a connection of its own."""

    def __init__(self, url: str, token: str, authority: Path | None = None) -> None:
        """Prepare; nothing is sent yet.

        Args:
            url: address of the server, such as ``http://127.0.0.1:8470``.
            authority: certificate (PEM) that vouches for the server; None: the system's authorities.

        Raises:
            AggregatorError: the address is none, or the authority cannot be used.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:  # the port is no number, or above 65535
            raise AggregatorError(f"--url = {url!r} is no address: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise AggregatorError(f"--url must look like http://host:port, not {url!r}")
        self.url = url
        self._host, self._port, self._prefix = parts.hostname, port, parts.path.rstrip("/")
        self._token = token
        self._tls = _trust(authority) if parts.scheme == "https" else None

    def get(self, path: str, **query: object) -> Any:  # noqa: ANN401  (whatever JSON says)
        """Return the answer to ``GET``; ``query`` becomes the address' part behind ``?``.

        Raises:
            ServerError: the server does not answer, or says no.
        """
        given = {name: value for name, value in query.items() if value is not None}
        return self._ask("GET", f"{path}?{urlencode(given)}" if given else path, None, {})

    def send(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401
        """Send a JSON document, or nothing; return the answer, None where it is empty.

        Raises:
            ServerError: the server does not answer, or says no.
        """
        body = None if document is None else json.dumps(document).encode()
        return self._ask(method, path, body, {} if body is None else {"Content-Type": "application/json"})

    def put(self, path: str, body: bytes, **query: object) -> Any:  # noqa: ANN401
        """Send bytes; return the answer. Raises ServerError: the server does not answer, or says no."""
        address = f"{path}?{urlencode(query)}" if query else path
        return self._ask("PUT", address, body, {"Content-Type": "application/octet-stream"})

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Any:  # noqa: ANN401
        connection = self._connection()
        try:
            headers = headers | {"Authorization": f"Bearer {self._token}"}
            connection.request(method, f"{self._prefix}{path}", body, headers)
            response = connection.getresponse()
            status, content = response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ServerError(f"{self.url} does not answer: {error or type(error).__name__}") from error
        finally:
            connection.close()
        if 200 <= status < 300:
            return self._parsed(content) if content else None
        raise _refusal(self.url, status, content)

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_S)
        return http.client.HTTPSConnection(self._host, self._port, timeout=_TIMEOUT_S, context=self._tls)

    def _parsed(self, content: bytes) -> Any:  # noqa: ANN401
        try:
            return json.loads(content)
        except ValueError as error:
            raise ServerError(f"{self.url} answers what no aggregator would; check the address") from error


def part(text: str) -> str:
    """Return a text as one part of an address, such as a class' identifier."""
    return quote(text, safe="")


def _trust(authority: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise AggregatorError(f"--authority {authority} cannot be used: {error}") from error


def _refusal(url: str, status: int, content: bytes) -> ServerError:
    try:
        found = json.loads(content)["error"]
        message, code = str(found["message"]), str(found["code"])
        return ServerError(f"{message} ({status} {code})", status, code)
    except (ValueError, KeyError, TypeError):
        return ServerError(f"{url} answers {status}, and not as an aggregator does; check the address", status)
