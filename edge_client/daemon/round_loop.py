"""The loop that talks to the aggregator: enrol, ask for work, have it done in a child process, send, repeat.

It never gives up: while the aggregator is away it tries again after growing pauses, and work done is kept on disk.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from edge_client.config import Config
from edge_client.config.sections import ServerConfig
from edge_client.daemon.training_process import TrainingProcess
from edge_client.errors import WorkError
from edge_client.fleet.enrolment import Enroller, client_of_member, token_of, trouble_of
from edge_client.fleet.private_rounds import PrivateRounds
from edge_client.storage.device_state import DeviceState
from edge_client.storage.saved_model import Progress
from fleet_protocol.errors import AuricleError, RefusedError, SecureSumError, UnreachableError
from fleet_protocol.ground.addresses import is_clear
from fleet_protocol.ground.atomic_files import remove_durably
from fleet_protocol.messages.rest import Learned, Work, parse
from fleet_protocol.numbers.tensors import digest

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.5
# Longest time without a sign of progress while the loop merely waits.
_BEAT_S = 5.0
# While it trains it asks for work so often all the same, or a round that opens would take it for a device that is away.
_SIGN_OF_LIFE_S = 45.0
# Blobs of earlier work that stay while none was learned from: rounds that never end must not fill the disk.
_SPARE_BYTES = 512 * 1024 * 1024
# What the aggregator says as long as nobody admitted this device.
_WAITING = "device_waiting"
# What the aggregator says of an upload that it will never take: there is no use in keeping it.
_HOPELESS = {"round_closed", "duplicate_update", "round_not_found", "not_selected", "stage_over"}
# By which it refuses the form of what it was sent: the same bytes will not do later either.
_OF_FORM = {400, 413, 415, 422}
_DAMAGED_ON_THE_WAY = "digest_mismatch"
# What a device that sends sums alone says of other rounds.
_SUMS_ALONE = "its owner lets it take part in private rounds alone ([privacy])"


class RoundLoop:
    """One device's part in its fleet's rounds; :meth:`run` returns only after ``stop`` was set."""

    def __init__(
        self, config: Config, server: ServerConfig, state: DeviceState, training: TrainingProcess, stop: threading.Event
    ) -> None:
        """Prepare; nothing is sent yet. Raises EdgeError if the state, the bundle or the address cannot be used."""
        self._config, self._server, self._state = config, server, state
        self._training, self._stop = training, stop
        self._beat: Callable[[], None] = lambda: None  # until it runs
        self._token = token_of(server, state.membership.load())
        if is_clear(server.url):
            log.warning("%s is plain HTTP: whoever reads the network has its secret (insecure_http)", server.url)
        self._client = client_of_member(server.url, state)
        self._enroller = Enroller(self._client, config, state.identity)
        self._jitter = random.Random(state.identity.load().device_id)  # noqa: S311  (spreads devices, guards nothing)
        # A round whose training failed here, or whose result was refused: trying it for ever would keep the device from
        # everything else.
        self._given_up: tuple[int, str] | None = None
        self._private = PrivateRounds(state, config.privacy.epsilon)
        self._heard_at = time.monotonic()
        self.status: dict[str, Any] = {"server": server.url, "enrolled": False, "reachable": None}
        self.status |= {"waiting": False, "error": "", "trouble": ""}

    def run(self, beat: Callable[[], None]) -> None:
        """Work until stopped, with a beat at all progress."""
        self._beat, pause = beat, _FIRST_PAUSE_S
        while not self._stop.is_set():
            self._beat()
            try:
                if not self.status["enrolled"]:
                    self._enrol()
                if self._state.outbox.is_empty():
                    self._training.wait(self._beat_and_be_heard)
                if self._stop.is_set():
                    break
                self._step()
                pause = _FIRST_PAUSE_S
                self.status.update(reachable=True, waiting=False, error="")
                continue
            except UnreachableError as error:
                self.status.update(reachable=False, error=str(error))
                log.warning("%s; trying again", error)
            except RefusedError as error:
                self._note_refusal(error)
            except WorkError as error:
                self.status["error"] = str(error)
                log.error("%s", error)
            self._pause(pause)
            pause = min(2 * pause, self._server.longest_pause_s)
        self._client.close()

    def _pause(self, longest: float, of: float = 0.5) -> None:
        """Wait between a share and all of a time, so that a fleet does not return all at once."""
        deadline = time.monotonic() + longest * self._jitter.uniform(of, 1.0)
        while (left := deadline - time.monotonic()) > 0 and not self._stop.wait(min(left, _BEAT_S)):
            self._beat()

    def _beat_and_be_heard(self) -> None:
        """Report progress of a training, and let the aggregator know that the device is on; the answer comes again."""
        self._beat()
        if self.status["enrolled"] and time.monotonic() - self._heard_at >= _SIGN_OF_LIFE_S:
            self._heard_at = time.monotonic()
            with suppress(AuricleError):
                self._client.work(0.0)

    def _progress(self) -> Progress:
        return self._state.model.load(self._config.bundle).progress

    def _note_refusal(self, error: RefusedError) -> None:
        """Say what the aggregator refused, and enrol again where that may mend it."""
        waits = error.code == _WAITING
        if not (waits and self.status["waiting"]):  # it may wait for days, and says so once
            log.log(logging.INFO if waits else logging.ERROR, "%s", error)
        self.status.update(reachable=True, waiting=waits, error=str(error))
        # 401: the aggregator lost its memory, or never knew this device.
        if error.status in (401, 403) and not waits:
            self.status["enrolled"] = False

    def _enrol(self) -> None:
        enrolled = self._enroller.enrol(self._token)
        self.status["enrolled"] = True
        device, known = self._config.device, len(enrolled.classes)
        words = "are shared" if device.share_names else "stay on this device"
        log.info(
            "enrolled as %s; the fleet knows %d classes; the owner's words for sounds %s", device.name, known, words
        )

    def _report(self, trouble: str = "", in_full: str = "") -> None:
        """Report changes to the aggregator: the owner's labels, where they are shared, clips, and what went wrong."""
        self.status["trouble"] = in_full or trouble
        self._enroller.report(trouble)

    def _step(self) -> None:
        work = self._client.work(self._server.wait_s)
        self._heard_at = time.monotonic()
        self._beat()
        # The aggregator offers a round again until it has the upload, or the round is over.
        over = self._state.outbox.keep(None if work is None else work.round_id)
        if work is None or over:  # the next step waits until the board may train
            return
        if (work.round_id, work.kind) == self._given_up:
            self._pause(self._server.longest_pause_s)
            return
        if not self._may_answer(work):
            return
        blobs = self._client.bounds.blobs(work)
        self._state.blobs.keep(set(blobs), _SPARE_BYTES)
        for sha256, largest in sorted(blobs.items()):
            if not self._state.blobs.has(sha256):
                self._client.fetch(sha256, self._state.blobs.path(sha256), largest, self._beat)
        try:
            if work.kind == "contribute":
                self._contribute(work)
            else:
                self._learn(work)
                self._state.blobs.keep(set(blobs))
        except WorkError:
            if not self._stop.is_set():
                self._report(trouble_of(self._config))
            raise

    def _may_answer(self, work: Work) -> bool:
        """Answer a stage that needs no training; return whether there is more to do. What must not be is given up."""
        self._private.end_others(work)
        sums_alone = self._config.privacy.only_sums or self._config.privacy.epsilon is not None
        if work.kind == "contribute" and work.plan.private is None and sums_alone:
            self._give_up(work, _SUMS_ALONE, f"round {work.round_id} is not private: the device sends nothing")
            return False
        try:
            message = self._private.answer(work)
        except SecureSumError as error:
            self._give_up(
                work, f"it refused to go on with the private round {work.round_id}; its log says why", str(error)
            )
            return False
        if message is None:
            return True
        try:
            self._client.answer(work.round_id, work.kind, message)
            log.info("round %d: answered %s", work.round_id, work.kind)
        except RefusedError as error:
            if error.code not in _HOPELESS and not _is_of_form(error):
                raise
            trouble = f"its answer to {work.kind} of round {work.round_id} was refused ({error.code}); its log says why"
            self._give_up(work, trouble, f"round {work.round_id}: {error}")
        if work.kind == "unmask":
            self._private.end()
        return False

    def _give_up(self, work: Work, trouble: str, in_full: str) -> None:
        """Leave a round, or the rest of it, and say why; the device goes on with later ones."""
        self._given_up = (work.round_id, work.kind)
        log.error("%s", in_full)
        self._report(trouble, in_full=in_full)

    def _contribute(self, work: Work) -> None:
        path = self._state.outbox.update_path(work.round_id)
        data = self._result(path, work, self._progress().contributed)
        self._state.privacy.count(digest(data), work.plan.private)
        try:
            self._client.upload(work.round_id, data, self._beat)
            log.info("round %d: uploaded", work.round_id)
        except RefusedError as error:
            if _is_of_form(error):
                self._set_aside(work, path, error)
                return
            if error.code not in _HOPELESS:
                raise
            log.warning("round %d: %s", work.round_id, error)
        remove_durably(path)
        self._report()

    def _set_aside(self, work: Work, path: Path, error: RefusedError) -> None:
        """Send a result no more, and say why; the device takes part in later rounds."""
        remove_durably(path)
        trouble = f"what it sent for round {work.round_id} was refused ({error.code}); its log says why"
        waits = "the device does not send it again, and waits for the next round"
        self._give_up(work, trouble, f"round {work.round_id}: {error}; {waits}")

    def _learn(self, work: Work) -> None:
        path, progress = self._state.outbox.learned_path(work.round_id), self._progress()
        done = progress.fine_tuned if work.fine_tune else progress.learned
        learned = parse(Learned, json.loads(self._result(path, work, done)))
        try:
            self._client.learned(learned)
        except RefusedError as error:
            if not _is_of_form(error):
                raise
            log.warning("round %d: %s; the device reports without figures", work.round_id, error)
            try:  # until it has reported, the aggregator asks it for nothing else
                self._client.learned(dataclasses.replace(learned, metrics={}, refused={}))
            except RefusedError as again:
                if not _is_of_form(again):
                    raise
                self._set_aside(work, path, again)
                return
        log.info("round %d: learned%s", work.round_id, ", and kept a model of its own" if learned.kept_own else "")
        remove_durably(path)

    def _result(self, path: Path, work: Work, done: int) -> bytes:
        """Return the work's result from the outbox; it is trained now, unless the round ``done`` last was this one.

        Raises WorkError if the training failed or was stopped, or the disk damaged its result at once.
        """
        data = self._state.outbox.read(path)
        if data is None or done != work.round_id:
            try:
                self._training.train(work, f"round {work.round_id}: {work.kind}", self._beat_and_be_heard)
            except WorkError:
                if not self._stop.is_set():
                    self._given_up = (work.round_id, work.kind)
                raise
            data = self._state.outbox.read(path)
        if data is None:
            raise WorkError(f"{path} was damaged as it was written; check this device's disk")
        return data


def _is_of_form(error: RefusedError) -> bool:
    """Return whether the same bytes will be refused again, whenever they are sent."""
    return error.status in _OF_FORM and error.code != _DAMAGED_ON_THE_WAY
