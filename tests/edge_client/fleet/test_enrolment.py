"""What a device says of itself at a real aggregator, and what it is told where it may not take part."""

import json
import platform
import re

import pytest

from fleet_protocol.ground.command_line import version
from fleet_protocol.numbers.tensors import digest
from tests.support.device_fleet import device_fleet, enrolled, open_round
from tests.support.edge_process import wait_for
from tests.support.sounds import write_clips

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, bundles, aggregator):
    folder = tmp_path_factory.mktemp("fleet")
    with device_fleet(folder, bundles, lambda: aggregator, labels=("yes", "no")) as made:
        yield made


def change(device, old, new):
    path = device.folder / "edge.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def token_line(device):
    return next(line for line in (device.folder / "edge.toml").read_text().splitlines() if "enrol_token" in line)


def test_a_device_without_a_token_is_refused_at_start_and_told_where_it_comes_from(fleet):
    _, device = fleet
    found = device("without", "cnn1", ("yes",))
    change(found, token_line(found), "")
    result = found.command("run", check=False)
    assert result.returncode == 1
    assert "auricle-edge join LINK" in result.stderr
    assert "`auricle-aggregator tokens` prints it" in result.stderr
    change(found, "wait_s = 5", 'enrol_token = "a secret with blanks"\nwait_s = 5')
    refused = found.command("run", check=False)
    assert refused.returncode == 1
    assert "printable ASCII without blanks" in refused.stderr
    assert "a secret" not in refused.stderr


def test_a_device_that_the_aggregator_refuses_is_not_enrolled_and_says_so(fleet):
    _, device = fleet
    found = device("refused", "cnn1", ("yes",))
    change(found, token_line(found), 'enrol_token = "of-another-fleet"')
    found.start()
    try:
        wait_for(lambda: "refused (401" in found.log(), what="the refusal")
        result = wait_for(
            lambda: (told := found.command("status", check=False)).returncode == 4 and told, what="status 4"
        )
    finally:
        found.end()
    assert "NOT ENROLLED" in result.stdout
    assert "auricle-edge join LINK" in result.stdout


def test_labels_are_current_with_each_upload_and_an_operator_reads_why_a_device_sent_nothing(fleet, bundles):
    server, device = fleet
    shares = device("shares", "cnn1", ("yes", "no"))
    change(shares, 'state = "state"', 'state = "state"\nshare_names = true')
    lost = device("lost", "cnn1", ())
    change(lost, 'folder = "clips"', 'folder = "gone"')
    shares.start()
    lost.start()
    enrolled(server, 2)
    wait_for(lambda: "[recordings] folder = " in lost.log() and "gone is no folder" in lost.log(), what="a warning")
    write_clips(shares.clips, "up", 16, seed=7)
    with server.client() as client:

        def devices():
            return {found["name"]: found for found in client.get("/v1/devices").json()}

        assert devices()["lost"]["trouble"] == ""
        assert not devices()["lost"]["outdated"]
        runs = devices()["lost"]["versions"]
        assert (runs["program"], runs["bundle"]) == (version(), "cnn1")
        assert runs["bundle_sha256"] == digest(bundles["cnn1"].read_bytes())
        assert re.fullmatch(r"pymicro-wakeword [\d.]+", runs["runtime"])
        assert (runs["python"], runs["system"].split(", ")[-1]) == (platform.python_version(), platform.machine())
        open_round(server)
        wait_for(lambda: devices()["shares"]["labels"] == ["no", "up", "yes"], what="the labels")
        wait_for(lambda: devices()["lost"]["trouble"], what="the trouble")
        found = devices()
    assert found["lost"]["trouble"].startswith("its folder of recordings does not exist")
    assert str(lost.folder) not in json.dumps(found)  # no path of the owner's travels
    assert (found["lost"]["labels"], found["shares"]["trouble"]) == ([], "")
