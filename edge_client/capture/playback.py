"""Plays a clip on the device's own output: by ``aplay`` where there is one, else through PortAudio."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from edge_client.audio.recordings import read_recording
from edge_client.audio.wave_files import encode_wave
from edge_client.capture.pcm_process import last_line
from edge_client.errors import AudioError


def play(path: Path, sample_rate_hz: int) -> None:
    """Play a recording to its end.

    Raises:
        AudioError: it cannot be read, or this machine has no output that works; says what was tried.
    """
    samples = read_recording(path, sample_rate_hz)
    program = shutil.which("aplay")
    if program is not None:
        result = subprocess.run([program, "-q"], input=encode_wave(samples, sample_rate_hz), capture_output=True)
        if result.returncode == 0:
            return
        problem = last_line(result.stderr) or f"aplay ended with {result.returncode}"
        raise AudioError(_no_output(path, problem))
    try:
        import sounddevice

        sounddevice.play(samples, sample_rate_hz, blocking=True)
    except (ImportError, OSError, ValueError) as error:
        raise AudioError(_no_output(path, str(error))) from error
    except sounddevice.PortAudioError as error:
        raise AudioError(_no_output(path, str(error))) from error


def _no_output(path: Path, problem: str) -> str:
    return f"cannot play on this device ({problem}); copy {path} to another machine and play it there"
