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
CARD = ROOT / "docs" / "models" / "base.md"
LANGUAGES = {"de": "German", "es": "Spanish", "fr": "French", "it": "Italian", "pl": "Polish", "tr": "Turkish"}
# Takes of each speaker, and speakers, in the order of the card's columns.
CASES = ((5, 1), (5, 2), (5, 4), (1, 5), (1, 10), (1, 20))
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
    card = CARD.read_text()
    for result in base.description["closed_set"].values():
        assert f"| {result['clips']:,} | {result['percent']:.1f} |" in card
    assert f"{base.description['training']['steps']:,} steps of 128 clips, seed 0" in card


def test_the_model_card_describes_this_network_and_its_corpus(base):
    card, network, corpus = CARD.read_text(), base.description["network"], base.description["corpus"]
    assert f"{network['multiply_adds'] / 1e6:.2f} million multiply-adds, {network['weights']:,} weights" in card
    assert f"float32 {len(base.float32) / 1000:.0f} kB, int8 {len(base.int8) / 1000:.0f} kB" in card
    assert f"{corpus['clips']:,} clips" in card
    assert f"{len(corpus['words'])} words and noise" in card
    for word in corpus["words_left_out"]:
        assert word in card


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_model_card_has_the_figures_of_a_language(base, code):
    found = {(case["takes"], case["speakers"]): case for case in base.description["few_shot"] if case["corpus"] == code}
    if not found:
        assert f"| {LANGUAGES[code]} |" not in CARD.read_text()
        return
    figures = [found[CASES[0]]["same_speaker"], *(found[case]["other_speakers"] for case in CASES)]
    assert f"| {LANGUAGES[code]} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |" in CARD.read_text()


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
