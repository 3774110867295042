"""Per-coefficient mean and standard deviation of features, which a bundle carries.

Taken once over a corpus and then fixed: every device must scale a sound in the same way, or scores of one device
would mean nothing to another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fleet_protocol.arrays import Floats
from fleet_protocol.feature_settings import FeatureSettings, preset
from model_export.errors import ExportError


@dataclass(frozen=True)
class Normalisation:
    """Mean and standard deviation of every coefficient; both [coefficients]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def measure(cls, features: Floats) -> Normalisation:
        """Measure features [clips, frames, coefficients] over clips and frames.

        Raises:
            ExportError: there is a coefficient that never changes, or there are no clips.
        """
        if not len(features):
            raise ExportError("no clips to measure the features' mean and deviation on")
        mean, std = features.mean((0, 1), dtype=np.float64), features.std((0, 1), dtype=np.float64)
        if std.min() < 1e-6:
            raise ExportError(
                f"coefficient {int(std.argmin())} has the same value in all {len(features)} clips; "
                "give --recordings a folder of real sounds"
            )
        return cls(tuple(float(round(v, 4)) for v in mean), tuple(float(round(v, 4)) for v in std))

    @classmethod
    def default(cls, settings: FeatureSettings) -> Normalisation:
        """Return what was measured on speech for a preset.

        Raises:
            ExportError: these settings are no preset's.
        """
        if settings.preset not in _SPEECH or preset(settings.preset).digest != settings.digest:
            raise ExportError(
                f"no speech was measured with the feature settings {settings.describe()}; "
                "give --recordings a folder of clips to measure"
            )
        return cls(*_SPEECH[settings.preset])


# Measured with edge_client.features.front_end over the 3,188 clips of the ten keywords in the test set of Google Speech
# Commands v2 (Warden 2018), each padded to 1 s; for `gudur` resampled from 16,000 to 14,400 Hz.
_SPEECH: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "gudur": (
        (-6.88, -7.2, -6.54, -5.58, -10.35, -3.37, -4.78, -4.0, -3.49, -2.12, -4.38, -3.89, -4.03),
        (5.65, 16.94, 14.93, 15.22, 16.66, 15.53, 15.39, 14.47, 14.04, 13.47, 12.6, 11.88, 11.05),
    ),
    "hello_edge": (
        (-7.15, -10.26, -6.77, -11.32, -5.21, -5.03, -3.67, -3.29, -5.05, -4.33),
        (5.62, 17.27, 17.45, 17.49, 18.65, 17.17, 17.56, 17.54, 17.14, 16.54),
    ),
    "kws40": (
        (
            -7.51, -8.46, -9.63, -4.51, -14.78, -3.05, -7.83, -0.97, -7.91, 1.69, -7.63, 0.31, -6.23, 3.47,
            -3.66, 0.97, -3.47, 1.13, -3.05, -0.82, -0.94, 0.17, -0.21, -0.07, 0.11, 0.16, 1.41, 0.86, 1.78,
            0.72, 0.83, 0.31, 0.71, -0.91, -0.44, -0.84, 0.04, -0.22, 0.01, -0.07,
        ),
        (
            5.63, 20.94, 18.16, 18.03, 19.3, 19.01, 19.37, 17.97, 17.52, 17.54, 16.63, 15.68, 14.39, 13.42,
            11.92, 10.74, 9.07, 7.61, 6.18, 4.76, 3.36, 2.01, 0.75, 0.41, 1.46, 2.35, 3.02, 3.74, 4.37, 4.76,
            5.03, 5.21, 5.32, 5.28, 5.01, 4.56, 4.16, 3.74, 3.3, 2.5,
        ),
    ),
    "log_mel": (
        (
            -6.38, -5.34, -4.69, -4.45, -4.29, -4.44, -4.72, -4.77, -5.01, -4.99, -4.98, -5.09, -5.14, -5.26,
            -5.39, -5.55, -5.68, -5.92, -6.08, -6.24, -6.33, -6.5, -6.6, -6.7, -6.81, -6.95, -7.08, -7.25, -7.34,
            -7.37, -7.36, -7.33, -7.35, -7.42, -7.49, -7.53, -7.56, -7.58, -7.64, -7.74,
        ),
        (
            4.65, 4.76, 4.9, 5.01, 5.06, 5.06, 4.99, 4.95, 5.03, 5.16, 5.25, 5.29, 5.35, 5.35, 5.26, 5.14, 5.04,
            4.93, 4.87, 4.82, 4.75, 4.67, 4.58, 4.47, 4.41, 4.36, 4.3, 4.22, 4.17, 4.16, 4.19, 4.23, 4.27, 4.27,
            4.24, 4.22, 4.2, 4.18, 4.14, 4.09,
        ),
    ),
}  # fmt: skip
