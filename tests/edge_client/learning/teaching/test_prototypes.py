"""What a label's windows are compared with, of takes that resemble one another more or less."""

import numpy as np

from edge_client.detection.scores import TABLE, Scorer
from edge_client.detection.thresholds import logits
from edge_client.learning.teaching.fleet_sounds import FleetSounds
from edge_client.learning.teaching.heard import Before, Embeddings
from edge_client.learning.teaching.material import material_of
from edge_client.learning.teaching.prototypes import prototypes_of
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.bundle.ready_bundles import find_bundle


def test_a_word_whose_takes_differ_need_not_come_nearer_than_they_do_to_one_another():
    bundle = read_bundle(find_bundle("words"))
    manifest, statistics, rng = bundle.manifest, bundle.manifest.embedding_statistics, np.random.default_rng(0)

    def varied(means):
        """Takes, each clean and in four variants, float32 [takes, 5, numbers]."""
        return np.stack([statistics.draw(mean, 5, rng) for mean in means])

    same = varied(np.repeat(statistics.means[[3]], 5, axis=0))
    takes = {"alike": same, "two": same[:2], "different": varied(statistics.means[10:15])}
    labels = LabelMap(manifest.capacity, reserved=len(manifest.background))
    for name in takes:
        labels = labels.add(name)
    nothing = np.zeros((0, same.shape[-1]), np.float32)
    order = Before(same[None, :, 1:].reshape(1, 20, -1), 0.8)
    heard = Embeddings(takes, nothing, nothing, before={"different": order})
    found = prototypes_of(material_of(labels, (), heard, manifest, FleetSounds()))
    assert found["two"].neutral == 1.0  # of two takes it cannot be said
    assert found["alike"].neutral > TABLE.neutral
    assert 0 < found["different"].neutral < TABLE.neutral - 0.1

    model, windows = ModelRuntime(bundle), same[:, :1]
    as_all = {name: one._replace(neutral=1.0) for name, one in found.items()}
    now, before = (logits(Scorer(model, labels, near)(windows)) for near in (found, as_all))
    np.testing.assert_allclose(now[:, :2], before[:, :2])
    assert (now[:, 2] > before[:, 2] + 1).any()
