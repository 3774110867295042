"""The networks have the sizes that their papers give."""

import json

import pytest

from model_export.zoo.attention_recurrent import AttentionRecurrent
from model_export.zoo.depth_separable import DepthSeparable
from model_export.zoo.keyword_transformer import KeywordTransformer
from model_export.zoo.registry import ARCHITECTURES
from tests.support.checkout import run_python


@pytest.mark.slow
def test_networks_have_the_number_of_weights_that_fedkws_ui_reports():
    sizes = json.loads(run_python("-m", "tests.support.network_sizes").splitlines()[-1])
    published = {"dscnn_172": (169, 173), "mhattrnn": (228, 232), "resnet15": (238, 239), "transformer": (232, 234)}
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
    assert ARCHITECTURES[name].narrowed(1.0) == ARCHITECTURES[name]
    assert ARCHITECTURES[name].narrowed(0.25) != ARCHITECTURES[name] or name == "linear"  # has nothing to narrow


def test_a_narrow_network_keeps_its_heads_and_layers():
    assert ARCHITECTURES["dscnn_172"].narrowed(0.25) == DepthSeparable(43, 5)
    assert ARCHITECTURES["mhattrnn"].narrowed(0.26) == AttentionRecurrent(20, 4)
    assert ARCHITECTURES["transformer"].narrowed(0.25) == KeywordTransformer(4, 24, 25, 3)
    assert [block.units for block in ARCHITECTURES["cnn2"].narrowed(0.5).blocks] == [8, 16]
