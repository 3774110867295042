"""What a device calls the fleet's classes: as its owner chose, else as the fleet does."""

import pytest

from edge_client.errors import ClipError
from edge_client.owner import Teaching
from edge_client.owner_changes import rename_class
from edge_client.owner_undo import changes, undo
from edge_client.storage.saved_model import Progress
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap


@pytest.fixture
def adopted(device):
    """A device that took up a class of its fleet, which nobody named, beside a label of its owner."""
    bundle = read_bundle(device.bundle)
    capacity, reserved = bundle.manifest.capacity, len(bundle.manifest.background)
    labels = LabelMap(capacity, reserved=reserved).add("up").add("sound-4", "c4")
    tails = {"up": (1.0, 1.0), "sound-4": (2.0, 2.0)}
    digest = bundle.manifest.feature_settings.digest
    progress = Progress(architecture=bundle.manifest.architecture, label_map=labels, features=digest, tails=tails)
    device.state.model.save(bundle.weights, bundle.weights, progress)
    device.state.class_names.follow({"c4": "sound-4"}, {})
    device.state.choices.set_threshold("sound-4", 0.7)
    return device


def opened(device):
    return Teaching.open(device.folder / "edge.toml")


def progress_of(device):
    return device.state.model.load(device.bundle).progress


def test_the_owner_s_own_name_is_kept_and_taken_back(adopted):
    assert rename_class(opened(adopted), "sound-4", "lamp")
    assert progress_of(adopted).label_map.labels == ("up", "lamp")
    assert progress_of(adopted).tails == {"up": (1.0, 1.0), "lamp": (2.0, 2.0)}
    assert adopted.state.choices.thresholds() == {"lamp": 0.7}
    rename_class(opened(adopted), "lamp", "lantern")
    adopted.state.class_names.follow({"c4": "lights"}, {})
    assert adopted.state.class_names.present() == {"c4": "lantern"}

    for name in ("lamp", "lights"):  # the first undo goes to the name before, the second to the fleet's of now
        undo(opened(adopted), changes(opened(adopted))[0])
        assert progress_of(adopted).label_map.labels == ("up", name)
        assert adopted.state.choices.thresholds() == {name: 0.7}
    assert changes(opened(adopted)) == []


def test_a_class_that_was_merged_keeps_the_owner_s_name_and_another_fleet_has_none_of_them(adopted):
    rename_class(opened(adopted), "sound-4", "lamp")
    adopted.state.class_names.follow({"c5": "light"}, {"c4": "c5"})
    assert adopted.state.class_names.present() == {"c5": "lamp"}
    adopted.state.leave_fleet(adopted.bundle)
    assert adopted.state.class_names.present() == {}


@pytest.mark.parametrize(("label", "name"), [("sound-4", "up"), ("up", "down"), ("nobody's", "x"), ("sound-4", "a/b")])
def test_what_is_no_class_or_no_free_name_is_refused(adopted, label, name):
    with pytest.raises(ClipError):
        rename_class(opened(adopted), label, name)
    assert progress_of(adopted).label_map.labels == ("up", "sound-4")
