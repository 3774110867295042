"""How audio becomes features: settings that model, device and public set must share, and their digest.

Different front ends in training and on the device are the classic silent failure of keyword spotting, so a digest
of these settings stands in every bundle, upload and public set, and a mismatch is refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Self

from fleet_protocol.errors import FeatureMismatchError, ProtocolError
from fleet_protocol.numbers.tensors import is_digest

HTK = "htk"
"""Filters linear in Hz between edges on the HTK mel scale, after a periodic Hann window."""
KALDI_32K = "kaldi_32k"
"""Filters linear in mel as Kaldi's, after pre-emphasis and a Hann window as of sound at 32 kHz."""
_LARGEST = 1_000_000_000
_POSITIVE = ("sample_rate_hz", "clip_s", "window_s", "hop_s", "frames")


@dataclass(frozen=True)
class FeatureSettings:
    """Settings of a front end: from the samples of a clip to frames of numbers."""

    kind: ClassVar[str]

    preset: str  # Name that people use. It is part of messages only, not of the digest
    sample_rate_hz: int  # Rate at which samples enter, Hz
    clip_s: float  # Length of a clip, s. Shorter clips are padded with zeros, longer ones cropped
    window_s: float  # Length of a window, s
    hop_s: float  # Time from one window to the next, s
    frames: int  # Number of windows in a clip

    @property
    def clip_samples(self) -> int:
        """Samples of one clip."""
        return round(self.clip_s * self.sample_rate_hz)

    @property
    def window_samples(self) -> int:
        """Samples of one window."""
        return round(self.window_s * self.sample_rate_hz)

    @property
    def hop_samples(self) -> int:
        """Samples from one window's start to the next."""
        return round(self.hop_s * self.sample_rate_hz)

    @property
    def shape(self) -> tuple[int, int]:
        """(frames, numbers per frame) of one clip's features."""
        raise NotImplementedError

    @property
    def hears_sounds(self) -> bool:
        """Whether the front end's network knows everyday sounds rather than words."""
        return False

    @property
    def is_embedding(self) -> bool:
        """Whether a clip becomes the numbers of pretrained networks that hear it as a whole."""
        return isinstance(self, EmbeddingSettings | JointSettings)

    @property
    def networks(self) -> tuple[FrozenNetwork, ...]:
        """Networks of the front end, in order; none of cepstra."""
        return ()

    def with_networks(self, data: Sequence[bytes]) -> Self:  # noqa: ARG002  (cepstra have none)
        """Return the settings with the networks' TFLite files, in the order of :attr:`networks`."""
        return self

    @cached_property
    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 over the kind and every field but the preset's name."""
        fields = self.to_json()
        del fields["preset"]
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]

    def describe(self) -> str:
        """Return the settings on one line, for error messages."""
        fields = ", ".join(f"{key}={value}" for key, value in self.to_json().items())
        return f"{self.digest} ({fields})"

    def require_same(self, other: FeatureSettings, ours: str, theirs: str) -> None:
        """Refuse features that were computed in another way. Raises FeatureMismatchError: with both settings."""
        if self.digest != other.digest:
            raise FeatureMismatchError(
                f"{theirs} and {ours} compute features differently, so their numbers cannot be compared.\n"
                f"  {ours}: {self.describe()}\n  {theirs}: {other.describe()}\n"
                "Use a bundle and a public set that were built with the same --features."
            )

    def to_json(self) -> dict[str, object]:
        """Return the kind and every field, JSON-ready. Cepstra, which came first, name no kind."""
        kind: dict[str, object] = {} if self.kind == MfccSettings.kind else {"kind": self.kind}
        return kind | dataclasses.asdict(self)

    @staticmethod
    def from_json(document: object) -> FeatureSettings:
        """Read what :meth:`to_json` wrote.

        Raises ProtocolError: it is no object, the kind is unknown, or a field is missing, unknown, of a wrong type or
        out of range.
        """
        if not isinstance(document, Mapping):
            raise ProtocolError(f"the feature settings must be an object, not {document!r}")
        kind = document.get("kind", MfccSettings.kind)
        if not isinstance(kind, str) or kind not in _KINDS:
            raise ProtocolError(f"unknown kind of features {kind!r}; known: {', '.join(_KINDS)}; update the software")
        return _read(_KINDS[kind], {name: value for name, value in document.items() if name != "kind"})


@dataclass(frozen=True)
class MelSettings(FeatureSettings):
    """Settings of a front end that begins with triangular filters on the HTK mel scale."""

    mel_bands: int  # Number of triangular mel filters
    fft_size: int  # Points of the FFT, at least the window's samples
    low_hz: float  # Lower edge of the lowest filter, Hz
    high_hz: float  # Upper edge of the highest filter, Hz


