"""The loop that talks to the aggregator and trains: enrol, ask for work, do it in a child process, send, repeat.

It never gives up: while the aggregator is away it tries again after growing pauses, and work done is kept on disk.
"""

from __future__ import annotations

import json
import logging
import random
import subprocess
import sys
import threading
from pathlib import Path

from edge_client.config import Config
from edge_client.config.sections import ServerConfig
from edge_client.device_state import DeviceState, Progress
from edge_client.durable import write_durably
from edge_client.errors import RefusedError, UnreachableError, WorkError
from edge_client.server_link import ServerLink
from fleet_protocol.messages import Enrolment, Learned, Work, parse, to_json

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.5
# Seconds that a child has to end before it is killed.
_GRACE_S = 5.0
# What the aggregator says of an upload that it will never take: there is no use in keeping it.
_HOPELESS = {"round_closed", "duplicate_update", "round_not_found", "not_selected"}


class Learner:
    """One device's learning loop; :meth:`run` returns only after ``stop`` was set."""

    def __init__(self, config: Config, server: ServerConfig, config_path: Path, stop: threading.Event) -> None:
        """Prepare; nothing is sent or trained yet.

        Raises:
            EdgeError: the state folder is in use or damaged, or the bundle cannot be read.
        """
        self._config = config
        self._server = server
        self._config_path = config_path
        self._stop = stop
        self._state = DeviceState(config.device.state)
        self._lock = self._state.lock("daemon")
        self._identity = self._state.identity()
        self._manifest = self._state.load_model(config.model.bundle).bundle.manifest
        self._link = ServerLink(server.url, self._identity)
        self._jitter = random.Random(self._identity.device_id)  # noqa: S311  (spreads devices, guards nothing)

    def run(self) -> None:
        """Work until stopped."""
        enrolled, pause = False, _FIRST_PAUSE_S
        while not self._stop.is_set():
            try:
                if not enrolled:
                    self._enrol()
                    enrolled = True
                self._step()
                pause = _FIRST_PAUSE_S
                continue
            except UnreachableError as error:
                log.warning("%s; trying again", error)
            except RefusedError as error:
                log.error("%s", error)
                # 401: the aggregator lost its memory, or never knew this device; enrolling again mends it.
                enrolled = enrolled and error.status not in (401, 403)
            except WorkError as error:
                log.error("%s; the work will be asked for again", error)
            self._pause(pause)
            pause = min(2 * pause, self._server.longest_pause_s)
        self._link.close()

    def _pause(self, longest: float) -> None:
        """Wait between half and all of a time, so that a fleet does not come back all at once."""
        self._stop.wait(longest * self._jitter.uniform(0.5, 1.0))

    def _progress(self) -> Progress:
        return self._state.load_model(self._config.model.bundle).progress

    def _enrol(self) -> None:
        message = Enrolment(
            device_id=self._identity.device_id,
            secret=self._identity.secret,
            name=self._config.device.name,
            architecture=self._manifest.architecture,
            features=self._manifest.features,
            labels=self._progress().label_map.names if self._config.device.share_names else (),
        )
        enrolled = self._link.enrol(message, self._server.enrol_token)
        log.info("enrolled as %s; the fleet knows %d classes", self._config.device.name, len(enrolled.classes))

    def _step(self) -> None:
        """Ask for one piece of work and bring it to its end."""
        work = self._link.work(self._server.wait_s)
        if work is None:
            return
        blobs = {work.public_set} | ({work.consensus} if work.consensus else set())
        for sha256 in sorted(blobs):
            path = self._state.blob_path(sha256)
            if not path.exists():
                write_durably(path, self._link.fetch(sha256))
        if work.kind == "contribute":
            self._contribute(work)
        else:
            self._learn(work)
            self._state.keep_blobs(blobs)

    def _contribute(self, work: Work) -> None:
        path = self._state.update_path(work.round_id)
        if not (path.exists() and self._progress().contributed == work.round_id):
            self._train(work)
        try:
            self._link.upload(work.round_id, path)
            log.info("round %d: uploaded", work.round_id)
        except RefusedError as error:
            if error.code not in _HOPELESS:
                raise
            log.warning("round %d: %s", work.round_id, error)
        self._state.discard(path)

    def _learn(self, work: Work) -> None:
        path = self._state.learned_path(work.round_id)
        if not (path.exists() and self._progress().learned == work.round_id):
            self._train(work)
        self._link.learned(parse(Learned, json.loads(path.read_bytes())))
        log.info("round %d: learned", work.round_id)
        self._state.discard(path)

    def _train(self, work: Work) -> None:
        """Run the child process to its end.

        Raises:
            WorkError: it failed, or was stopped.
        """
        log.info("round %d: %s", work.round_id, work.kind)
        child = subprocess.Popen(
            [sys.executable, "-m", "edge_client.learning.worker", str(self._config_path)],
            stdin=subprocess.PIPE,
            text=True,
        )
        assert child.stdin is not None
        try:
            child.stdin.write(json.dumps(to_json(work)) + "\n")
            child.stdin.flush()
            while child.poll() is None and not self._stop.is_set():
                try:
                    child.wait(timeout=0.2)
                except subprocess.TimeoutExpired:
                    continue
        except BrokenPipeError:
            log.warning("round %d: the training process ended before it was told what to do", work.round_id)
        finally:
            status = _end(child)
        if status:
            raise WorkError(f"round {work.round_id}: the training process for {work.kind!r} ended with status {status}")


def _end(child: subprocess.Popen[str]) -> int:
    """Make sure that a child is gone; return its exit status."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
    if child.stdin is not None:
        child.stdin.close()
    return child.wait()
