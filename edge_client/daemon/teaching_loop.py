"""The loop that has the device learn what its owner taught, soon after he stopped teaching."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from edge_client.config import Config
from edge_client.daemon.training_process import TrainingProcess
from edge_client.errors import WorkError
from edge_client.learning.teaching.job import to_teach
from edge_client.learning.training_job import OwnerTraining
from edge_client.storage.device_state import DeviceState

log = logging.getLogger(__name__)

# Seconds between two checks of the clips; those that are the same at two checks are learned.
_POLL_S = 2.0
# Checks between two searches for clips that are too old.
_CHECKS_PER_TIDYING = 900


class TeachingLoop:
    """Watches the clips; :meth:`run` returns only after ``stop`` was set."""

    def __init__(
        self,
        config: Config,
        state: DeviceState,
        tidy: Callable[[], None],
        training: TrainingProcess,
        stop: threading.Event,
        beat: Callable[[], None],
    ) -> None:
        """Prepare.

        Args:
            config: Configuration of the device.
            state: State folder.
            tidy: Deletes clips that are too old.
            training: Runs the jobs.
            stop: Ends the loop once it is set.
            beat: Called whenever the loop makes progress.
        """
        self._config = config
        self._state = state
        self._tidy = tidy
        self._training = training
        self._stop = stop
        self._beat = beat
        self.status: dict[str, Any] = {"waiting_to_be_learned": False, "error": ""}

    def run(self) -> None:
        """Have new clips learned, and old ones deleted, until stopped."""
        seen = failed = None
        checks = 0
        while not self._stop.wait(_POLL_S):
            self._beat()
            if checks % _CHECKS_PER_TIDYING == 0:
                self._tidy()
            checks += 1
            found = to_teach(self._config, self._state)
            settled, seen = found is not None and found == seen, found
            self.status["waiting_to_be_learned"] = found is not None and found != failed
            if not settled or found == failed:
                continue
            self._training.wait(self._beat, owner_waits=True)
            try:
                self._training.train(OwnerTraining(), "what the owner taught", self._beat)
                self.status["error"] = ""
            except WorkError as error:
                # The same clips would fail again; others, or a restart, are worth another try.
                failed = found
                if not self._stop.is_set():
                    self.status["error"] = str(error)
                    log.error("%s", error)
