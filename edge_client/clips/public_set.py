"""Builds the public set D_0 of Gudur & Perepu 2021 (section 2.1) from a folder of recordings."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from edge_client.audio.recordings import Recordings
from edge_client.errors import RecordingError
from edge_client.features.front_end import FrontEnd, open_front_end
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo
from fleet_protocol.numbers.arrays import Floats

MANY = 100
"""Clips of a label where their number is not given and there are more."""


def build_public_set(
    folder: Path,
    settings: FeatureSettings,
    labels: Sequence[str] | None,
    per_label: int | None,
    seed: int = 0,
    advance: Callable[[int, int], None] = lambda _done, _of: None,
) -> PublicSet:
    """Draw clips of some labels and compute their features; class identifiers and names are the labels.

    Args:
        folder: recordings as ``<label>/*.wav|flac|ogg|opus|mp3``.
        labels: the fleet's first classes, in column order; None: all that are there.
        per_label: clips of each; damaged ones are replaced by others. None: as many as the rarest label has, at most
            :data:`MANY`.
        seed: decides which clips are drawn; not negative.
        advance: called before each label, with the number of labels that are done, and of all.

    Raises RecordingError if a label is missing, named twice, or has too few usable clips.
    """
    recordings = Recordings(folder, settings, seed=seed)
    labels = recordings.labels() if labels is None else labels
    if per_label is None:
        per_label = max(1, min([MANY, *(len(recordings.clips(label)) for label in labels)]))
    _require_labels(recordings, labels, per_label)
    front_end = open_front_end(settings)
    features = []
    for i, label in enumerate(labels):
        advance(i, len(labels))
        features.append(_draw(recordings, label, per_label, np.random.default_rng([seed, i]), front_end))
    return PublicSet(
        settings=settings,
        classes=tuple(ClassInfo(label, label) for label in labels),
        features=np.concatenate(features),
        labels=np.repeat(np.arange(len(labels), dtype=np.int64), per_label),
        synthetic=np.zeros(len(labels) * per_label, np.bool_),
    )


def _require_labels(recordings: Recordings, labels: Sequence[str], per_label: int) -> None:
    present = recordings.labels()
    if not labels and not present:
        folder = recordings.folder
        files = sum(path.is_file() for path in folder.iterdir()) if folder.is_dir() else 0
        raise RecordingError(
            f"{folder} has no recordings of any label: each label needs a folder of its own, as in "
            f"{folder}/LABEL/*.wav; found there: {files} files that are in no such folder"
        )
    if not labels or len(set(labels)) != len(labels):
        raise RecordingError(
            f"a public set needs labels, each once, not {', '.join(labels) or 'none'}; "
            f"present: {', '.join(present) or 'none'}"
        )
    if per_label < 1:
        raise RecordingError(f"a public set needs at least 1 clip per label, not {per_label}")
    for label in labels:
        if label not in present:
            raise RecordingError(
                f"no recordings of {label!r} in {recordings.folder}; present: {', '.join(present) or 'none'}"
            )


def _draw(recordings: Recordings, label: str, wanted: int, rng: np.random.Generator, front_end: FrontEnd) -> Floats:
    """Return float32 [wanted, frames, coefficients] of random clips of a label."""
    clips = recordings.clips(label)
    drawn = [clips[i] for i in rng.permutation(len(clips))]
    parts: list[Floats] = []
    missing = wanted
    while missing and drawn:
        batch, drawn = drawn[: min(missing, 64)], drawn[min(missing, 64) :]
        parts.append(front_end(recordings.load(batch)))
        missing -= len(parts[-1])
    if missing:
        raise RecordingError(
            f"{label!r} has {wanted - missing} usable clips of {len(clips)} in {recordings.folder}, "
            f"but {wanted} are wanted; ask for fewer per label, or add recordings"
        )
    return np.concatenate(parts)
