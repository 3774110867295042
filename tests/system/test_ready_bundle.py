"""A device with a ready bundle alone is taught sounds: no server, no TensorFlow."""

import pytest

from tests.support.checkout import without_tensorflow
from tests.support.edge_process import EdgeDaemon, wait_for
from tests.support.sounds import write_clips

pytestmark = pytest.mark.slow

LABELS = {"yes", "up", "stop"}


def taught(device):
    status = device.status()
    return status.get("model", {}).get("labels") and set(status["model"]["labels"]) == LABELS


def test_it_is_taught_and_learns_again_when_the_front_end_changes(tmp_path):
    environment = without_tensorflow(tmp_path)
    with EdgeDaemon(tmp_path / "shelf", "base", "[training]\nteach_epochs = 8\nnice = 0\n").start(environment) as shelf:
        nothing = {"architecture": "linear", "labels": [], "provisional": [], "not_listened_for": [], "round": None}
        wait_for(lambda: shelf.status().get("model") == nothing, what="the status")
        assert shelf.status()["server"] is None
        for label in sorted(LABELS):
            write_clips(tmp_path / "new", label, 12, seed=3)
        shelf.command("import", str(tmp_path / "new"))
        wait_for(lambda: taught(shelf), what="the new labels")
        assert "linear: " in shelf.command("status", check=False).stdout
        assert shelf.end() == 0

        # As after an upgrade that brings another front end.
        shelf.config.write_text(shelf.config.read_text().replace('"base"', '"base_int8"'))
        (shelf.runtime / "status.json").unlink()
        shelf.start(environment)
        wait_for(lambda: taught(shelf), what="the labels, learned again")
        assert "another front end than before" in shelf.log()
        assert shelf.end() == 0
