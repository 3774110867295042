"""Devices of private rounds with noise: their clips lie about words of a front end that comes with Auricle."""

from dataclasses import dataclass

import numpy as np

from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo, Work
from fleet_protocol.secure_sums.bounded_sums import BoundedLayout, directions_of
from tests.support.private_device import PrivateDevice

MANIFEST = read_bundle(find_bundle("base_int8")).manifest
STATISTICS = MANIFEST.embedding_statistics
SHAPE = MANIFEST.feature_settings.shape


def clips(word: int, count: int, rng: np.random.Generator) -> np.ndarray:
    return STATISTICS.draw(STATISTICS.means[word], count, rng)[:, None]


def noisy_public_set() -> PublicSet:
    rng = np.random.default_rng(7)
    features = np.concatenate([clips(word, 30, rng) for word in range(4)])
    classes = tuple(ClassInfo(f"c{word}", f"word{word}") for word in range(4))
    labels, settings = np.repeat(np.arange(4), 30), MANIFEST.feature_settings
    return PublicSet(settings, classes, features, labels, np.zeros(120, np.bool_))


@dataclass
class NoisyDevice(PrivateDevice):
    settings: object = MANIFEST.feature_settings

    def directions(self) -> dict[int, tuple[np.ndarray, int]]:
        rng = np.random.default_rng([self.number, 3])
        means = {int(one[1:]): clips(int(one[1:]), 4, rng).mean(axis=0) for one in self.classes}
        return {word: (directions_of(STATISTICS, mean)[0], 4) for word, mean in means.items()}

    def numbers(self, work: Work) -> np.ndarray:
        layout = BoundedLayout.of(work.plan, len(work.classes), SHAPE)
        key = np.random.default_rng([self.number, work.round_id, 4]).bytes(32)  # whatever the deal is
        return layout.own(self.directions()) + layout.noise(self.roster(work).fewest, key)
