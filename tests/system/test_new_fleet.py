"""The command that begins a fleet on one's own recordings, where it cannot."""

import pytest

from tests.support.commands import OwnDesk, failed
from tests.support.sounds import write_clips

pytestmark = pytest.mark.slow


@pytest.fixture
def desk(tmp_path):
    found = OwnDesk(tmp_path)
    yield found
    found.close()


def test_a_fleet_that_cannot_be_started_is_explained_and_nothing_is_left(desk):
    failed(desk.type("auricle-aggregator new --from nowhere"), "no public set", "nowhere")
    write_clips(desk.folder / "recordings", "yes", 2, seed=0)
    spoiled = desk.type("auricle-aggregator new --from recordings --bundle cnn1 --devices 0")
    failed(spoiled, "devices must be from 1")
    assert [path.name for path in desk.folder.iterdir()] == ["recordings"]  # the data folder is gone again
    (desk.folder / "notes").mkdir()
    (desk.folder / "notes" / "a.txt").write_text("")
    for line, *words in (
        ("auricle-aggregator new --from recordings --data notes", "--data notes", "not empty"),
        ("auricle-aggregator new --from recordings --bundle base9", "'base9'", "ready: "),
        ("auricle-aggregator new --from recordings --port 0", "--port 0"),
        ("auricle-aggregator new --from recordings --host 0.0.0.0", "--tls auto"),
    ):
        failed(desk.type(line), *words)
    assert sorted(path.name for path in desk.folder.iterdir()) == ["notes", "recordings"]
