"""The bundles that come with Auricle: small, listed, and what the sources make of the front ends today."""

import io
import zipfile
from importlib.metadata import version

import pytest

from fleet_protocol.bundle.bundle_file import BACKGROUND, read_bundle
from fleet_protocol.bundle.feature_settings import PRESETS
from fleet_protocol.bundle.ready_bundles import FIRST_CHOICE, find_bundle, ready_names
from fleet_protocol.numbers.tensors import digest
from model_export.front_ends import SHIPPED
from model_export.ready_bundles import RECIPES, describe, read_catalogue
from tests.support.checkout import run_python, without_tensorflow

FROM_SCRATCH = [name for name, recipe in RECIPES.items() if recipe.features in PRESETS]


def test_the_catalogue_lists_every_bundle_and_its_figures():
    assert set(ready_names()) == set(RECIPES) == set(read_catalogue()[1])
    for name, entry in read_catalogue()[1].items():
        assert entry == describe(find_bundle(name).read_bytes(), name), f"{name}: run `make bundles`"


def test_all_together_they_are_small():
    """In the wheel, whose members are compressed, they and the front ends take at most 6.2 MB, the wheel below 8."""
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (*(find_bundle(name) for name in RECIPES), *SHIPPED.values()):
            archive.write(path, path.name)
    assert wheel.tell() <= 6_200_000
    assert sum(find_bundle(name).stat().st_size for name in FROM_SCRATCH) <= 800_000


@pytest.mark.parametrize("name", sorted(set(RECIPES) - set(FROM_SCRATCH)))
def test_a_bundle_on_a_front_end_holds_its_network_and_its_words(name):
    manifest = read_bundle(find_bundle(name)).manifest
    assert manifest.feature_settings.is_embedding
    assert [digest(one) for one in manifest.networks] == [one.sha256 for one in manifest.feature_settings.networks]
    assert len(manifest.embedding_statistics.words) >= 30
    assert manifest.background == (*manifest.embedding_statistics.words, *BACKGROUND)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # nine conversions
def test_made_again_they_are_the_same(tmp_path):
    if read_catalogue()[0] != version("tensorflow"):
        pytest.skip("another version of the converter may write other bytes of the same graph")
    run_python("-m", "model_export.ready_bundles", str(tmp_path))
    for name in RECIPES:
        again = tmp_path / f"{name}.auricle"
        assert find_bundle(name).read_bytes() == again.read_bytes(), f"{name}: run `make bundles`"


def test_they_are_listed_where_there_is_no_tensorflow(tmp_path):
    output = run_python("-m", "model_export.cli", "list", **without_tensorflow(tmp_path))
    lines = output.splitlines()
    for name, recipe in RECIPES.items():
        [line] = [line for line in lines if line.split()[:2] == [name, recipe.architecture]]
        assert recipe.purpose in line
        assert f" {round(find_bundle(name).stat().st_size / 1000)} " in line
    # The one that README.md and `auricle-edge init` take comes first, and no other says that it is to be taken.
    assert lines[2].split()[0] == FIRST_CHOICE
    assert [line for line in lines if "first choice" in line] == [lines[2]]
    assert any(line.startswith("  base: a pretrained network, 64 numbers") for line in lines)
    assert "CC BY 4.0" in output
    assert "gudur: mfcc, 20 x 13" in output
