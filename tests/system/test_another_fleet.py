"""A device goes to a fleet with another front end: it keeps its owner's clips, and learns them anew."""

import pytest

from edge_client.clips.public_set import build_public_set
from fleet_protocol.addresses import InvitationLink
from fleet_protocol.bundle import read_bundle
from fleet_protocol.ready_bundles import find_bundle
from tests.support.device_fleet import enrolled, finished, open_round
from tests.support.edge_process import wait_for
from tests.support.sounds import write_clips
from tests.system.test_prototypes import recognised

pytestmark = pytest.mark.slow

NEW = "words_and_sounds"


def test_a_device_keeps_its_clips_and_learns_them_anew_for_a_fleet_with_another_front_end(
    fleet_of, start_aggregator, tmp_path
):
    former, device = fleet_of({"base": find_bundle("base")}, own=6)
    one = device("one", "base", ("yes", "stop"))
    write_clips(tmp_path / "played", "stop", 20, seed=5)
    with one.config.open("a") as config:
        config.write("teach_epochs = 10\n")  # of [training], the last section
        config.write(f'[microphone]\nbackend = "file"\nfile = "{tmp_path / "played"}"\n')
    one.start()
    enrolled(former, 1)
    wait_for(lambda: one.progress_of("base").taught, what="the clips to be learned")
    finished(former, open_round(former, strategy="prototypes", settings={}))
    one.end()
    clips = sorted(path.name for path in one.clips.rglob("*.wav"))

    server = start_aggregator("new")
    settings = read_bundle(find_bundle(NEW)).manifest.feature_settings
    shared = build_public_set(tmp_path / "public", settings, ["yes", "no", "up", "down"], 12)
    with server.client() as client:
        client.put("/v1/public-set", content=shared.pack()).raise_for_status()
        link = InvitationLink(server.url, client.post("/v1/invitations", json={}).json()["token"])
    one.command("leave")
    refused = one.command("join", str(link), check=False)
    assert (refused.returncode, "[model] bundle" in refused.stderr) == (1, True)
    text = one.config.read_text()
    one.config.write_text(text.replace(str(find_bundle("base")), NEW))
    assert one.config.read_text() != text
    one.command("join", str(link))
    one.start()
    enrolled(server, 1)
    wait_for(lambda: "another front end than before" in one.log(), what="the daemon to begin anew")
    wait_for(lambda: one.progress_of(NEW).taught, what="the clips to be learned anew")
    assert sorted(path.name for path in one.clips.rglob("*.wav")) == clips
    assert (
        finished(server, open_round(server, strategy="prototypes", settings={}))["aggregation"]["devices"]["yes"] == 1
    )
    assert recognised(one, "stop", "stop", NEW) > 0.6
    assert "Traceback" not in one.log()
