"""How audio becomes features: settings that model, device and public set must share, and their digest.

Different front ends in training and on the device are the classic silent failure of keyword spotting, so a digest
of these settings stands in every bundle, upload and public set, and a mismatch is refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from fleet_protocol.errors import FeatureMismatchError, ProtocolError

_LARGEST = 1_000_000_000


@dataclass(frozen=True)
class FeatureSettings:
    """Mel-frequency cepstral coefficients of one clip: HTK mel scale, orthonormal DCT-II.

    Attributes:
        preset: the name people use, part of messages only (not of the digest).
        sample_rate_hz: rate at which samples enter.
        clip_s: length of a clip in seconds; shorter clips are padded with zeros, longer ones cropped.
        window_s: window length in seconds (rectangular window).
        hop_s: seconds from one window to the next.
        frames: windows in a clip.
        coefficients: cepstral coefficients kept.
        mel_bands: triangular mel filters.
        fft_size: points of the FFT, at least the window's samples.
        low_hz: lower edge of the lowest filter.
        high_hz: upper edge of the highest filter.
        pre_emphasis: y[t] = x[t] - pre_emphasis * x[t-1].
        lifter: cepstral lifter L, coefficient n times 1 + L/2 sin(pi n / L); 0 switches it off.
        log_energy: whether coefficient 0 is the log of the frame's energy.
    """

    preset: str
    sample_rate_hz: int
    clip_s: float
    window_s: float
    hop_s: float
    frames: int
    coefficients: int
    mel_bands: int
    fft_size: int
    low_hz: float
    high_hz: float
    pre_emphasis: float = 0.97
    lifter: int = 22
    log_energy: bool = True

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
        """(frames, coefficients) of one clip's features."""
        return (self.frames, self.coefficients)

    @property
    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 over every field but the preset's name."""
        fields = dataclasses.asdict(self)
        del fields["preset"]
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]

    def describe(self) -> str:
        """Return the settings on one line, for error messages."""
        fields = ", ".join(f"{key}={value}" for key, value in dataclasses.asdict(self).items())
        return f"{self.digest} ({fields})"

    def require_same(self, other: FeatureSettings, ours: str, theirs: str) -> None:
        """Refuse features that were computed in another way.

        Raises:
            FeatureMismatchError: with both settings in the message.
        """
        if self.digest != other.digest:
            raise FeatureMismatchError(
                f"{theirs} and {ours} compute features differently, so their numbers cannot be compared.\n"
                f"  {ours}: {self.describe()}\n  {theirs}: {other.describe()}\n"
                "Use a bundle and a public set that were built with the same --features."
            )

    def to_json(self) -> dict[str, object]:
        """Return every field, JSON-ready."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> FeatureSettings:
        """Read what :meth:`to_json` wrote.

        Raises:
            ProtocolError: a field is missing, unknown or of a wrong type.
        """
        fields: dict[str, object] = {}
        for field in dataclasses.fields(cls):
            value = document.get(field.name, field.default)
            if isinstance(value, (int, float)) and not abs(value) <= _LARGEST:  # holds for NaN too
                raise ProtocolError(f"feature setting {field.name!r} must be finite and sensible, not {value!r}")
            if field.type == "float" and type(value) is int:
                value = float(value)
            if type(value).__name__ != field.type:
                raise ProtocolError(f"feature setting {field.name!r} must be a {field.type}, not {value!r}")
            fields[field.name] = value
        unknown = sorted(set(document) - set(fields))
        if unknown:
            raise ProtocolError(f"unknown feature setting {unknown[0]!r}; known: {', '.join(fields)}")
        return cls(**fields)  # type: ignore[arg-type]


PRESETS: dict[str, FeatureSettings] = {
    # Gudur & Perepu 2021, appendix B: 14,400 Hz, 20 windows of 50 ms.
    "gudur": FeatureSettings(
        "gudur", 14_400, 1.0, 0.05, 0.05, frames=20, coefficients=13, mel_bands=26, fft_size=1024,
        low_hz=0.0, high_hz=7_200.0,
    ),
    # Zhang et al. 2017 (Hello Edge): 40 ms windows every 20 ms, 10 coefficients.
    "hello_edge": FeatureSettings(
        "hello_edge", 16_000, 1.0, 0.04, 0.02, frames=49, coefficients=10, mel_bands=40, fft_size=1024,
        low_hz=20.0, high_hz=4_000.0,
    ),
    # Li et al. 2022 (FedKWS-UI): 40 coefficients, 30 ms windows every 10 ms.
    "kws40": FeatureSettings(
        "kws40", 16_000, 1.0, 0.03, 0.01, frames=98, coefficients=40, mel_bands=40, fft_size=512,
        low_hz=20.0, high_hz=8_000.0,
    ),
}  # fmt: skip


def preset(name: str) -> FeatureSettings:
    """Return the settings of a preset.

    Raises:
        ProtocolError: there is no preset of that name.
    """
    if name not in PRESETS:
        raise ProtocolError(f"unknown feature preset {name!r}; known: {', '.join(PRESETS)}")
    return PRESETS[name]
