"""The WebSocket of Home Assistant (RFC 6455, no extensions): commands, their answers, and what happens meanwhile."""

import base64
import itertools
import json
import os
import queue
import socket
import threading
from collections import defaultdict
from typing import Any

_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10
_PATIENCE_S = 120.0


class WebSocket:
    """One connection, signed in. ``changes`` are the states that entities took, as (entity, state)."""

    def __init__(self, port: int, token: str) -> None:
        """Connect, and listen for states. Raises OSError."""
        self.changes: list[tuple[str, str]] = []
        self._ids, self._sending = itertools.count(1), threading.Lock()
        self._told: defaultdict[int, queue.Queue[dict[str, Any]]] = defaultdict(queue.Queue)
        self._socket = socket.create_connection(("127.0.0.1", port), _PATIENCE_S)
        key = base64.b64encode(os.urandom(16)).decode()
        head = ["GET /api/websocket HTTP/1.1", f"Host: 127.0.0.1:{port}", "Upgrade: websocket", "Connection: Upgrade"]
        head += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
        self._socket.sendall("\r\n".join([*head, "", ""]).encode())
        self._file = self._socket.makefile("rb")
        while self._file.readline().strip():
            pass
        self._socket.settimeout(None)
        self._read()  # "auth_required"
        self._send(_TEXT, json.dumps({"type": "auth", "access_token": token}).encode())
        self._read()
        threading.Thread(target=self._listen, daemon=True).start()
        self.states = self.ask("subscribe_events", event_type="state_changed")

    def ask(self, kind: str, **fields: object) -> Any:
        """Give a command; return its result. Raises RuntimeError if it is refused."""
        return self.begin(kind, **fields)[1]

    def begin(self, kind: str, **fields: object) -> tuple[int, Any]:
        """Give a command; return its number, by which :meth:`event` tells what it brings, and its result."""
        number = next(self._ids)
        self._send(_TEXT, json.dumps({"id": number, "type": kind, **fields}).encode())
        answer = self._told[number].get(timeout=_PATIENCE_S)
        if not answer["success"]:
            raise RuntimeError(f"{kind}: {answer['error']}")
        return number, answer["result"]

    def event(self, number: int) -> dict[str, Any]:
        """Return the next event of a command. Raises queue.Empty if none comes."""
        event: dict[str, Any] = self._told[number].get(timeout=_PATIENCE_S)["event"]
        return event

    def send_binary(self, data: bytes) -> None:
        """Send bytes, the first of which says to what they belong."""
        self._send(_BINARY, data)

    def close(self) -> None:
        """End it."""
        self._socket.close()

    def _listen(self) -> None:
        try:
            while message := self._read():
                if message["type"] == "event" and message["event"].get("event_type") == "state_changed":
                    state = message["event"]["data"]["new_state"]
                    if state is not None:
                        self.changes.append((state["entity_id"], state["state"]))
                elif "id" in message:
                    self._told[message["id"]].put(message)
        except (OSError, ValueError):
            pass  # Home Assistant went, or this was closed

    def _read(self) -> dict[str, Any]:
        """Return the next message, {} at the end."""
        whole = b""
        while head := self._file.read(2):
            size = head[1] & 0x7F
            if size >= 126:
                size = int.from_bytes(self._file.read(2 if size == 126 else 8), "big")
            data, kind = self._file.read(size), head[0] & 0xF
            if kind == _CLOSE:
                break
            if kind == _PING:
                self._send(_PONG, data)
                continue
            whole += data
            if head[0] & 0x80:
                message: dict[str, Any] = json.loads(whole)
                return message
        return {}

    def _send(self, kind: int, data: bytes) -> None:
        size = len(data)
        length = bytes([0x80 | size]) if size < 126 else bytes([0x80 | 126]) + size.to_bytes(2, "big")
        with self._sending:
            self._socket.sendall(bytes([0x80 | kind]) + length + bytes(4) + data)  # masked with zeros: as it is
