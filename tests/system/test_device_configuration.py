"""The commented configuration that `make install-edge` writes: complete, correct, and what the documentation says."""

import dataclasses
import re
import tomllib

import pytest

from edge_client.config import load_config, section_classes
from fleet_protocol.bundle.ready_bundles import FIRST_CHOICE, find_bundle
from tests.support.checkout import ROOT

pytestmark = pytest.mark.slow

SHIPPED = ROOT / "systemd/edge.toml"
# Keys whose default is "none", or depends on the bundle: the file shows an example.
EXAMPLES = {
    *("url", "ca", "folder", "background", "evaluation", "file", "hop_s"),
    *("average_s", "threshold", "thresholds", "waits", "certificate", "key", "ears", "epsilon"),
}
SECTIONS = section_classes()


def uncommented(text):
    """Return the configuration with all its settings switched on; prose has a space after its "#"."""
    return re.sub(r"(?m)^#(?=[\[a-z])", "", text)


@pytest.fixture(scope="module")
def everything():
    return tomllib.loads(uncommented(SHIPPED.read_text()))


def test_it_loads_as_it_is_shipped():
    config = load_config(SHIPPED)
    assert config.model.bundle == find_bundle(FIRST_CHOICE)
    assert config.server is None
    assert config.microphone is not None


def test_it_loads_with_everything_switched_on(tmp_path):
    path = tmp_path / "edge.toml"
    text = uncommented(SHIPPED.read_text()).replace("tls = false", "tls = true")  # an authority is for it
    path.write_text(re.sub("(?m)^file = .*$", "", text))  # a stream stands in its place
    config = load_config(path)
    assert all(getattr(config, name) for name in SECTIONS)


@pytest.mark.parametrize("name", SECTIONS)
def test_every_key_is_there_with_its_default(name, everything):
    fields = dataclasses.fields(SECTIONS[name])
    assert sorted(everything[name]) == sorted(field.name for field in fields)
    for field in fields:
        factory = field.default_factory
        default = field.default if factory is dataclasses.MISSING else factory()
        if field.name not in EXAMPLES and default is not dataclasses.MISSING:
            shown = everything[name][field.name]
            assert (tuple(shown) if isinstance(shown, list) else shown) == default, field.name


def test_it_switches_on_no_more_than_a_device_needs():
    chosen = tomllib.loads(SHIPPED.read_text())
    assert {name: sorted(keys) for name, keys in chosen.items() if keys} == {
        "device": ["name", "state"],
        "model": ["bundle"],
    }
