"""The front ends that are measured side by side: each a bundle, and what is known of the words that it never heard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bundles import ARCHITECTURES, build_bundles, find_bundles
from benchmarks.listening.material import Half
from fleet_protocol.bundle import read_bundle


@dataclass(frozen=True)
class FrontEnd:
    """One that is measured.

    Attributes:
        name: as it was asked for: a network of the zoo on cepstra, ``base``, or a file's name.
        bundle: file of the bundle.
        pretrained: words that its network heard in pretraining; none for cepstra.
    """

    name: str
    bundle: Path
    pretrained: tuple[str, ...]

    def unseen(self, half: Half) -> list[str]:
        """Return the other words of a half that the network never heard; all of them for cepstra."""
        return sorted({clip.word for clip in half.clips if clip.label is None} - set(self.pretrained))

    def unseen_share(self, half: Half) -> float:
        """Return the share of the other words' clips that are of words that the network never heard, 0..1."""
        words = [clip.word for clip in half.clips if clip.label is None]
        unseen = set(self.unseen(half))
        return sum(word in unseen for word in words) / max(1, len(words))


def front_ends(names: Sequence[str], build: Path, bundles: Path | None) -> list[FrontEnd]:
    """Return front ends by name; each of ``cnn2``, ``base``, ``FILE.frontend`` and the like.

    Args:
        names: networks of the zoo stand for cepstra (`gudur`), anything else for a head `linear` on that front end.
        build: folder for bundles that are built.
        bundles: folder that holds the bundle NAME.auricle of each; None: they are built.

    Raises:
        BenchmarkError: a bundle is missing or cannot be built.
    """
    stems = [Path(name).stem for name in names]
    paths = find_bundles(bundles, stems) if bundles else _built(names, build)
    return [FrontEnd(stem, path, _pretrained(path)) for stem, path in zip(stems, paths.values(), strict=True)]


def _built(names: Iterable[str], build: Path) -> dict[str, Path]:
    paths = {}
    for number, name in enumerate(names):
        folder = build / str(number)
        architecture = name if name in ARCHITECTURES else "linear"
        build_bundles(folder, [architecture], *(() if name in ARCHITECTURES else ("--features", name)))
        paths[name] = find_bundles(folder, [architecture])[architecture]
    return paths


def _pretrained(bundle: Path) -> tuple[str, ...]:
    statistics = read_bundle(bundle).manifest.embedding_statistics
    return statistics.words if statistics else ()
