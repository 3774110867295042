"""The networks have the sizes that their papers give."""

import json

import pytest

from model_export.designs import ARCHITECTURES, AttentionRecurrent, DepthSeparable, KeywordTransformer, narrowed
from tests.support.checkout import run_python


@pytest.mark.slow
def test_networks_have_the_number_of_weights_that_fedkws_ui_reports():
    sizes = json.loads(run_python("-m", "tests.support.network_sizes").splitlines()[-1])
    published = {
        "dscnn_172": (169, 173), "mhattrnn": (228, 232), "resnet15": (238, 239), "transformer": (232, 234)
    }  # fmt: skip
    wanted = {
        f"{name} {classes}": size
        for name, pair in published.items()
        for classes, size in zip((12, 35), pair, strict=True)
    }
    assert {name: round(size / 1000) for name, size in sizes.items()} == {
        **wanted,
        "dscnn_172 12": 168,
        "dscnn_172 35": 172,
    }


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_network_can_be_narrowed_and_is_the_published_one_at_width_1(name):
    assert narrowed(ARCHITECTURES[name], 1.0) == ARCHITECTURES[name]
    assert narrowed(ARCHITECTURES[name], 0.25) != ARCHITECTURES[name]


def test_a_narrow_network_keeps_its_heads_and_layers():
    assert narrowed(ARCHITECTURES["dscnn_172"], 0.25) == DepthSeparable(43, 5)
    assert narrowed(ARCHITECTURES["mhattrnn"], 0.26) == AttentionRecurrent(20, 4)
    assert narrowed(ARCHITECTURES["transformer"], 0.25) == KeywordTransformer(4, 24, 25, 3)
    assert [block.units for block in narrowed(ARCHITECTURES["cnn2"], 0.5)] == [8, 16]
