"""The front ends for words that come with the project: whole, within their limits, and as good as their cards say."""

import dataclasses

import numpy as np
import pytest

from edge_client.audio.recordings import read_clip
from edge_client.features.front_end import open_front_end
from fleet_protocol.bundle.feature_settings import FeatureSettings, FrozenNetwork
from model_export.cost import multiply_adds_of
from model_export.front_ends import SHIPPED
from model_export.graph_operators import operators_by_signature, read_convolutions
from model_export.pretraining import conversion
from model_export.pretraining.evaluation import KEYWORDS
from model_export.pretraining.front_end_file import read
from model_export.pretraining.network import DESIGNS, SIGNATURE
from tests.support.checkout import DATA, ROOT

LANGUAGES = {"de": "German", "es": "Spanish", "fr": "French", "it": "Italian", "pl": "Polish", "tr": "Turkish"}
# Takes of each speaker, and speakers, in the order of the cards' columns.
CASES = ((5, 1), (5, 2), (5, 4), (1, 5), (1, 10), (1, 20))
# Of a file, bytes; and the multiply-adds and weights of its network.
LARGEST = {"base": (600_000, 3_500_000, 100_000), "words": (3_400_000, 25_500_000, 1_000_000)}


@pytest.fixture(scope="module", params=LARGEST)
def front_end(request):
    return read(SHIPPED[request.param])


@pytest.fixture
def card(front_end):
    return (ROOT / "docs" / "models" / f"{front_end.description['name']}.md").read_text()


@pytest.mark.parametrize("name", LARGEST)
def test_a_file_is_small_and_says_where_it_comes_from(name):
    front_end, (size, multiply_adds, weights) = read(SHIPPED[name]), LARGEST[name]
    assert SHIPPED[name].stat().st_size <= size
    assert front_end.description["network"]["multiply_adds"] <= multiply_adds
    assert front_end.description["network"]["weights"] <= weights
    assert "CC BY 4.0" in front_end.description["attribution"]
    assert front_end.description["name"] == name
    assert set(KEYWORDS) <= set(front_end.words)


def test_the_model_card_has_its_figures(front_end, card):
    for result in front_end.description["closed_set"].values():
        assert f"| {result['clips']:,} | {result['percent']:.1f} |" in card
    training = front_end.description["training"]
    if "steps" in training:
        length = f"{training['steps']:,} steps of {training['batch']} clips"
    else:
        length = f"{training['clips_drawn'] / 1e6:.1f} million clips"
    assert f"{length}, seed {training['seed']}" in card


def test_the_model_card_describes_this_network_and_its_corpus(front_end, card):
    network, corpus = front_end.description["network"], front_end.description["corpus"]
    assert f"{network['multiply_adds'] / 1e6:.2f} million multiply-adds, {network['weights']:,} weights" in card
    for graph in filter(None, (front_end.float32, front_end.int8)):
        assert f" {len(graph) / 1000:.0f} kB" in card
    assert f"{corpus['clips']:,} clips" in card
    assert f"{len(corpus['words'])} words and noise" in card
    for word in corpus["words_left_out"]:
        assert word in card


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_model_card_has_the_figures_of_a_language(front_end, card, code):
    cases = [case for case in front_end.description["few_shot"] if case["corpus"] == code]
    found = {(case["takes"], case["speakers"]): case for case in cases}
    if not found:
        assert f"| {LANGUAGES[code]} |" not in card
        return
    figures = [found[CASES[0]]["same_speaker"], *(found[case]["other_speakers"] for case in CASES)]
    assert f"| {LANGUAGES[code]} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |" in card


@pytest.mark.slow
def test_words_has_the_networks_that_pretraining_makes():
    shipped = read(SHIPPED["words"]).float32
    weights, networks = iter(read_convolutions(shipped, SIGNATURE)), {}
    for name in ("separable", "words"):  # the order in which the graph has them
        layers = dict(zip(DESIGNS[name].convolutions, weights, strict=False))
        networks[name] = conversion.build(DESIGNS[name], layers, name)
    alone = conversion.float32_graph(networks["separable"], half=True)
    assert (multiply_adds_of(alone, SIGNATURE), networks["separable"].count_params()) == (16_744_000, 613_896)
    joined = conversion.float32_graph(conversion.side_by_side(networks["words"], networks["separable"]), half=True)
    assert operators_by_signature(joined) == operators_by_signature(shipped)
    assert len(joined) < 2.1 * 960_544 + 20_000
    pictures = np.random.default_rng(0).normal(size=(8, 98, 53)).astype(np.float32)
    assert np.allclose(conversion.run(joined, pictures), conversion.run(shipped, pictures), atol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "gsc_v2_test").is_dir(), reason="needs Speech Commands' test set")
@pytest.mark.parametrize("graph", ["float32", "int8"])
def test_a_device_recognises_the_test_set_as_well_as_the_file_says(front_end, graph):
    if not getattr(front_end, graph):
        assert f"twelve classes, {graph}" not in front_end.description["closed_set"]
        return
    settings = FeatureSettings.from_json(front_end.description["features"])
    ear = open_front_end(dataclasses.replace(settings, network=FrozenNetwork.of(getattr(front_end, graph))))
    labels = [*KEYWORDS, "_unknown_", "_silence_"]
    clips = [(path, label) for label in labels for path in sorted((DATA / "gsc_v2_test" / label).iterdir())[::3]]
    embeddings = ear(np.stack([read_clip(path, settings) for path, _ in clips]))[:, 0]
    logits = embeddings @ front_end.statistics["head/kernel"] + front_end.statistics["head/bias"]
    shares = front_end.statistics["head/shares"]
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    known = [[front_end.words.index(word)] for word in KEYWORDS]
    other = [index for index, word in enumerate(front_end.words) if word not in KEYWORDS]
    groups = [*known, other, [-1]]
    summed = np.column_stack([probabilities[:, group].sum(axis=1) / shares[group].sum() for group in groups])
    percent = 100 * np.mean(summed.argmax(axis=1) == [labels.index(label) for _, label in clips])
    assert percent == pytest.approx(front_end.description["closed_set"][f"twelve classes, {graph}"]["percent"], abs=1.5)
