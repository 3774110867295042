"""A network that writes characters: what is exported of it says so."""

import pytest

from fleet_protocol.bundle import read_bundle
from fleet_protocol.feature_settings import preset
from fleet_protocol.ready_bundles import find_bundle
from model_export.cli import main
from model_export.errors import ExportError
from model_export.feature_statistics import Normalisation
from model_export.specification import Specification


@pytest.mark.parametrize("alphabet", ["", "abca"])
def test_an_alphabet_has_each_character_once(alphabet):
    settings = preset("utterance")
    with pytest.raises(ExportError, match=f"the alphabet '{alphabet}' needs at least one character"):
        Specification("dcnn_ctc", settings, Normalisation.default(settings), alphabet=alphabet)


def test_a_manifest_names_steps_and_characters_where_there_are_some(transcribing_bundle, capsys):
    manifest = read_bundle(transcribing_bundle, transcribes=True).manifest
    assert (manifest.output_shape, manifest.embedding, manifest.capacity) == ((24, 5), 32, 5)
    assert main(["inspect", str(transcribing_bundle)]) == 0
    assert '"characters": "abcd"' in capsys.readouterr().out
    classes = read_bundle(find_bundle("cnn2")).manifest
    assert (classes.steps, classes.characters, classes.output_shape) == (0, "", (32,))
