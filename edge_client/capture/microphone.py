"""A microphone that is heard for years: opened by name, watched, and opened anew when it dies or falls silent.

A thread takes the sound in, resamples it to the model's rate and keeps the last seconds of it in a ring.
"""

from __future__ import annotations

import logging
import threading
import time

import numpy as np

from edge_client.audio.level import OffsetFilter
from edge_client.audio.resampling import StreamResampler
from edge_client.capture.arecord import open_arecord
from edge_client.capture.file_player import open_file
from edge_client.capture.pcm_process import PcmStream
from edge_client.capture.stream import open_stream
from edge_client.config.sections import MicrophoneConfig
from edge_client.errors import AudioError
from edge_client.logs import RateLimitedLog
from fleet_protocol.numbers.arrays import Floats

_log = logging.getLogger(__name__)

_LONGEST_PATIENCE_S = 3_600.0
_OPENERS = {"arecord": open_arecord, "file": open_file, "stream": open_stream}
_HINTS = {
    "arecord": "; is another program using it? `auricle-edge devices` lists what is there",
    "stream": "; are the address, the name and the password right, and has it sound?",
}
_HELD_S = 5.0
_POLL_S = 0.25
# A recorder is a process of its own; a busy Pi 2 takes ten seconds to start one.
_FIRST_SOUND_S = 30.0
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
# A stream that ran for so long was a good one: its end is no part of a series of failures.
_GOOD_S = 10.0
_CLOSE_S = 10.0
_WARNING_INTERVAL_S = 600.0


class SilenceWatch:
    """Measures exact digital silence, one value again and again, which no live microphone gives.

    A muted source gives it for ever, and opening it anew does not help; so every time the patience doubles, up to an
    hour, until something is heard.
    """

    def __init__(self, patience_s: float) -> None:
        self._first_patience_s = self._patience_s = patience_s
        self._silent_s = 0.0
        self._last = 0.0

    def hear(self, samples: Floats, rate_hz: int) -> None:
        """Take float32 [any]. Raises AudioError if all was one value for too long: it should be opened anew.

        That value is zero where the microphone has no offset of its own.
        """
        if not len(samples):
            return
        last, self._last = self._last, float(samples[-1])
        others = np.flatnonzero(samples != samples[-1])
        if len(others) or samples[-1] != last:
            self._patience_s, self._silent_s = self._first_patience_s, 0.0
        self._silent_s += (len(samples) - 1 - others[-1] if len(others) else len(samples)) / rate_hz
        if self._silent_s >= self._patience_s:
            silent_s, self._silent_s = self._silent_s, 0.0
            self._patience_s = max(self._first_patience_s, min(2 * self._patience_s, _LONGEST_PATIENCE_S))
            raise AudioError(
                f"nothing but {_silence(self._last)} came for {silent_s:.0f} s (is it muted? look with `alsamixer`); "
                f"more of it is borne for {self._patience_s:.0f} s"
            )


def _silence(value: float) -> str:
    return f"the value {value:.3f}" if value else "digital zeros"