@dataclass(frozen=True)
class MfccSettings(MelSettings):
    """Mel-frequency cepstral coefficients: HTK mel scale, rectangular window, orthonormal DCT-II."""

    kind = "mfcc"

    coefficients: int  # Number of cepstral coefficients kept
    pre_emphasis: float = 0.97  # Factor a in y[t] = x[t] - a x[t-1]
    lifter: int = 22  # Cepstral lifter L: coefficient n times 1 + L/2 sin(pi n / L). 0 switches it off
    log_energy: bool = True  # Whether coefficient 0 is the log of the frame's energy

    @property
    def shape(self) -> tuple[int, int]:
        """(frames, coefficients) of one clip's features."""
        return (self.frames, self.coefficients)


@dataclass(frozen=True)
class LogMelSettings(MelSettings):
    """Logarithms of the power in mel bands: Hann window, triangular filters with a peak of 1."""

    kind = "log_mel"

    floor: float = 1e-6  # Power that is added before the logarithm
    filters: str = HTK  # :data:`HTK`, or :data:`KALDI_32K`, whose upper edge may lie above half the sample rate

    @property
    def shape(self) -> tuple[int, int]:
        """(frames, mel bands) of one clip's features."""
        return (self.frames, self.mel_bands)

    def to_json(self) -> dict[str, object]:
        """Return the kind and every field, JSON-ready. HTK's filters go without saying: they came first."""
        return _without(super().to_json(), filters=HTK)


@dataclass(frozen=True)
class FrozenNetwork:
    """A network that is part of a front end and that nobody trains."""

    sha256: str  # Digest of the TFLite file, 64 hex digits. It alone travels, and stands in the features' digest
    data: bytes = field(default=b"", repr=False, compare=False)  # The TFLite file; empty where only its digest is known

    @classmethod
    def of(cls, data: bytes) -> FrozenNetwork:
        """Return the network of a file's bytes."""
        return cls(hashlib.sha256(data).hexdigest(), data)


@dataclass(frozen=True)
class EmbeddingSettings(MelSettings):
    """What a frozen, pretrained network makes of the log-mel features of a clip.

    The network takes float32 [clips, frames, mel bands] of (log-mel + offset) / scale and returns [clips, numbers].
    """

    kind = "embedding"

    numbers: int  # Size of the embedding
    network: FrozenNetwork  # The network
    offset: float = 6.0  # What is added to the log-mel features
    scale: float = 5.0  # What the sums are divided by
    floor: float = 1e-6  # Power that is added before the logarithm
    filters: str = HTK  # As of :class:`LogMelSettings`

    @property
    def shape(self) -> tuple[int, int]:
        """(1, numbers) of one clip's features."""
        return (1, self.numbers)

    @property
    def networks(self) -> tuple[FrozenNetwork, ...]:
        """The network."""
        return (self.network,)

    def with_networks(self, data: Sequence[bytes]) -> Self:
        """Return the settings with the network's TFLite file."""
        return dataclasses.replace(self, network=dataclasses.replace(self.network, data=data[0] if data else b""))

    @property
    def hears_sounds(self) -> bool:
        """Whether the filters are those of a network that heard AudioSet."""
        return self.filters == KALDI_32K

    @property
    def log_mel(self) -> LogMelSettings:
        """Settings of the log-mel features that the network takes."""
        shared = {item.name: getattr(self, item.name) for item in dataclasses.fields(LogMelSettings)}
        return LogMelSettings(**shared)

    def to_json(self) -> dict[str, object]:
        """Return the kind and every field, JSON-ready, of the network its digest alone; HTK's filters are left out."""
        return _without(super().to_json() | {"network": self.network.sha256}, filters=HTK)


@dataclass(frozen=True)
class JointSettings(FeatureSettings):
    """The numbers of two networks, one behind the other: of words, and of everyday sounds.

    That of sounds hears the whole clip, that of words the whole of it too or, of a longer one, a part.
    """

    kind = "words_and_sounds"

    words: EmbeddingSettings
    sounds: EmbeddingSettings

    def __post_init__(self) -> None:
        """Check that both can hear one clip. Raises ProtocolError: they cannot."""
        for name in ("sample_rate_hz", "window_s", "hop_s", "clip_s", "frames"):
            own, words, sounds = (getattr(settings, name) for settings in (self, self.words, self.sounds))
            if own != sounds or words > sounds or (words < sounds and name not in ("clip_s", "frames")):
                raise ProtocolError(
                    f"feature setting {name!r} is {own} of both, {words} of words and {sounds} of sounds: these do not "
                    "fit one another. Words may be heard in a part of the clip, all else must be the same"
                )

    @classmethod
    def of(cls, preset: str, words: EmbeddingSettings, sounds: EmbeddingSettings) -> JointSettings:
        """Join two front ends. Raises ProtocolError: they do not fit one another."""
        clip = {item.name: getattr(sounds, item.name) for item in dataclasses.fields(FeatureSettings)}
        return cls(**clip | {"preset": preset}, words=words, sounds=sounds)

    @property
    def shape(self) -> tuple[int, int]:
        """(1, numbers of both) of one clip's features."""
        return (1, self.words.numbers + self.sounds.numbers)

    @property
    def networks(self) -> tuple[FrozenNetwork, ...]:
        """The network of words, and that of sounds."""
        return (self.words.network, self.sounds.network)

    def with_networks(self, data: Sequence[bytes]) -> Self:
        """Return the settings with both TFLite files."""
        words, sounds = self.words.with_networks(data[:1]), self.sounds.with_networks(data[1:])
        return dataclasses.replace(self, words=words, sounds=sounds)

    def to_json(self) -> dict[str, object]:
        """Return the kind and every field, JSON-ready; the two front ends without a name of their own."""
        fields: dict[str, object] = {"kind": self.kind}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if isinstance(value, EmbeddingSettings):
                value = {name: part for name, part in value.to_json().items() if name not in ("kind", "preset")}
            fields[item.name] = value
        return fields


