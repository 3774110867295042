"""The daemon: keeps the device's loops running, tells how they are, and ends them cleanly when asked to."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

from edge_client.board import resident_mb, temperature_c
from edge_client.config import Config, load_config
from edge_client.device_state import DeviceState
from edge_client.learner import Learner
from edge_client.status import StatusFile
from edge_client.supervisor import Supervisor
from edge_client.systemd_notify import notify
from edge_client.trainer import Trainer

log = logging.getLogger(__name__)

# Seconds that the loops have to end; a long poll may last longer, and nothing is lost by leaving it.
_GRACE_S = 8.0
_POLL_S = 0.5
# Seconds between two writings of the status: into memory, or onto a disk that wears.
_STATUS_S = (2.0, 30.0)
_FEED_S = 5.0
# Longest time without progress: one question for work, an answer's time-out and some patience.
_LEARNER_STUCK_S = 300.0


def run(config_path: Path) -> int:
    """Run until SIGTERM or SIGINT; return the exit status.

    Raises:
        EdgeError: the configuration, the state folder or the bundle cannot be used.
    """
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    stop = threading.Event()

    def ask_to_stop(number: int, _: FrameType | None) -> None:
        log.info("stopping on %s", signal.Signals(number).name)
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    Daemon(load_config(config_path), config_path.resolve(), stop).run()
    return 0


class Daemon:
    """All of a device that runs."""

    def __init__(self, config: Config, config_path: Path, stop: threading.Event) -> None:
        """Prepare every loop that the configuration asks for.

        Raises:
            EdgeError: the state folder is in use or damaged, or the bundle cannot be used.
        """
        self._config = config
        self._stop = stop
        self._state = DeviceState(config.device.state)
        self._lock = self._state.lock("daemon")
        self._state.remove_leftovers()
        self._started = time.time()
        self._file = StatusFile(self._state)
        self._supervisor = Supervisor(stop)
        self._trainer = Trainer(config.training, config_path, stop, self._reload)
        self._architecture = ""
        self._labels: tuple[str, ...] = ()
        self._reload()
        self._learner: Learner | None = None
        if config.server is not None:
            self._add_learner(config)

    def run(self) -> None:
        """Run until stopped."""
        self._supervisor.start()
        notify("READY=1", "STATUS=running")
        written = fed = 0.0
        while not self._stop.wait(_POLL_S):
            now = time.monotonic()
            if now - written >= _STATUS_S[0 if self._file.in_memory else 1]:
                self._write_status()
                written = now
            if now - fed >= _FEED_S:
                self._feed_watchdog()
                fed = now
        notify("STOPPING=1")
        for name in self._supervisor.join(_GRACE_S):
            log.info("left the loop %s waiting", name)
        self._write_status()

    def _add_learner(self, config: Config) -> None:
        assert config.server is not None
        loop = self._supervisor.add("rounds", lambda: learner.run(), _LEARNER_STUCK_S)
        learner = Learner(config, config.server, self._state, self._trainer, self._stop, loop.beat)
        self._learner = learner

    def _reload(self) -> None:
        """Take up the model that is on the disk."""
        saved = self._state.load_model(self._config.model.bundle)
        self._architecture, self._labels = saved.progress.architecture, saved.progress.label_map.names

    def _feed_watchdog(self) -> None:
        """Tell systemd that all is well; where a loop stands still it is left to start the daemon again."""
        stuck = [loop.name for loop in self._supervisor.loops.values() if loop.stuck()]
        if stuck:
            log.error("no progress: %s", ", ".join(stuck))
            notify(f"STATUS=no progress: {', '.join(stuck)}")
        else:
            notify("WATCHDOG=1", "STATUS=running")

    def _write_status(self) -> None:
        try:
            self._file.write(self._status())
        except OSError as error:  # a full disk must not end the listening
            log.warning("cannot write the status %s: %s", self._file.path, error)

    def _status(self) -> dict[str, Any]:
        return {
            "name": self._config.device.name,
            "pid": os.getpid(),
            "started": self._started,
            "model": {"architecture": self._architecture, "labels": self._labels},
            "loops": {loop.name: loop.to_json() for loop in self._supervisor.loops.values()},
            "server": self._learner.status if self._learner else None,
            "training": self._trainer.status,
            "board": {"temperature_c": temperature_c(), "resident_mb": resident_mb()},
        }
