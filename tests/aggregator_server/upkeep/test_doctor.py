"""What ``auricle-aggregator doctor`` says of a server and its fleet."""

import stat
import time
from contextlib import closing
from pathlib import Path

import pytest

from aggregator_server.errors import StartError
from aggregator_server.store.opening import open_store
from aggregator_server.upkeep.backup import back_up, restore
from aggregator_server.upkeep.doctor import examine
from fleet_protocol.ground.command_line import version
from tests.support.aggregator_process import FakeDevice, public_set, tiny_bundle
from tests.support.commands import command, failed

DAY_S = 86_400.0


def by_subject(found):
    return {observation.subject: observation for observation in found}


@pytest.mark.slow
def test_a_server_that_is_well_and_one_that_lacks_everything(start_aggregator):
    server = start_aggregator("server", "--tls", "auto", "--approve")
    found = by_subject(examine(server.data, time.time()))
    assert {found[name].state for name in ("server", "version", "certificate", "data folder", "storage")} == {"ok"}
    assert found["public set"].state == "problem"
    assert "auricle-edge public-set" in found["public set"].way_out
    assert (found["model"].state, found["devices"].what) == ("warning", "there are none")
    result = command("doctor", "--data", server.data)
    assert result.returncode == 1
    assert result.stdout.splitlines()[0].split() == ["subject", "state", "what", "way_out"]

    with server.client() as admin:
        admin.put("/v1/public-set", content=public_set().pack()).raise_for_status()
        admin.put("/v1/model", content=tiny_bundle()).raise_for_status()
        for number, program in ((1, "99.0"), (2, "0.0.9")):
            server.enrol(FakeDevice(number, ()), versions={"program": program})
        assert admin.post(f"/v1/devices/{1:032x}/admit").status_code == 200
        admin.post(f"/v1/devices/{1:032x}/quarantine", json={"reason": "it lies"}).raise_for_status()
    found = examine(server.data, time.time())
    assert [item.what for item in found if item.subject == "devices"] == [
        "1 of 2: wait to be admitted",
        "1 of 2: in quarantine",
        f"1 of 2: run an older program than {version()}",
    ]
    assert {by_subject(found)[name].state for name in ("public set", "model")} == {"ok"}

    later = by_subject(examine(server.data, time.time() + 5 * 365 * DAY_S))
    assert later["certificate"].way_out == "restart the server, which renews it"
    assert any("not seen for 7 days" in item.what for item in examine(server.data, time.time() + 8 * DAY_S))

    (server.data / "tls" / "server.pem").chmod(0o644)
    exposed = by_subject(examine(server.data, time.time()))["data folder"]
    assert (exposed.state, exposed.way_out) == ("problem", f"chmod go= {server.data / 'tls' / 'server.pem'}")
    assert server.stop() == 0
    gone = by_subject(examine(server.data, time.time()))["server"]
    assert (gone.state, "does not answer" in gone.what) == ("problem", True)


def test_json_and_a_folder_that_is_none(fleet, tmp_path):
    result = command("doctor", "--data", fleet.store.folder, "--json")
    assert '"subject": "public set", "state": "ok"' in result.stdout
    failed(command("doctor", "--data", tmp_path / "typo"), "no data folder")
    with pytest.raises(StartError):
        examine(tmp_path / "typo", time.time())


def test_a_file_that_a_running_server_removes_meanwhile_does_not_end_the_examination(fleet, tmp_path, monkeypatch):
    gone = tmp_path / "data" / "blobs" / "gone"
    rglob = Path.rglob
    monkeypatch.setattr(Path, "rglob", lambda folder, pattern: [*rglob(folder, pattern), gone])
    monkeypatch.setattr(Path, "is_file", lambda path: path == gone or stat.S_ISREG(path.stat().st_mode))
    assert by_subject(examine(fleet.store.location, 0.0))["storage"].state == "ok"


def test_what_answers_at_a_copys_address_is_not_taken_for_its_own_server(start_aggregator, tmp_path):
    server = start_aggregator()
    back_up(server.data, tmp_path / "copy.tar")
    restore(tmp_path / "copy.tar", tmp_path / "again")
    assert by_subject(examine(server.data, time.time()))["server"].state == "ok"
    found = by_subject(examine(tmp_path / "again", time.time()))["server"]
    what = f"one of another folder answers at {server.url}; none runs with this folder"
    assert (found.state, found.what) == ("problem", what)
    with closing(open_store(tmp_path / "again")):  # as one that is started with the address of the other
        found = by_subject(examine(tmp_path / "again", time.time()))["server"]
    assert (found.state, "the folder's own is another one" in found.what) == ("problem", True)
