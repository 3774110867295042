"""Training in a child process: whether it may begin, one at a time, with low priority, a deadline and one retry.

Its memory returns when it ends, and listening continues meanwhile
(docs/architecture.md, "Training runs in a child process").
"""

import logging
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_client.config.sections import TrainingConfig
from edge_client.daemon.status import temperature_c
from edge_client.errors import WorkError
from edge_client.learning.training_job import TrainingJob, to_line
from fleet_protocol.ground.own_python import python

log = logging.getLogger(__name__)

# Seconds that a child has to end before it is killed.
_GRACE_S = 5.0
_ATTEMPTS = 2
# Seconds between two readings of the clock and the thermometer.
_POLL_S = 5.0


@dataclass(eq=False)
class TrainingProcess:
    """The daemon's training: one job at a time, each in a child process of its own."""

    _config: TrainingConfig
    _config_path: Path
    _stop: threading.Event
    _on_begin: Callable[[], None]
    _on_trained: Callable[[], None]  # after each job that succeeded: the model on the disk is another one

    def __post_init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self.status: dict[str, Any] = {"training": None, "waiting_for": None, "trained": 0, "failed": 0, "error": ""}

    def obstacle(self) -> str | None:
        """Return why no training may begin now, or None."""
        hot, limit = temperature_c(), self._config.max_temperature_c
        if hot is not None and 0 < limit < hot:
            return f"the processor to cool down from {hot:.0f} to {limit:.0f} degrees"
        return None

    def wait(self, beat: Callable[[], None]) -> None:
        """Wait until training may begin, or until stopped."""
        while (obstacle := self.obstacle()) and not self._stop.is_set():
            if self.status["waiting_for"] != obstacle:
                log.info("training waits for %s", obstacle)
            self.status["waiting_for"] = obstacle
            beat()
            self._stop.wait(_POLL_S)
        self.status["waiting_for"] = None

    def train(self, job: TrainingJob, name: str, beat: Callable[[], None]) -> None:
        """Run a job in a child process, and once more if it fails. Raises WorkError if both fail, or on stopping."""
        while not self._one_at_a_time.acquire(timeout=1.0):
            beat()
        try:
            self._on_begin()
            self.status["training"] = name
            for attempt in range(1, _ATTEMPTS + 1):
                log.info("%s: attempt %d", name, attempt)
                outcome = self._run(job, beat)
                if outcome is None:
                    self.status["trained"] += 1
                    self._on_trained()
                    return
                if self._stop.is_set():
                    raise WorkError(f"{name}: stopped")
                self.status["failed"] += 1
                self.status["error"] = f"{name}: {outcome} (attempt {attempt} of {_ATTEMPTS})"
                log.error("%s", self.status["error"])
            raise WorkError(f"{name}: the training process {outcome}, {_ATTEMPTS} times; its output says why")
        finally:
            self.status["training"] = None
            self._one_at_a_time.release()

    def _run(self, job: TrainingJob, beat: Callable[[], None]) -> str | None:
        child = subprocess.Popen(
            python("edge_client.learning.worker", self._config_path), stdin=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + self._config.deadline_s
        assert child.stdin is not None
        late = False
        try:
            child.stdin.write(to_line(job))
            child.stdin.flush()
            while child.poll() is None and not self._stop.is_set() and not late:
                beat()
                late = time.monotonic() > deadline
                try:
                    child.wait(timeout=0.2)
                except subprocess.TimeoutExpired:
                    continue
        except BrokenPipeError:
            log.warning("the training process ended before it had read its job")
        finally:
            status = _end(child)
        if late:
            return f"was not done after {self._config.deadline_s:g} s (deadline_s in [training]) and was killed"
        return f"ended with status {status}" if status else None


def _end(child: subprocess.Popen[str]) -> int:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
    if child.stdin is not None:
        child.stdin.close()
    return child.wait()
