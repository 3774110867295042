"""Recordings in the place of a microphone, to try or to test a device: a process plays them at the pace of real time.

``python -m edge_client.capture.file_player PATH RATE repeat|once`` writes raw 16-bit frames, as a recorder does. After
the last recording it begins again, or gives the silence of a quiet room.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from edge_client.audio.recordings import FORMATS, blocks, duration_s, is_recording, odd_ones
from edge_client.audio.resampling import StreamResampler
from edge_client.capture.pcm_process import PcmProcess, PcmStream
from edge_client.config.sections import MicrophoneConfig
from edge_client.errors import AudioError, RecordingError
from fleet_protocol.ground.own_python import python
from fleet_protocol.numbers.arrays import Floats

_PROGRAM = "edge_client.capture.file_player"
_GAP_S = 1.0
_BLOCK_S = 0.05
# A process that was halted for longer continues from there, instead of hurrying after the clock.
_LATE_S = 1.0
_FULL_SCALE = 32_768

_log = logging.getLogger(__name__)


def open_file(config: MicrophoneConfig, model_hz: int, cancelled: threading.Event) -> PcmStream:  # noqa: ARG001
    """Begin to play the configured recordings, at the model's rate unless one is set. Raises as :func:`playable`."""
    assert config.file is not None
    playable(config.file, _log)
    rate_hz = config.rate_hz or model_hz
    repeat = "repeat" if config.repeat else "once"
    process = PcmProcess("the recordings", python(_PROGRAM, config.file, rate_hz, repeat))
    return PcmStream(process, str(config.file), rate_hz, channels=1)


def main(arguments: Sequence[str]) -> int:
    """Play until nobody reads any more; return the exit status, with the reason of a failure on standard error."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    path, rate_hz, repeat = arguments
    try:
        _play(Path(path), int(rate_hz), repeat=repeat == "repeat")
    except (AudioError, OSError, RuntimeError) as error:  # the sound library's own are RuntimeErrors
        print(error, file=sys.stderr, flush=True)
    return 3


def playable(path: Path, log: logging.Logger | None = None) -> list[Path]:
    """Return a recording, or those of a folder by their paths. Raises AudioError if none of them can be read."""
    if not path.exists():
        raise AudioError(f"[microphone] file = {path}: there is no such file or folder (that this user can see)")
    if not path.is_dir() and not path.is_file():
        raise AudioError(
            f"[microphone] file = {path}: this is a pipe or a device, and no recording; "
            "[microphone] url takes a live stream, such as http://ADDRESS/PATH or rtsp://ADDRESS/PATH"
        )
    inside = sorted(path.rglob("*")) if path.is_dir() else []
    found = [one for one in inside if is_recording(one)] if path.is_dir() else [path]
    for _, why in odd_ones(inside) if log is not None else ():
        _log.warning("left out a recording: %s", why)
    good, reason = [], f"it holds no recordings ({FORMATS})"
    for recording in found:
        try:
            duration_s(recording)
        except RecordingError as error:
            reason = str(error)
            if log is not None:
                log.warning("left out a recording: %s", error)
        else:
            good.append(recording)
    if not good:
        raise AudioError(f"[microphone] file = {path}: {reason}")
    return good


def _play(path: Path, rate_hz: int, *, repeat: bool) -> None:
    """Write sound for ever, as fast as it would be heard."""
    rng = np.random.default_rng(0)
    due = time.monotonic()
    for block in _sound(path, rate_hz, repeat=repeat):
        # Dithered, as 16-bit recordings are: no microphone gives zeros alone, and one that does counts as broken.
        dither = rng.random(len(block), np.float32) - rng.random(len(block), np.float32)
        levels = np.clip(np.rint(block * _FULL_SCALE + dither), -_FULL_SCALE, _FULL_SCALE - 1)
        sys.stdout.buffer.write(levels.astype("<i2").tobytes())
        sys.stdout.buffer.flush()
        due += len(block) / rate_hz
        now = time.monotonic()
        if now - due > _LATE_S:
            due = now
        time.sleep(max(0.0, due - now))


def _sound(path: Path, rate_hz: int, *, repeat: bool) -> Iterator[Floats]:
    """Yield blocks of float32 [any], one recording after the other with a pause behind each."""
    for recording in _in_turn(path, repeat=repeat):
        yield from _blocks(recording, rate_hz)
    while True:
        yield np.zeros(round(_BLOCK_S * rate_hz), np.float32)


def _in_turn(path: Path, *, repeat: bool) -> Iterator[Path]:
    """Yield recordings by their paths; one that is put into the folder itself meanwhile is the next."""
    found, changed = playable(path), path.stat().st_mtime_ns
    played: set[Path] = set()
    while True:
        waiting = [recording for recording in found if recording not in played]
        if not waiting:
            if not repeat:
                return
            waiting = found
            played.clear()
        played.add(waiting[0])
        yield waiting[0]
        if (now := path.stat().st_mtime_ns) != changed:
            before, found, changed = set(found), playable(path), now
            found.sort(key=before.__contains__)


def _blocks(recording: Path, rate_hz: int) -> Iterator[Floats]:
    """Yield a recording of any length, the mean of its channels, and the pause behind it."""
    import soundfile

    with soundfile.SoundFile(os.fsencode(recording)) as file:
        resampler = StreamResampler(file.samplerate, rate_hz)
        size = round(_BLOCK_S * file.samplerate)
        for block in blocks(file, size):
            yield resampler.push(block.mean(axis=1))
        for _ in range(round(_GAP_S / _BLOCK_S)):
            yield resampler.push(np.zeros(size, np.float32))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