class SampleRing:
    """The newest samples in order, from one thread that puts to one that takes."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._held: Floats = np.zeros(0, np.float32)
        self._closed = False
        self._changed = threading.Condition()

    def put(self, samples: Floats) -> int:
        """Append float32 [any]; return how many older samples had to go for it."""
        with self._changed:
            held = np.concatenate([self._held, samples])
            self._held = held[-self._capacity :]
            self._changed.notify()
        return len(held) - len(self._held)

    def take(self, samples: int, timeout_s: float) -> Floats:
        """Return the oldest samples: float32 [samples], fewer when the timeout ends first or no more will arrive."""
        parts, missing, deadline = [np.zeros(0, np.float32)], samples, time.monotonic() + timeout_s
        with self._changed:
            while True:
                parts.append(self._held[:missing])
                self._held = self._held[missing:]
                missing -= len(parts[-1])
                left_s = deadline - time.monotonic()
                if not missing or self._closed or left_s <= 0:
                    return np.concatenate(parts)
                self._changed.wait(left_s)

    def close(self) -> None:
        """Let nobody wait any longer."""
        with self._changed:
            self._closed = True
            self._changed.notify()


_OPPOSITE = "its channels cancel each other out (opposite phase): choose one, as by [microphone] channel = 1"


class Microphone:
    """An :class:`edge_client.capture.AudioSource`. Once open, whatever happens to the device only delays samples."""

    def __init__(self, config: MicrophoneConfig, sample_rate_hz: int, closing: threading.Event | None = None) -> None:
        """Open it. ``closing``: ends the recording, and the opening too, when another thread sets it.

        Raises AudioError if the device gives no sound, or was closed meanwhile.
        """
        self.sample_rate_hz = sample_rate_hz
        self.frames = self.overflows = self.reopened = 0
        self.lent = False
        self.trouble = ""
        self.device, self.device_rate_hz = config.device, 0
        self._config = config
        self._ring = SampleRing(round(_HELD_S * sample_rate_hz))
        self._silence = SilenceWatch(config.silent_s)
        self._trouble = RateLimitedLog(_log, _WARNING_INTERVAL_S)
        self._pause_s = _SHORTEST_PAUSE_S
        self._closing = threading.Event() if closing is None else closing
        stream = self._opened()
        self._thread = threading.Thread(target=self._run, args=(stream,), name="microphone", daemon=True)
        self._thread.start()

    def read(self, samples: int, timeout_s: float) -> Floats:
        """Return the next samples: float32 [samples] in -1..1; fewer (also none) only when the timeout ends first.

        Raises AudioError if nothing takes the sound in any more.
        """
        taken = self._ring.take(samples, timeout_s)
        if not len(taken) and not self._closing.is_set() and not self._thread.is_alive():
            raise AudioError(f"{self.device}: recording ended by a defect, which the log shows; it begins anew")
        self.frames += len(taken)
        return taken

    def close(self) -> None:
        """Stop recording; reading is over."""
        self._closing.set()
        self._ring.close()
        self._thread.join(_CLOSE_S)

    def _run(self, stream: PcmStream) -> None:
        while not self._closing.is_set():
            began = time.monotonic()
            try:
                self._take_in(stream)
            except AudioError as error:
                self.trouble = f"{self.device}: {error}"
                self._trouble.warning("%s; opening it again", self.trouble)
                if time.monotonic() - began > _GOOD_S:
                    self._pause_s = _SHORTEST_PAUSE_S
                stream.process.close()
                stream = self._opened_again() or stream
        stream.process.close()

    def _take_in(self, stream: PcmStream) -> None:
        """Put a stream's sound into the ring until the microphone is closed, or the stream ends or is silent."""
        resampler = StreamResampler(stream.rate_hz, self.sample_rate_hz)
        offset = OffsetFilter(stream.rate_hz)
        last_frame, overruns = time.monotonic(), 0
        while not self._closing.is_set():
            block = stream.read(_POLL_S)
            now = time.monotonic()
            if stream.cancels:
                self._trouble.warning("%s: %s", self.device, _OPPOSITE)
            if len(block):
                last_frame = now
                self.trouble = ""
            elif now - last_frame >= self._config.silent_s:
                raise AudioError(f"no sound came for {self._config.silent_s:g} s")
            dropped = self._ring.put(resampler.push(offset.push(block)))
            lost, overruns = stream.process.overruns - overruns + bool(dropped), stream.process.overruns
            if lost:
                self.overflows += lost
                said = "%s: sound was lost %d times so far; is the board too slow?"
                self._trouble.warning(said, self.device, self.overflows)
            if self._config.source != "stream":  # cameras that suppress noise send zeros
                self._silence.hear(block, stream.rate_hz)

    def _opened_again(self) -> PcmStream | None:
        """Open the stream anew, after growing pauses while it fails; None when the microphone was closed meanwhile."""
        while not self._closing.wait(self._pause_s):
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
            try:
                stream = self._opened()
            except AudioError as error:
                self.trouble = str(error)
                self._trouble.warning("cannot open the microphone again, will keep trying: %s", error)
            else:
                self.reopened += 1
                return stream
        return None

    def _opened(self) -> PcmStream:
        stream = _OPENERS[self._config.source](self._config, self.sample_rate_hz, self._closing)
        try:
            stream.process.wait(_FIRST_SOUND_S, self._closing)
        except AudioError as error:
            stream.process.close()
            if (hint := _HINTS.get(self._config.source)) is None:
                raise
            raise AudioError(f"cannot record from {stream.device!r}: {error}{hint}") from error
        self.device, self.device_rate_hz = stream.device, stream.rate_hz
        if stream.rate_hz < self.sample_rate_hz:
            said = "%s records at %d Hz, and the model hears at %d Hz: high sounds are missing; take another microphone"
            _log.warning(said, stream.device, stream.rate_hz, self.sample_rate_hz)
        _log.info("recording from %s at %d Hz, %d channels", stream.device, stream.rate_hz, stream.channels)
        return stream
