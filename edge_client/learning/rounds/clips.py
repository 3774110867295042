"""Clips as a round sees them: the device's own to train on, those held out for evaluation, and the public set."""

import functools

import numpy as np

from edge_client.audio.recordings import Recordings
from edge_client.config import Config
from edge_client.features.augmentation import Augmentation, BackgroundNoise, augment
from edge_client.learning.rounds.client_update import ClientState, ClientUpdate, percent
from edge_client.learning.rounds.guard import Evidence, public_rows
from edge_client.learning.training_data import FEWEST, HELD_OUT, Clips, Split, gather, held_out_accuracy

# Clips of a label, of those that both models have learned.
_MAX_TAUGHT = 40


def own_clips(config: Config, client: ClientState) -> Split:
    """Return the clips to train on, without those that are held out.

    The plan's personalisation says how many are. Where it does not, a share is held out to judge the round by, unless
    that is too little to tell, or the owner's teaching trains on all clips anyway.
    """
    settings, drawn = client.model.manifest.feature_settings, config.recordings.per_round
    recordings = Recordings(config.clips_folder, settings, per_round=drawn, seed=config.device.seed)
    asked = client.work.plan.personalisation.settings.get("held_out")
    if asked is not None:
        return Split(recordings, float(asked))
    teaches = config.microphone is not None and client.model.manifest.background
    return Split(recordings, 0.0 if teaches else HELD_OUT, fewest=FEWEST)


def to_train_on(config: Config, client: ClientUpdate, source: Split) -> Clips:
    """Return the round's clips with their variants, augmented as the plan's local method says."""
    settings, noise = client.settings, None
    if (folder := config.recordings.background) is not None:
        noise = BackgroundNoise.load(folder, client.model.manifest.feature_settings.sample_rate_hz)
    how = Augmentation(*(float(settings[name]) for name in ("shift_s", "noise_volume", "noise_probability")))
    slots, copies = slots_of(client, source.labels()), int(settings["augmented_copies"])
    drawn = source, client.work.round_id, slots, client.model, client.rng
    return gather(*drawn, copies=copies, noise=noise, augmented=functools.partial(augment, how=how))


def evidence(config: Config, client: ClientState, *, taught: bool) -> Evidence:
    """Return the clips that show whether a round's result is as good as the model that listens.

    The client has the newer label map. Where both have learned (``taught``) all of the owner's clips, these show what
    was lost, and the public recordings of all classes how others are understood.
    """
    source = own_clips(config, client)
    settings, drawn = client.model.manifest.feature_settings, (_MAX_TAUGHT, _MAX_TAUGHT)
    every = Recordings(config.clips_folder, settings, per_round=drawn, seed=config.device.seed)
    own = to_evaluate_on(client, every if taught else source.held_out)
    heard = set(slots_of(client, source.labels()).values())
    judged = heard if not taught and len(own.slots) >= FEWEST else set()
    public_set = client.context.public_set
    x = client.model.normalise(public_set.features)
    public = public_rows(public_set, x, client.label_map, judged, heard)
    return Evidence(own, "taught" if taught else "held_out", public, taught)


def to_evaluate_on(client: ClientState, source: Split | Recordings) -> Clips:
    """Return clips as they were recorded."""
    slots = slots_of(client, source.labels())
    return gather(source, client.work.round_id, slots, client.model, np.random.default_rng(0), copies=0, noise=None)


def public_clips(client: ClientState, own: Clips) -> Clips:
    """Return the public set with the device's slots: recordings, and impressions of classes without own clips."""
    public = client.context.public_set
    places = {slot_class: slot for slot, slot_class in enumerate(client.label_map.class_ids) if slot_class is not None}
    slots = np.array([places.get(class_id, -1) for class_id in public.class_ids], np.int64)[public.labels]
    used = (slots >= 0) & ~(public.synthetic & np.isin(slots, own.slots))
    return Clips(client.model.normalise(public.features[used])[None], slots[used])


def held_out_metrics(config: Config, client: ClientState) -> dict[str, float]:
    """Return the accuracy on the recordings held out for it, in %, and among how many labels; nothing without any."""
    folder = config.recordings.evaluation
    if folder is None:
        return {}
    source = Recordings(folder, client.model.manifest.feature_settings)
    held_out, slots = to_evaluate_on(client, source), list(slots_of(client, source.labels()).values())
    measured = percent({"held_out_accuracy": held_out_accuracy(client.model, client.label_map.mask, held_out, slots)})
    return measured | {"held_out_classes": float(len(slots))} if measured else {}


def slots_of(client: ClientState, labels: tuple[str, ...]) -> dict[str, int]:
    """Return the slot of every label that has one."""
    return {label: client.label_map.slot_of(label) for label in labels if label in client.label_map.names}