_KINDS = {settings.kind: settings for settings in (MfccSettings, LogMelSettings, EmbeddingSettings, JointSettings)}


def _without(document: dict[str, object], **usual: object) -> dict[str, object]:
    """Return a document without the fields that have their usual value."""
    return {name: value for name, value in document.items() if name not in usual or value != usual[name]}


def _read(kind: type[FeatureSettings], document: Mapping[str, object], within: str = "") -> FeatureSettings:
    """Read the settings of a kind; ``within``: what stands before a key where the document is part of another."""
    fields: dict[str, object] = {}
    for item in dataclasses.fields(kind):
        value, key = document.get(item.name, item.default), within + item.name
        if value is dataclasses.MISSING:
            raise ProtocolError(f"feature setting {key!r} is missing; take all settings from the bundle")
        if item.type == "FrozenNetwork":
            if not isinstance(value, str) or not is_digest(value):
                raise ProtocolError(f"feature setting {key!r} must be 64 hex digits, not {value!r}")
            value = FrozenNetwork(value)
        if item.type == "EmbeddingSettings":
            if not isinstance(value, dict):
                raise ProtocolError(f"feature setting {key!r} must be an object, not {value!r}")
            value = _read(EmbeddingSettings, value | {"preset": item.name}, f"{item.name}.")
        if isinstance(value, (int, float)) and not abs(value) <= _LARGEST:  # holds for NaN too
            raise ProtocolError(f"feature setting {key!r} must be finite and sensible, not {value!r}")
        if item.type == "float" and type(value) is int:
            value = float(value)
        if type(value).__name__ != item.type:
            raise ProtocolError(f"feature setting {key!r} must be a {item.type}, not {value!r}")
        if item.name in _POSITIVE and isinstance(value, (int, float)) and value <= 0:
            raise ProtocolError(f"feature setting {key!r} must be above 0, not {value!r}")
        fields[item.name] = value
    unknown = sorted(set(document) - set(fields))
    if unknown:
        raise ProtocolError(f"unknown feature setting {within + unknown[0]!r}; known: {', '.join(fields)}")
    return kind(**fields)  # type: ignore[arg-type]


# Gudur & Perepu 2021, appendix B: 14,400 Hz, 20 windows of 50 ms.
_GUDUR = MfccSettings(
    "gudur", 14_400, 1.0, 0.05, 0.05, 20, coefficients=13, mel_bands=26, fft_size=1024, low_hz=0.0, high_hz=7_200.0
)
# Zhang et al. 2017 (Hello Edge): 40 ms windows every 20 ms, 10 coefficients.
_HELLO_EDGE = MfccSettings(
    "hello_edge", 16_000, 1.0, 0.04, 0.02, 49, coefficients=10, mel_bands=40, fft_size=1024, low_hz=20.0, high_hz=4e3
)
# Li et al. 2022 (FedKWS-UI): 40 coefficients, 30 ms windows every 10 ms.
_KWS40 = MfccSettings(
    "kws40", 16_000, 1.0, 0.03, 0.01, 98, coefficients=40, mel_bands=40, fft_size=512, low_hz=20.0, high_hz=8_000.0
)
CEPSTRA: dict[str, MfccSettings] = {settings.preset: settings for settings in (_GUDUR, _HELLO_EDGE, _KWS40)}
PRESETS: dict[str, FeatureSettings] = {
    **CEPSTRA,
    # Those of the log-mel pictures of Speech Commands: 25 ms windows every 10 ms, 40 bands up to 4 kHz.
    "log_mel": LogMelSettings(
        "log_mel", 16_000, 1.0, 0.025, 0.01, 98, mel_bands=40, fft_size=512, low_hz=0.0, high_hz=4_000.0
    ),
}


def preset(name: str) -> FeatureSettings:
    """Return the settings of a preset. Raises ProtocolError: there is no preset of that name."""
    if name not in PRESETS:
        raise ProtocolError(f"unknown feature preset {name!r}; known: {', '.join(PRESETS)}")
    return PRESETS[name]
