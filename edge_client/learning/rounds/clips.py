"""Clips as a round sees them: the device's own to train on, those held out for evaluation, and the public set."""

from __future__ import annotations

import functools

import numpy as np

from edge_client.audio.recordings import Recordings
from edge_client.config import Config
from edge_client.features.augmentation import Augmentation, BackgroundNoise, augment
from edge_client.learning.held_out import Split
from edge_client.learning.rounds.job import RoundJob
from edge_client.learning.training_data import Clips, gather


def own_clips(config: Config, job: RoundJob) -> Split:
    """Return the clips to train on; where the plan holds clips out, without these."""
    recordings = Recordings(
        config.clips_folder,
        job.model.manifest.feature_settings,
        per_round=config.recordings.per_round,
        seed=config.device.seed,
    )
    return Split(recordings, float(job.work.plan.personalisation.settings.get("held_out", 0.0)))


def to_train_on(config: Config, job: RoundJob, source: Split) -> Clips:
    """Return the round's clips with their variants, augmented as the plan's local method says."""
    settings, noise = job.settings, None
    if config.recordings.background is not None:
        noise = BackgroundNoise.load(config.recordings.background, job.model.manifest.feature_settings.sample_rate_hz)
    how = Augmentation(*(float(settings[name]) for name in ("shift_s", "noise_volume", "noise_probability")))
    return gather(
        source,
        job.work.round_id,
        slots_of(job, source.labels()),
        job.model,
        job.rng,
        copies=int(settings["augmented_copies"]),
        noise=noise,
        augmented=functools.partial(augment, how=how),
    )


def to_evaluate_on(job: RoundJob, source: Split | Recordings) -> Clips:
    """Return clips as they were recorded."""
    slots = slots_of(job, source.labels())
    return gather(source, job.work.round_id, slots, job.model, np.random.default_rng(0), copies=0, noise=None)


def public_clips(job: RoundJob, own: Clips) -> Clips:
    """Return the public set with the device's slots: recordings, and impressions of classes without own clips."""
    public = job.context.public_set
    places = {slot_class: slot for slot, slot_class in enumerate(job.label_map.class_ids) if slot_class is not None}
    slots = np.array([places.get(class_id, -1) for class_id in public.class_ids], np.int64)[public.labels]
    used = (slots >= 0) & ~(public.synthetic & np.isin(slots, own.slots))
    return Clips(job.model.normalise(public.features[used])[None], slots[used])


def slots_of(job: RoundJob, labels: tuple[str, ...]) -> dict[str, int]:
    """Return the slot of every label that has one."""
    return {label: job.label_map.slot_of(label) for label in labels if label in job.label_map.names}
