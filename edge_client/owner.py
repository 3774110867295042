"""A device as its owner teaches it, which commands and the owner's page share: configuration, clips, unknown sounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from edge_client.clips.folders import check_folder, check_label, is_label, known_labels, own_labels, rejected
from edge_client.clips.store import ClipStore
from edge_client.clips.unknown_clips import DetectedClips, UnknownClips
from edge_client.config import Config, load_config
from edge_client.detection.sound_names import Guesser
from edge_client.errors import ClipError
from edge_client.learning.forgotten_labels import forget_noted, note_forgotten
from edge_client.storage.device_state import DeviceState
from edge_client.storage.fleet_classes import Offer
from edge_client.storage.saved_model import Progress
from fleet_protocol.bundle.bundle_file import Manifest, read_bundle
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.numbers.joint_statistics import unpack_statistics


@dataclass(frozen=True)
class Teaching:
    """A device as its owner teaches it; stores, and the model, are opened where they are needed."""

    config: Config
    manifest: Manifest
    store: ClipStore

    @classmethod
    def open(cls, config_path: Path) -> Teaching:
        """Read the configuration, and what the bundle says of itself."""
        config = load_config(config_path)
        manifest = read_bundle(config.bundle).manifest
        store = ClipStore(config.clips_folder, config.clips, manifest.feature_settings.sample_rate_hz)
        return cls(config, manifest, store)

    @cached_property
    def state(self) -> DeviceState:
        """All of the state folder."""
        return DeviceState(self.config.device.state)

    @property
    def settings(self) -> FeatureSettings:
        """How sound becomes the model's features."""
        return self.manifest.feature_settings

    @cached_property
    def progress(self) -> Progress:
        """What the model learned. Raises StateError if it is damaged, or of another bundle."""
        return self.state.model.load(self.config.bundle).progress

    @cached_property
    def unknown(self) -> UnknownClips:
        """Unknown sounds, which wait for a name."""
        return UnknownClips(self.state.unknown_folder, self.config.clips, self.settings.sample_rate_hz)

    @cached_property
    def detected(self) -> DetectedClips:
        """Detected sounds, which wait to be confirmed."""
        return DetectedClips(self.state.detected_folder, self.config.clips, self.settings.sample_rate_hz)

    @property
    def label_map(self) -> LabelMap:
        """What the model knows by now."""
        return self.progress.label_map

    @property
    def learns_by_itself(self) -> bool:
        """Whether the daemon learns what the owner teaches; else rounds alone do."""
        return self.config.microphone is not None and bool(self.manifest.background)

    def class_of(self, label: str) -> str | None:
        """Return the fleet's class of a label that the owner did not teach; None where it is none."""
        if label not in self.label_map.labels or label in self.own:
            return None
        return self.label_map.class_ids[self.label_map.slot_of(label)]

    def known_labels(self) -> list[str]:
        """Return what the model knows, and what it has yet to learn from clips, in alphabetical order."""
        return sorted({*self.label_map.labels, *self.own})

    @property
    def chosen(self) -> dict[str, str]:
        """The built-in sounds that the owner chose, by label."""
        return known_labels(self.store.folder)

    @property
    def own(self) -> set[str]:
        """The labels that the owner taught, or chose of the built-in sounds."""
        return own_labels(self.store.folder)

    @cached_property
    def offered(self) -> tuple[str, ...]:
        """The built-in sounds, of which an owner chooses.

        What only the pretraining calls so (``beijing_4``) means nothing to people, and is none of them.
        """
        statistics = _unpacked(self.manifest.statistics)
        return () if statistics is None else tuple(name for name in statistics.known.names if "_" not in name)

    @property
    def guesser(self) -> Guesser | None:
        """What says what a sound may be; None where the bundle hears no sounds."""
        return Guesser.of(self.settings, _unpacked(self.manifest.statistics))

    def offers(self) -> tuple[Offer, ...]:
        """Return the sounds that others of the fleet teach, and the owner does not."""
        return self.state.offers.of_others(self.label_map, self.own)

    def require_slot(self, label: str) -> str:
        """Return a label as it is stored. Raises ClipError if it cannot be one, or the model has no slot for it."""
        label = check_label(label)
        own = self.own  # sounds of others make room
        if label not in own and len(own) >= self.manifest.slots:
            raise ClipError(
                f"no slot is free for {label!r}: you taught or chose {len(own)} sounds, and the model's head has "
                f"{self.manifest.slots} slots; build a bundle with a larger --capacity"
            )
        return label

    def require_rejectable(self, label: str) -> str:
        """Return the folder of what is not a label. Raises ClipError if nobody taught it, or none can be learned."""
        if not self.manifest.background:
            raise ClipError(
                "this bundle has no output for what is no label, so nothing can be learned from what is not a sound; "
                "build it on a front end that carries the words of its pretraining (docs/models.md)"
            )
        known = self.known_labels()
        if check_label(label) not in known:
            raise ClipError(f"no sound is called {label!r}; known: {', '.join(known) or 'none'}")
        return rejected(check_label(label))

    def require_folder(self, folder: str) -> str:
        """Return a folder of the store, a label's with a slot, or a reserved one. Raises as :meth:`require_slot`."""
        return self.require_slot(folder) if is_label(folder) else check_folder(folder)

    def forget_emptied(self, labels: Iterable[str]) -> list[str]:
        """Take labels out of the model that have no clips any more, while the store is held; return lines to show.

        Raises EdgeError if the model cannot be read.
        """
        emptied = sorted({label for label in labels if is_label(label)} - self.own)
        if not emptied:
            return []
        note_forgotten(self.state, emptied)
        at_once = forget_noted(self.config, self.state)
        later = "" if at_once else ", once the present training has ended"
        return [f"{label!r} has no clips any more: its name leaves the model{later}" for label in emptied]

    def after(self, *, terminal: bool = True) -> str:
        """Say what happens to what was taught; on a terminal, with the command that says more."""
        if not self.learns_by_itself:
            return "The next round learns from them."
        hint = " `auricle-edge status` then says what would help." if terminal else ""
        return f"The daemon, where it runs, learns from them: seconds on a PC, a minute or two on a small board.{hint}"


@lru_cache(maxsize=1)
def _unpacked(statistics: tuple[bytes, ...]) -> EmbeddingStatistics | None:
    """Return a manifest's statistics, which a small board is slow to unpack for each request of the page."""
    return unpack_statistics(statistics)
