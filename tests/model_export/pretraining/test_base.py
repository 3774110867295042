"""The front end that comes with the project: whole, within its limits, and as good as its model card says."""

import dataclasses

import numpy as np
import pytest

from edge_client.audio.recordings import read_clip
from edge_client.features.front_end import open_front_end
from fleet_protocol.feature_settings import FeatureSettings, FrozenNetwork
from model_export.pretraining.front_end_file import read
from tests.support.checkout import DATA, ROOT

PATH = ROOT / "edge_client" / "front_ends" / "base.frontend"
KEYWORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")


@pytest.fixture(scope="module")
def base():
    return read(PATH)


def test_the_file_is_small_and_says_where_it_comes_from(base):
    assert PATH.stat().st_size <= 600_000
    assert base.description["network"]["multiply_adds"] <= 3_500_000
    assert base.description["network"]["weights"] <= 100_000
    assert "CC BY 4.0" in base.description["attribution"]
    assert base.description["name"] == "base"
    assert set(KEYWORDS) <= set(base.words)


def test_the_model_card_has_its_figures(base):
    card = (ROOT / "docs" / "models" / "base.md").read_text()
    for result in base.description["closed_set"].values():
        assert f"| {result['clips']:,} | {result['percent']:.1f} |" in card
    assert f"{base.description['training']['steps']:,} steps of 128 clips, seed 0" in card


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "gsc_v2_test").is_dir(), reason="needs Speech Commands' test set")
@pytest.mark.parametrize("graph", ["float32", "int8"])
def test_a_device_recognises_the_test_set_as_well_as_the_file_says(base, graph):
    settings = FeatureSettings.from_json(base.description["features"])
    front_end = open_front_end(dataclasses.replace(settings, network=FrozenNetwork.of(getattr(base, graph))))
    labels = [*KEYWORDS, "_unknown_", "_silence_"]
    clips = [(path, label) for label in labels for path in sorted((DATA / "gsc_v2_test" / label).iterdir())[::3]]
    embeddings = front_end(np.stack([read_clip(path, settings) for path, _ in clips]))[:, 0]
    logits = embeddings @ base.statistics["head/kernel"] + base.statistics["head/bias"]
    shares = base.statistics["head/shares"]
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    known = [[base.words.index(word)] for word in KEYWORDS]
    other = [index for index, word in enumerate(base.words) if word not in KEYWORDS]
    groups = [*known, other, [-1]]
    summed = np.column_stack([probabilities[:, group].sum(axis=1) / shares[group].sum() for group in groups])
    percent = 100 * np.mean(summed.argmax(axis=1) == [labels.index(label) for _, label in clips])
    assert percent == pytest.approx(base.description["closed_set"][f"twelve classes, {graph}"]["percent"], abs=1.5)
