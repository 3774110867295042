"""Holds the daemon to the pauses of ``edge_client/pauses.py``: its inputs are closed in one, and opened after it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from edge_client.capture.shared_microphone import LentMicrophone, is_free
from edge_client.errors import StateError
from edge_client.events import Switch
from edge_client.pauses import Pause, Pauses
from edge_client.storage.device_state import DeviceState

log = logging.getLogger(__name__)

# What is measured anew differs by a little each time.
_SAME_S = 2.0


class PauseWatch:
    """Whether the device is paused now, for every thread; :meth:`follow` looks for what changed.

    ``pause``: why it does not listen; None: it does.
    """

    def __init__(self, state: DeviceState, pauses: Pauses) -> None:
        """Read whether the device is paused: until that is known, nothing may be opened. Raises StateError, OSError."""
        self._state, self._pauses = state, pauses
        self._inputs: dict[str, LentMicrophone] = {}
        self._lock = threading.Lock()
        self._awake, self._news, self._closed = 0.0, True, False
        self.pause = pauses.current()
        if self.pause is not None:
            log.info("paused %s: nothing is recorded", self.pause.words)
        try:
            pauses.settle()
        except (StateError, OSError) as error:  # as on a full disk: it is measured by the time of the day
            log.warning("cannot note for how long the device is paused: %s", error)

    @contextmanager
    def watching(self, name: str, source: LentMicrophone) -> Iterator[None]:
        """Close an input in a pause, while the body goes on."""
        self._inputs[name] = source
        try:
            yield
        finally:
            del self._inputs[name]

    def is_paused(self) -> bool:
        """Return whether nothing may record."""
        return self.pause is not None

    def switch(self, switch: Switch) -> Pause | None:
        """Do what somebody switched in Home Assistant, at once; return how it is now. Raises StateError, OSError."""
        if switch.on:
            self._pauses.pause("Home Assistant", switch.for_s)
        else:
            self._pauses.resume()
        self.follow()
        return self.pause

    def follow(self) -> None:
        """Take up what the owner or the hours changed. Raises StateError, OSError, and then all is as it was."""
        with self._lock:
            found = self._pauses.current()
            if not _is_same(self.pause, found):
                self._take_up(found)
            if (closed := self._is_closed()) != self._closed:
                self._closed, self._news = closed, True

    def take_news(self) -> bool:
        """Return, once, whether something of a pause changed since this was last asked."""
        with self._lock:
            news, self._news = self._news, False
        return news

    @property
    def awake_since(self) -> float:
        """When the last pause ended, s since 1970; 0 where there was none."""
        return time.time() - (time.monotonic() - self._awake) if self._awake else 0.0

    def status(self) -> dict[str, Any] | None:
        """Return what the status says of the pause, and whether all is ``closed`` by now; None where there is none."""
        pause = self.pause
        return None if pause is None else pause.to_json() | {"closed": self._is_closed()}

    def _take_up(self, found: Pause | None) -> None:
        before, self.pause, self._news = self.pause, found, True
        if found is not None:
            for source in tuple(self._inputs.values()):
                source.end()
            log.info("paused %s: nothing is recorded", found.words)
        elif before is not None:
            self._awake = time.monotonic()
            log.info("the pause is over: it listens again")

    def _is_closed(self) -> bool:
        still_open = any(source.open for source in tuple(self._inputs.values()))
        return self.pause is not None and not still_open and is_free(self._state.folder)


def _is_same(told: Pause | None, found: Pause | None) -> bool:
    if told is None or found is None:
        return told is found
    return told.by == found.by and _is_near(told.since, found.since) and _is_near(told.until, found.until)


def _is_near(told: float | None, found: float | None) -> bool:
    return told is found if told is None or found is None else abs(told - found) < _SAME_S
