"""Words as a made-up network embeds them: each has a centre, and its clips scatter about it alike."""

from dataclasses import asdict, dataclass

import numpy as np

from fleet_protocol.bundle.feature_settings import PRESETS, EmbeddingSettings, FrozenNetwork
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo
from tests.support.aggregator_process import FakeDevice

NUMBERS = 12
_MEL = asdict(PRESETS["log_mel"]) | {"preset": "any"}
SETTINGS = EmbeddingSettings(**_MEL, numbers=NUMBERS, network=FrozenNetwork.of(b"a network"))
WORDS = ("yes", "no", "up", "down")
SPREAD = np.random.default_rng(4).normal(size=(NUMBERS, NUMBERS)) / 3
CENTRES = dict(zip((*WORDS, "stop", "go"), 4 * np.random.default_rng(1).normal(size=(6, NUMBERS)), strict=True))


def clips(word, count, rng):
    return (CENTRES[word] + rng.normal(size=(count, NUMBERS)) @ SPREAD).astype(np.float32)[:, None]


def embedded_public_set(rng: np.random.Generator) -> PublicSet:
    """Thirty recordings of each of the words."""
    features = np.concatenate([clips(word, 30, rng) for word in WORDS])
    classes = tuple(ClassInfo(f"c{index}", word) for index, word in enumerate(WORDS))
    return PublicSet(SETTINGS, classes, features, np.repeat(np.arange(4), 30), np.zeros(120, np.bool_))


def described(words, denied, takes, rng, of_denied=3):
    """The arrays of an upload: means of clips of words, and of sounds that an owner said are not a class."""
    arrays = {"prototypes": np.stack([clips(word, takes, rng).mean(axis=0) for word in words])}
    arrays["counts"] = np.full(len(words), takes, np.float32)
    if denied:
        arrays["negatives"] = np.stack([clips(word, of_denied, rng).mean(axis=0) for _, word in denied])
        arrays["negative_counts"] = np.full(len(denied), of_denied, np.float32)
    return arrays


@dataclass
class PrototypeDevice(FakeDevice):
    """What a device sends in a round of the strategy `prototypes`, without a model behind it."""

    settings: object = SETTINGS
    denied: tuple[tuple[str, str], ...] = ()  # (class, word that its owner said it is not) pairs

    def update(self, work: dict, **changes):
        return super().update(work, known=self.classes, negatives=tuple(one for one, _ in self.denied), **changes)

    def arrays(self, work: dict, samples: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng([self.number, 3])
        sounds = {7: "stop", 8: "go"}
        words = [WORDS[int(class_id[1:])] for class_id in self.classes]
        words += [sounds[self.sounds[report.slot]] for report in self.reports]
        return described(words, self.denied, 6, rng)
