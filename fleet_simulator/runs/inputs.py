"""What runs read: clips and models. Runs of one process that are given the same inputs do not read them again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from pathlib import Path

from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import Bundle, Manifest, read_bundle
from fleet_protocol.numbers.arrays import Floats
from fleet_simulator.data.corpora import Corpus, read_corpus
from fleet_simulator.experiment.sections import DataSection


class CountedModel(ModelRuntime):
    """One opened model."""

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        self.samples = 0

    def train_step(self, x: Floats, targets: Floats, mask: Floats, **settings: float) -> float:
        """Take one step; see :meth:`ModelRuntime.train_step`."""
        self.samples += len(x)
        return super().train_step(x, targets, mask, **settings)


_CORPORA = 3


class Inputs:
    """Corpora, bundles and opened models, kept for the next run. A file that changes is read anew."""

    def __init__(self) -> None:
        self._corpora: OrderedDict[Hashable, Corpus] = OrderedDict()
        self._bundles: dict[Hashable, Bundle] = {}
        self._models: dict[Hashable, CountedModel] = {}

    def corpus(self, data: DataSection, manifest: Manifest, seed: int) -> Corpus:
        """Return the clips that ``[data]`` names; those of the last three sections stay in memory."""
        scaled = manifest.feature_settings.digest, manifest.mean, manifest.std, manifest.capacity
        key = (data, _stamp(data.path), scaled, seed if data.seeded else None)
        if key not in self._corpora:
            self._corpora[key] = read_corpus(data, manifest, seed)
        self._corpora.move_to_end(key)
        while len(self._corpora) > _CORPORA:
            self._corpora.popitem(last=False)
        return self._corpora[key]

    def bundle(self, path: Path) -> Bundle:
        """Return a bundle. Raises BundleError: it cannot be read."""
        key = path, _stamp(path)
        if key not in self._bundles:
            self._bundles[key] = read_bundle(path)
        return self._bundles[key]

    def model(self, path: Path, which: str) -> CountedModel:
        """Return an opened model, another for every ``which``, with the weights it had last. Raises as it opens."""
        key = path, _stamp(path), which
        if key not in self._models:
            self._models[key] = CountedModel(self.bundle(path))
        return self._models[key]


def _stamp(path: Path | None) -> tuple[int, int]:
    """Return what changes when a file does; zeros where there is none."""
    if path is None or not path.exists():
        return (0, 0)
    status = path.stat()
    return status.st_mtime_ns, status.st_size
