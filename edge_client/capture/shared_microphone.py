"""One microphone for the daemon and for `auricle-edge record`: the daemon lends it while the owner records.

Sound hardware often lets a single process record. Two locks settle whose turn it is: a recorder holds `record.lock` for
as long as it wants the microphone, and whoever has the microphone open holds `microphone.lock`. The kernel frees both
when their holder dies, so neither side can lock the other out.

While the device is paused, nobody has it: what records is closed, and ends.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from edge_client.capture import AudioSource
from edge_client.errors import AudioError, BusyError
from edge_client.storage.locks import is_locked, take_lock
from fleet_protocol.numbers.arrays import Floats

_log = logging.getLogger(__name__)

_RECORDER, _HOLDER = "record.lock", "microphone.lock"
# A listener checks the locks at every read, at least twice a second; closing a stuck device may take longer.
_PATIENCE_S = 20.0
_POLL_S = 0.1


@contextmanager
def borrowed_microphone(state: Path, patience_s: float = _PATIENCE_S) -> Iterator[None]:
    """Have the microphone to oneself, as a recorder. Raises BusyError if that is not so within ``patience_s``."""
    wanted = take_lock(state / _RECORDER, 1.0)
    if wanted is None:
        raise BusyError("another `auricle-edge record` is using the microphone; wait for it to end")
    try:
        held = take_lock(state / _HOLDER, patience_s)
        if held is None:
            raise BusyError(
                f"the daemon did not hand over the microphone within {patience_s:g} s; "
                "stop it (systemctl stop auricle-edge) and try again, or name sounds that it heard: auricle-edge label"
            )
        try:
            yield
        finally:
            os.close(held)
    finally:
        os.close(wanted)


def is_free(state: Path) -> bool:
    """Return whether neither the daemon nor a recorder has the first microphone open."""
    return not is_locked(state / _HOLDER)


class LentMicrophone:
    """An :class:`edge_client.capture.AudioSource` for the daemon: lent to recorders, and closed while it is paused.

    ``open``: whether it records, or is about to.
    """

    def __init__(
        self,
        open_source: Callable[[threading.Event], AudioSource],
        sample_rate_hz: int,
        state: Path | None,
        paused: Callable[[], bool] = bool,
    ) -> None:
        """Prepare; the first read opens it.

        Args:
            open_source: Opens it, or gives that up where another thread sets the event, which closes it later, too.
            sample_rate_hz: Of what it gives.
            state: State folder, in which the locks are; None: recorders use another input.
            paused: Says whether the device is paused.
        """
        self.sample_rate_hz = sample_rate_hz
        self.frames = self.overflows = self.reopened = 0
        self.open, self.lent, self.trouble = False, False, ""
        self._open_source, self._state, self._paused = open_source, state, paused
        self._source: AudioSource | None = None
        self._ending = threading.Event()
        self._held: int | None = None
        self._before = (0, 0)  # what former sources lost, and how often they were opened anew

    def read(self, samples: int, timeout_s: float) -> Floats:
        """Return float32 [samples] in -1..1; fewer at the timeout, none while lent or paused.

        Raises AudioError if none opens.
        """
        if self._paused():
            self.close()
        elif self._state is not None and is_locked(self._state / _RECORDER):
            if not self.lent:
                _log.info("lending the microphone to a recorder")
            self.lent = True
            self.close()
        elif self._source is None:
            self.begin()
        if self._source is None:
            time.sleep(min(timeout_s, _POLL_S))
            return np.zeros(0, np.float32)
        taken = self._source.read(samples, timeout_s)
        self.frames += len(taken)
        self._count(self._source)
        return taken

    def _count(self, source: AudioSource) -> None:
        lost, reopened = self._before
        self.overflows, self.reopened = lost + source.overflows, reopened + source.reopened
        self.trouble = source.trouble

    def close(self) -> None:
        """Let go of the microphone; the next read opens it again."""
        if self._source is not None:
            self._count(self._source)
            self._before, self.trouble = (self.overflows, self.reopened), ""
            source, self._source = self._source, None
            source.close()
        if self._held is not None:
            os.close(self._held)
            self._held = None
        self.open = False

    def end(self) -> None:
        """Have it closed by the thread that reads, at once, also while it is being opened; for a device in a pause."""
        self._ending.set()

    def begin(self) -> None:
        """Open the microphone, unless the device is paused, or a recorder has it. Raises AudioError if it cannot be."""
        # In this order: whoever pauses the device first says so, and then looks whether it is open, and ends it.
        self.open, self._ending = True, threading.Event()
        try:
            if self._paused() or not self._take_turn():
                return
            self._source = self._open_source(self._ending)
        except AudioError:
            if not self._paused():
                raise
        finally:
            if self._source is None:
                self.close()
        if self._source is not None:
            if self.lent:
                _log.info("took the microphone back")
            self.lent = False

    def _take_turn(self) -> bool:
        """Return whether no recorder has it: one may be about to close it."""
        if self._state is not None:
            self._held = take_lock(self._state / _HOLDER)
        return self._state is None or self._held is not None
