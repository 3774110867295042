"""Plays a clip on the device's own output: by ``aplay`` where there is one, else through PortAudio."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from edge_client.audio.recordings import read_recording
from edge_client.audio.wave_files import encode_wave
from edge_client.capture.pcm_process import last_line
from edge_client.errors import AudioError
from fleet_protocol.arrays import Floats


def play(path: Path, sample_rate_hz: int) -> None:
    """Play a recording to its end.

    Raises:
        AudioError: it cannot be read, or this machine has no output that works; says what was tried.
    """
    samples = read_recording(path, sample_rate_hz)
    if problem := play_samples(samples, sample_rate_hz):
        raise AudioError(f"cannot play on this device ({problem}); copy {path} to another machine and play it there")


def play_samples(samples: Floats, sample_rate_hz: int) -> str:
    """Play float32 [samples] in -1..1 to their end; return why this machine cannot, or ""."""
    program = shutil.which("aplay")
    if program is not None:
        result = subprocess.run([program, "-q"], input=encode_wave(samples, sample_rate_hz), capture_output=True)
        return "" if result.returncode == 0 else last_line(result.stderr) or f"aplay ended with {result.returncode}"
    try:
        import sounddevice
    except (ImportError, OSError) as error:
        return str(error)
    try:
        sounddevice.play(samples, sample_rate_hz, blocking=True)
    except (OSError, ValueError, sounddevice.PortAudioError) as error:
        return str(error)
    return ""
