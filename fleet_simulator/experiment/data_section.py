"""``[data]``: which clips a fleet has, and what is done to them (docs/simulator.md lists the keys)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from fleet_simulator.errors import require

SOURCES = ("synthetic", "recordings", "speech_commands", "log_mel", "urbansound8k", "crema_d", "iemocap")
NOISY = ("devices", "all")


@dataclass(frozen=True)
class DataSection:
    """``[data]``.

    Attributes:
        source: a layout of recordings, ``log_mel`` or ``synthetic``.
        path: the recordings' folder, or the log-mel archive.
        labels: the classes, in the order of their slots; none given: those that are there, in alphabetical order.
        test: share of the speakers that no device has; the global model is judged by their clips.
        public: share of the speakers whose clips are the public set.
        clips: of synthetic data: how many.
        classes: of synthetic data: how many.
        speakers: how many there are of synthetic data (200), or are used of other data: drawn with the seed; none
            given: all.
        noise: of synthetic data: standard deviation around a class's picture.
        windows: clips that are cut from every recording, equally far from one another; 1: its loudest stretch.
        snr_db: power of recordings over that of white noise in them, in dB; infinite: there is none.
        noisy: whose clips have it: those on ``devices``, or ``all``.
        variants: augmented copies that a device has of each of its clips, moved in time and with background noise.
        background: folder of noise for these; a log-mel archive brings its own.
    """

    source: str
    path: Path | None = None
    labels: tuple[str, ...] = ()
    test: float = 0.2
    public: float = 0.0
    clips: int = 10_000
    classes: int = 10
    speakers: int | None = None
    noise: float = 2.0
    windows: int = 1
    snr_db: float = math.inf
    noisy: str = "devices"
    variants: int = 0
    background: Path | None = None

    def __post_init__(self) -> None:
        require(self.source in SOURCES, "source", self.source, f"must be {', '.join(SOURCES)}")
        require(self.source == "synthetic" or self.path is not None, "source", self.source, "needs the key 'path'")
        require(0 < self.test < 1, "test", self.test, "must be above 0 and below 1")
        require(0 <= self.public < 1 - self.test, "public", self.public, "must leave clips beside those of 'test'")
        for key in ("clips", "classes"):
            require(getattr(self, key) >= 2, key, getattr(self, key), "must be at least 2")
        require(self.speakers is None or self.speakers >= 2, "speakers", self.speakers, "must be at least 2")
        require(self.noise >= 0, "noise", self.noise, "must not be negative")
        require(self.snr_db >= -50, "snr_db", self.snr_db, "must be at least -50")
        require(self.noisy in NOISY, "noisy", self.noisy, f"must be {', '.join(NOISY)}")
        require(0 <= self.variants <= 100, "variants", self.variants, "must be from 0 to 100")
        require(1 <= self.windows <= 100, "windows", self.windows, "must be from 1 to 100")
        require(len(set(self.labels)) == len(self.labels), "labels", list(self.labels), "must name each label once")
        self._require_of_source()

    def _require_of_source(self) -> None:
        """Refuse keys that say nothing about the clips of this source."""
        without = {"synthetic": ("windows", "snr_db", "variants", "background"), "log_mel": ("windows", "background")}
        for key in without.get(self.source, ()):
            value = getattr(self, key)
            require(
                value == getattr(DataSection, key), key, value, f"is not for the source {self.source!r}; leave it out"
            )
        require(
            not self.background or self.variants > 0, "background", str(self.background), "needs 'variants' above 0"
        )

    @property
    def seeded(self) -> bool:
        """Whether the clips themselves depend on the experiment's seed."""
        return self.source == "synthetic" or self.speakers is not None or self.changed

    @property
    def changed(self) -> bool:
        """Whether devices have noise in their clips, or variants of them."""
        return math.isfinite(self.snr_db) or self.variants > 0
