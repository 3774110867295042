"""What memory a process takes that does nothing but listen.

`python -m benchmarks.listening.idle CONFIG` listens to a minute of noise and prints its resident memory in MB.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np

from benchmarks.command import output_of_module
from edge_client.config import load_config
from edge_client.daemon.listening_loop import ListeningLoop, load_listening
from edge_client.events.publisher import Publisher, open_sinks
from fleet_protocol.numbers.arrays import Floats

_SECONDS = 60


class Noise:
    """An :class:`edge_client.capture.AudioSource` that always has the next noise ready, and ends a listener."""

    def __init__(self, sample_rate_hz: int, stop: threading.Event) -> None:
        self.sample_rate_hz = sample_rate_hz
        self.frames = self.overflows = self.reopened = 0
        self.lent, self.trouble = False, ""
        self._rng = np.random.default_rng(0)
        self._stop = stop

    def read(self, samples: int, timeout_s: float) -> Floats:
        """Return noise at -26 dB; none waits."""
        if not timeout_s:
            return np.zeros(0, np.float32)
        self.frames += samples
        if self.frames > _SECONDS * self.sample_rate_hz:
            self._stop.set()
        return self._rng.normal(scale=0.05, size=samples).astype(np.float32)

    def close(self) -> None:
        """Nothing is open."""


def idle_mb(config: Path) -> float:
    """Return the resident memory of a process that listens with a configuration, in MB (2^20 bytes)."""
    return float(output_of_module("benchmarks.listening.idle", config).splitlines()[-1])


def main() -> None:
    """Listen and print."""
    config = load_config(Path(sys.argv[1]))
    stop = threading.Event()
    loaded = load_listening(config)
    source = Noise(loaded.model.manifest.feature_settings.sample_rate_hz, stop)
    publisher = Publisher(open_sinks(config, "0" * 32))
    ListeningLoop(source, lambda: loaded, config.detector, publisher, beat=lambda: None).run(stop)
    publisher.close()
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    print(next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS")))


if __name__ == "__main__":
    main()
