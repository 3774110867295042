"""Speech Commands' ten keywords, as log-mel pictures, which several studies take their clips from."""

from __future__ import annotations

from typing import Any

from fleet_simulator.experiment.sections import DataSection
from studies.scale import Scale

KEYWORDS = ("down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes")


def keyword_clips(scale: Scale, **settings: Any) -> DataSection:  # noqa: ANN401  (what DataSection takes)
    """Return ``[data]`` of the keywords' pictures; ``settings`` as there.

    Raises:
        BenchmarkError: the archive is not there.
    """
    return DataSection("log_mel", scale.data("gsc_v2_logmel_jpg.zip"), KEYWORDS, **settings)
