"""The public set from a folder of recordings: what was asked for, drawn by the seed, or a message saying why not."""

import numpy as np
import pytest

from edge_client.cli import main
from edge_client.clips.public_set import build_public_set
from edge_client.errors import RecordingError
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.feature_settings import PRESETS
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.messages.public_set import PublicSet

soundfile = pytest.importorskip("soundfile")

GUDUR = PRESETS["gudur"]


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for label, count in {"yes": 70, "no": 9, "día": 5, "_noise": 5}.items():
        (tmp_path / label).mkdir()
        for number in range(count):
            soundfile.write(tmp_path / label / f"s{number}_nohash_0.wav", 0.1 * rng.standard_normal(8_000), 16_000)
    return tmp_path


def test_it_holds_the_labels_in_the_order_asked_and_so_many_of_each(folder):
    public = build_public_set(folder, GUDUR, ["yes", "día", "no"], 5)
    assert public.class_ids == ("yes", "día", "no")
    assert [info.name for info in public.classes] == ["yes", "día", "no"]
    assert [info.discovered_in for info in public.classes] == [None] * 3
    np.testing.assert_array_equal(public.labels, np.repeat([0, 1, 2], 5))
    assert public.features.shape == (15, 20, 13)
    assert not public.synthetic.any()
    assert public.settings == GUDUR
    assert build_public_set(folder, GUDUR, None, 5).class_ids == ("día", "no", "yes")


def test_a_folder_without_labels_is_an_error(tmp_path):
    (tmp_path / "yes.wav").write_bytes(b"")
    with pytest.raises(RecordingError, match=r"/LABEL/\*\.wav; found there: 1 files"):
        build_public_set(tmp_path, GUDUR, None, 5)


def test_a_damaged_recording_is_replaced_by_another(folder):
    for number in range(4):
        (folder / "no" / f"s{number}_nohash_0.wav").write_bytes(b"damaged")
    assert len(build_public_set(folder, GUDUR, ["no"], 5).labels) == 5
    with pytest.raises(RecordingError, match=r"'no' has 5 usable clips of 9 .*but 6 are wanted; ask for fewer"):
        build_public_set(folder, GUDUR, ["no"], 6)


@pytest.mark.parametrize(
    ("labels", "per_label", "message"),
    [
        (["yes"], 71, "'yes' has 70 usable clips of 70 .*but 71 are wanted"),
        (["maybe"], 1, "no recordings of 'maybe' in .*; present: día, no, yes"),
        (["_noise"], 1, "no recordings of '_noise'"),
        (["yes", "yes"], 1, "each once, not yes, yes; present: día, no, yes"),
        ([], 1, "not none; present: día, no, yes"),
        (["yes"], 0, "at least 1 clip per label, not 0"),
    ],
)
def test_what_cannot_be_built_is_explained(folder, labels, per_label, message):
    with pytest.raises(RecordingError, match=message):
        build_public_set(folder, GUDUR, labels, per_label)


def test_a_negative_seed_is_refused(folder, capsys):
    assert main(["public-set", str(folder), "--seed", "-1", "-o", "public.safetensors"]) == 1
    assert capsys.readouterr().err == "auricle-edge: --seed must be at least 0, not -1\n"


def test_the_command_takes_the_front_end_of_a_ready_bundle(folder, tmp_path_factory):
    output = tmp_path_factory.mktemp("public") / "public.safetensors"
    arguments = ["--bundle", "base", "--per-label", "2", "--labels", "yes,no", "-o", str(output)]
    assert main(["public-set", str(folder), *arguments]) == 0
    public = PublicSet.unpack(output.read_bytes())
    assert public.features.shape == (4, 1, 64)
    assert public.settings.digest == read_bundle(find_bundle("base")).manifest.feature_settings.digest
