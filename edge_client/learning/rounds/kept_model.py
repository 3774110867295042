"""With which model a device listens after a round: what the round made, or the one that it had."""

import dataclasses
import json
import logging

from edge_client.clips.folders import labels_with_clips
from edge_client.config import Config
from edge_client.learning.class_links import without_silent
from edge_client.learning.rounds.client_update import ClientState, ClientUpdate
from edge_client.learning.rounds.clips import evidence
from edge_client.learning.rounds.guard import Listener, Verdict, choose_listener
from edge_client.learning.teaching.job import DeviceModel, go_over
from edge_client.storage.device_state import DeviceState
from edge_client.storage.fleet_classes import Refused
from edge_client.storage.saved_model import Progress, SavedModel
from fleet_protocol.messages.rest import Learned, Work, to_json

log = logging.getLogger(__name__)


def result_of(config: Config, state: DeviceState, saved: SavedModel, client: ClientUpdate) -> tuple[DeviceModel, bool]:
    """Return what a round made, once its result was applied, and whether it has learned all of the owner's clips.

    A device that learns what its owner teaches listens with it as it is, so clips are gone over first.
    """
    progress = dataclasses.replace(
        after_round(saved.progress, client), background_trained=False, tails={}, prototypes={}, unheard=()
    )
    made = SavedModel(saved.bundle, client.model.get_weights(), progress)
    again = go_over(config, state, made) if config.microphone is not None else None
    return (DeviceModel(made), False) if again is None else (again, True)


def adoptable(config: Config, state: DeviceState) -> tuple[str, ...]:
    """Return the classes of others that the device takes up."""
    return state.offers.heard() if config.device.learn_discovered else ()


def choose_of(
    config: Config, state: DeviceState, saved: SavedModel, client: ClientState, made: DeviceModel
) -> tuple[DeviceModel, Verdict, DeviceModel]:
    """Choose as :func:`choose` does; where the result is worse because of classes of others, take the rest of it.

    Both models have learned all of the owner's clips. The last is what the round made, without the classes to blame.
    """
    chosen, verdict = choose(config, saved, client, made, taught=True)
    label_map, own = made.model.progress.label_map, set(labels_with_clips(config.clips_folder))
    offered = {one.class_id for one in state.offers.all()}
    new = label_map.new_since(saved.progress.listening_labels)
    to_blame = {
        str(label_map.class_ids[slot])
        for slot in {*new, *saved.progress.unheard}
        if slot < len(label_map.slots) and label_map.class_ids[slot] in offered and label_map.names[slot] not in own
    }
    if not verdict.kept_own or not to_blame:
        return chosen, verdict, made
    rest = dataclasses.replace(made.model.progress, label_map=without_silent(label_map, to_blame, own))
    again = go_over(config, state, dataclasses.replace(saved, progress=dataclasses.replace(rest, unheard=())))
    if again is None:
        return chosen, verdict, made
    other, without = choose(config, saved, client, again, taught=True)
    if without.kept_own:
        client.model.set_weights(chosen.model.listening)
        client.label_map = chosen.model.progress.listening_labels
        return chosen, verdict, made
    log.warning("round %d: took its result without %s", client.work.round_id, ", ".join(sorted(to_blame)))
    told = Refused("own_sounds", "with it the device knows its own sounds less well")
    tried, refused = (*made.tried, *to_blame), {**made.refused, **dict.fromkeys(to_blame, told)}
    return other, without, dataclasses.replace(again, tried=tried, refused=refused)


def after_round(before: Progress, client: ClientState) -> Progress:
    """Return the progress of a model after a round."""
    round_id = client.work.round_id
    fine_tuned = round_id if client.work.fine_tune else before.fine_tuned
    return dataclasses.replace(before, label_map=client.label_map, learned=round_id, fine_tuned=fine_tuned)


def choose(
    config: Config, saved: SavedModel, client: ClientState, made: DeviceModel, *, taught: bool
) -> tuple[DeviceModel, Verdict]:
    """Return the model for the device to save, and why; the client's model then listens with it.

    ``taught`` says whether what the round made, and the model that listens, have learned all of the owner's clips.
    """
    client.label_map = made.model.progress.label_map
    new = client.label_map.new_since(saved.progress.label_map)
    trained, present, result = _of_its_own(made, new), _listener(saved), _listener(made.model)
    own = _listener(trained.model) if saved.progress.contributed == client.work.round_id else None
    listener, verdict = choose_listener(client.model, present, result, own, evidence(config, client, taught=taught))
    before, after = (float(one.label_map.mask.sum()) for one in (present, result))
    if not before:  # it listened for nothing: the round makes its first model
        found = {name: value for name, value in verdict.metrics.items() if not name.endswith("_before")}
        verdict = dataclasses.replace(verdict, metrics=found)
    _log(client.work.round_id, verdict)
    kept = DeviceModel(_keeping_own(saved, made.model.progress, new))
    chosen = made if listener is result else trained if listener is own else kept
    judged = {"kept_own": float(verdict.kept_own)} | verdict.metrics
    if verdict.metrics:
        classes = {"classes_before": before, "classes_after": after}
        verdict = dataclasses.replace(verdict, metrics=verdict.metrics | classes)
    model = dataclasses.replace(chosen.model, progress=dataclasses.replace(chosen.model.progress, judged=judged))
    client.model.set_weights(model.listening)
    client.label_map = model.progress.listening_labels
    return dataclasses.replace(chosen, model=model), verdict


def finish(
    state: DeviceState, work: Work, made: DeviceModel, chosen: DeviceModel, verdict: Verdict, metrics: dict[str, float]
) -> None:
    """Write the report that a round's result was learned into the outbox, and then the model to listen with."""
    made.note_tried(state)
    report = Learned(
        work.round_id, metrics, personalised=work.fine_tune, kept_own=verdict.kept_own, refused=state.offers.refusals()
    )
    state.outbox.put(state.outbox.learned_path(work.round_id), json.dumps(to_json(report)).encode())
    chosen.save(state)


def _of_its_own(made: DeviceModel, new: tuple[int, ...]) -> DeviceModel:
    """Return what the device itself trained in the round, with the fleet's classes; it never learned the new ones."""
    progress = dataclasses.replace(made.model.progress, unheard=new)
    model = SavedModel(made.model.bundle, made.model.bundle.weights, progress)
    return dataclasses.replace(made, model=model)


def _keeping_own(saved: SavedModel, after: Progress, new: tuple[int, ...]) -> SavedModel:
    """Return the device's model as it was, with the fleet's classes; it never learned the new ones."""
    of_fleet = {name: getattr(after, name) for name in ("label_map", "learned", "fine_tuned", "provisional")}
    unheard = (*saved.progress.unheard, *new)
    return dataclasses.replace(saved, progress=dataclasses.replace(saved.progress, **of_fleet, unheard=unheard))


def _listener(saved: SavedModel) -> Listener:
    return Listener(saved.listening, saved.progress.listening_labels)


def _log(round_id: int, verdict: Verdict) -> None:
    figures = ", ".join(f"{name} {value:.1f} %" for name, value in verdict.metrics.items()) or "nothing to judge by"
    what = "is worse here, the device keeps a model of its own" if verdict.kept_own else "is taken"
    log.info("round %d: its result %s (%s)", round_id, what, figures)
