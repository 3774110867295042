"""What the app asks Home Assistant's Supervisor: which MQTT broker there is, and to offer the wake words."""

from __future__ import annotations

from typing import Any

import httpx

_MQTT = ("host", "port", "username", "password")


class Supervisor:
    """Home Assistant's Supervisor, whose address and token every app gets."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(base_url=url, headers=headers, timeout=10, trust_env=False)

    def broker(self) -> dict[str, Any]:
        """Return Home Assistant's MQTT broker as keys of ``[mqtt]``. Raises ValueError if there is none."""
        found = self._ask("GET", "/services/mqtt")
        section = {key: found[key] for key in _MQTT if found.get(key)}
        if "host" not in section:
            raise ValueError(f"/services/mqtt names no host: {sorted(found)}")
        return section | ({"tls": True} if found.get("ssl") else {})

    def offer(self, uri: str) -> str:
        """Have Home Assistant offer the wake words at an address to its owner; return the offer's number."""
        return str(self._ask("POST", "/discovery", {"service": "wyoming", "config": {"uri": uri}})["uuid"])

    def take_back(self, number: str) -> None:
        """Take an offer back."""
        self._ask("DELETE", f"/discovery/{number}")

    def _ask(self, method: str, path: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer's data. Raises ValueError with what the Supervisor said, or why it was not reached."""
        try:
            answer = self._client.request(method, path, json=document)
            said = answer.json()
            if answer.is_success and said["result"] == "ok":
                return dict(said.get("data") or {})
            raise ValueError(f"{path}: {said['message']}")
        except (httpx.HTTPError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: {type(error).__name__} {error}") from error
