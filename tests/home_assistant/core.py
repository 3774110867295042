"""Home Assistant itself, as a process, with what its owner sets up through its own interface."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx

from tests.home_assistant.environment import Environment
from tests.home_assistant.web_socket import WebSocket
from tests.support.checkout import ROOT
from tests.support.desk import free_port
from tests.support.edge_process import wait_for

BLUEPRINTS = ROOT / "examples" / "home_assistant"
_SETTINGS = """\
homeassistant: {{}}
http: {{server_host: 127.0.0.1, server_port: {port}}}
onboarding:
config:
conversation:
counter: {{heard: }}
automation: !include automations.yaml
"""
# What the owner makes of both blueprints, for a device called "shelf".
AUTOMATIONS = """\
- id: heard
  use_blueprint:
    path: auricle/when_a_sound_is_heard.yaml
    input:
      device_sound: event.shelf_sound
      label: doorbell
      actions: [{action: counter.increment, target: {entity_id: counter.heard}}]
- id: asks
  use_blueprint:
    path: auricle/when_it_asks.yaml
    input: {device_asks: event.shelf_asks, notify: notify.persistent_notification}
"""
_ABOUT_US = re.compile(r"auricle|shelf|wyoming", re.IGNORECASE)


def write_settings(folder: Path, port: int) -> None:
    """Write Home Assistant's configuration into a new folder."""
    blueprints = folder / "blueprints" / "automation" / "auricle"
    shutil.copytree(BLUEPRINTS, blueprints)
    (folder / "configuration.yaml").write_text(_SETTINGS.format(port=port))
    (folder / "automations.yaml").write_text(AUTOMATIONS)


def complaints(log: str) -> list[str]:
    """Return what a log of Home Assistant's warns of that is about the device or its voice."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", log).splitlines()
    return [line for line in lines if re.search(r" (WARNING|ERROR|CRITICAL) ", line) and _ABOUT_US.search(line)]


class HomeAssistant:
    """One with its owner, in a folder of the environment."""

    def __init__(self, environment: Environment, log: Path) -> None:
        """Write its configuration; what it logs goes into a file."""
        self.port, self._environment, self._log = free_port(), environment, log
        self._process: subprocess.Popen[bytes] | None = None
        self._token = ""
        folder = environment.outside("config")
        shutil.rmtree(folder, ignore_errors=True)
        write_settings(folder, self.port)
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=120.0, trust_env=False)

    def start(self) -> None:
        """Start it, make its owner the first time, and wait until all is set up."""
        words = ("python", "-m", "homeassistant", "--skip-pip", "--config", self._environment.place / "config")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._environment.command(*words), stdout=log, stderr=log)
        wait_for(self._answers, 300, "Home Assistant's start")
        if not self._token:
            self._make_owner()
        self.socket = WebSocket(self.port, self._token)
        wait_for(lambda: self.request("GET", "config")["state"] == "RUNNING", 300, "all of Home Assistant")

    def stop(self) -> None:
        """Have it stop as its owner does."""
        assert self._process is not None
        self.request("POST", "services/homeassistant/stop", {})
        self._process.wait(180)
        self.socket.close()

    def kill(self) -> None:
        """End it, however it is."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Ask its interface. Raises AssertionError if it refuses."""
        reply = self._client.request(method, f"/api/{path}", json=body)
        assert reply.is_success, f"{path}: {reply.status_code} {reply.text}"
        return reply.json()

    def add(self, integration: str, **fields: object) -> dict[str, Any]:
        """Add an integration as its owner does; return its entry. Raises AssertionError if that is refused."""
        flow = self.request("POST", "config/config_entries/flow", {"handler": integration})
        done = self.request("POST", f"config/config_entries/flow/{flow['flow_id']}", fields)
        assert done["type"] == "create_entry", done
        entry: dict[str, Any] = done["result"]
        return entry

    def entry(self, entry_id: str) -> dict[str, Any]:
        """Return what is known of an integration's entry, by its identifier."""
        entries = self.request("GET", "config/config_entries/entry")
        return next(one for one in entries if one["entry_id"] == entry_id)

    def states(self) -> dict[str, dict[str, Any]]:
        """Return all entities with state and attributes."""
        return {one["entity_id"]: one for one in self.request("GET", "states")}

    def state(self, entity: str) -> str:
        """Return an entity's state, "" where there is none."""
        return str(self.states().get(entity, {}).get("state", ""))

    def sensors(self) -> dict[str, str]:
        """Return the device's sensors of sounds, by the names that the device gave them: their entities."""
        registry = self.socket.ask("config/entity_registry/list")
        return {
            one["original_name"]: one["entity_id"]
            for one in registry
            if one["platform"] == "mqtt" and "_label_" in one["unique_id"]
        }

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"Home Assistant ended: {self._log}"
        try:
            return self._client.get("/api/onboarding").status_code in (200, 404)
        except httpx.TransportError:
            return False

    def _make_owner(self) -> None:
        us = f"http://127.0.0.1:{self.port}/"
        user = {"name": "Owner", "username": "owner", "password": "owner's own", "client_id": us, "language": "en"}
        code = self.request("POST", "onboarding/users", user)["auth_code"]
        grant = {"grant_type": "authorization_code", "code": code, "client_id": us}
        socket = WebSocket(self.port, self._client.post("/auth/token", data=grant).json()["access_token"])
        self._token = socket.ask("auth/long_lived_access_token", client_name="tests", lifespan=1)
        socket.close()
        self._client.headers["Authorization"] = f"Bearer {self._token}"
