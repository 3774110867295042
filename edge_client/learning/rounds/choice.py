"""With which model a device listens after a round: what the round made, or the one that it had."""

from __future__ import annotations

import dataclasses
import logging

from edge_client.config import Config
from edge_client.learning.rounds.clips import evidence
from edge_client.learning.rounds.guard import Listener, Verdict, choose_listener
from edge_client.learning.rounds.job import RoundJob, RoundPart
from edge_client.learning.teaching.job import DeviceModel, go_over
from edge_client.storage.device_state import DeviceState
from edge_client.storage.saved_model import Progress, SavedModel

log = logging.getLogger(__name__)


def result_of(config: Config, state: DeviceState, saved: SavedModel, job: RoundJob) -> tuple[DeviceModel, bool]:
    """Return what a round made, and whether it has learned all of the owner's clips.

    A device with a microphone listens with it as it is, so the owner's clips and room are gone over first.

    Args:
        config: of the device.
        state: its state folder.
        saved: its model before the round.
        job: after the round's result was applied.
    """
    progress = dataclasses.replace(after_round(saved.progress, job), background_trained=False, tails={}, unheard=())
    made = SavedModel(saved.bundle, job.model.get_weights(), progress)
    again = go_over(config, state, made) if config.microphone is not None else None
    return (DeviceModel(made), False) if again is None else (again, True)


def after_round(before: Progress, job: RoundPart) -> Progress:
    """Return the progress of a model after a round."""
    round_id = job.work.round_id
    fine_tuned = round_id if job.work.fine_tune else before.fine_tuned
    return dataclasses.replace(before, label_map=job.label_map, learned=round_id, fine_tuned=fine_tuned)


def choose(
    config: Config, saved: SavedModel, job: RoundPart, made: DeviceModel, *, taught: bool
) -> tuple[DeviceModel, Verdict]:
    """Return the model that the device shall save, and why; the job's model then listens with it.

    Args:
        config: of the device.
        saved: its model before the round.
        job: the round; its label map becomes that of the model that listens.
        made: what the round made.
        taught: whether that, and the model that listens, have learned all of the owner's clips.
    """
    job.label_map = made.model.progress.label_map
    new = job.label_map.new_since(saved.progress.label_map)
    options = _Options(saved, made, new, took_part=saved.progress.contributed == job.work.round_id)
    tells = evidence(config, job, taught=taught)
    listener, verdict = choose_listener(job.model, options.present, options.result, options.own, tells)
    if not options.classes()["classes_before"]:  # it listened for nothing: the round makes its first model
        found = {name: value for name, value in verdict.metrics.items() if not name.endswith("_before")}
        verdict = dataclasses.replace(verdict, metrics=found)
    _log(job.work.round_id, verdict)
    chosen = options.model_of(listener)
    judged = {"kept_own": float(verdict.kept_own)} | verdict.metrics
    if verdict.metrics:
        verdict = dataclasses.replace(verdict, metrics=verdict.metrics | options.classes())
    model = dataclasses.replace(chosen.model, progress=dataclasses.replace(chosen.model.progress, judged=judged))
    job.model.set_weights(model.listening)
    job.label_map = model.progress.listening_labels
    return dataclasses.replace(chosen, model=model), verdict


class _Options:
    """The models among which a device chooses."""

    def __init__(self, saved: SavedModel, made: DeviceModel, new: tuple[int, ...], *, took_part: bool) -> None:
        """Prepare.

        Args:
            saved: the device's model before the round.
            made: what the round made of it.
            new: slots that the round brought.
            took_part: whether the device trained a model of its own in this round.
        """
        self._made, self._own = made, _of_its_own(made, new)
        self._kept = DeviceModel(_keeping_own(saved, made.model.progress, new))
        self.present = _listener(saved)
        self.result = _listener(made.model)
        self.own = _listener(self._own.model) if took_part else None

    def classes(self) -> dict[str, float]:
        """Return among how many labels the model that listened, and the round's result, named the evidence."""
        before, after = (float(listener.label_map.mask.sum()) for listener in (self.present, self.result))
        return {"classes_before": before, "classes_after": after}

    def model_of(self, listener: Listener) -> DeviceModel:
        """Return the model to be saved."""
        if listener is self.result:
            return self._made
        return self._own if listener is self.own else self._kept


def _of_its_own(made: DeviceModel, new: tuple[int, ...]) -> DeviceModel:
    """Return what the device itself trained in the round, with the fleet's classes; it never learned the new ones."""
    progress = dataclasses.replace(made.model.progress, unheard=new)
    model = SavedModel(made.model.bundle, made.model.bundle.weights, progress)
    return dataclasses.replace(made, model=model)


def _keeping_own(saved: SavedModel, after: Progress, new: tuple[int, ...]) -> SavedModel:
    """Return the device's model as it was, with the fleet's classes; it never learned the new ones."""
    before = saved.progress
    progress = dataclasses.replace(
        before,
        label_map=after.label_map,
        learned=after.learned,
        fine_tuned=after.fine_tuned,
        provisional=after.provisional,
        unheard=(*before.unheard, *new),
    )
    return dataclasses.replace(saved, progress=progress)


def _listener(saved: SavedModel) -> Listener:
    return Listener(saved.listening, saved.progress.listening_labels)


def _log(round_id: int, verdict: Verdict) -> None:
    figures = ", ".join(f"{name} {value:.1f} %" for name, value in verdict.metrics.items()) or "nothing to judge by"
    what = (
        "its result is worse here, the device keeps a model of its own" if verdict.kept_own else "its result is taken"
    )
    log.info("round %d: %s (%s)", round_id, what, figures)
