"""The loop that watches the owner's clips: has new ones learned and old ones deleted."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edge_client.config import Config
from edge_client.daemon.training_process import TrainingProcess
from edge_client.errors import WorkError
from edge_client.learning.teaching.job import to_teach
from edge_client.storage.device_state import DeviceState

log = logging.getLogger(__name__)

# Seconds between two checks of the clips; those that are the same at two checks are learned.
_CHECK_S = 2.0
# Checks between two searches for clips that are too old.
_CHECKS_PER_TIDYING = 900


@dataclass(eq=False)
class TeachingLoop:
    """Watches the clips; :meth:`run` returns only after ``stop`` was set."""

    _config: Config
    _state: DeviceState
    _tidy: Callable[[], bool]
    _training: TrainingProcess
    _stop: threading.Event

    def __post_init__(self) -> None:
        self.status: dict[str, Any] = {"waiting_to_be_learned": False, "error": ""}

    def run(self, beat: Callable[[], None]) -> None:
        """Have new clips learned, and old ones deleted, until stopped."""
        seen = failed = None
        checks = 0
        while not self._stop.wait(_CHECK_S):
            beat()
            if checks % _CHECKS_PER_TIDYING or self._tidy():  # what cannot be tidied now is tried at the next check
                checks += 1
            found = to_teach(self._config, self._state)
            settled, seen = found is not None and found == seen, found
            self.status["waiting_to_be_learned"] = found is not None and found != failed
            if not settled or found == failed:
                continue
            self._training.wait(beat)
            try:
                self._training.train(None, "what the owner taught", beat)
                self.status["error"] = ""
            except WorkError as error:
                # The same clips would fail again; others, or a restart, are worth another try.
                failed = found
                if not self._stop.is_set():
                    self.status["error"] = str(error)
                    log.error("%s", error)
