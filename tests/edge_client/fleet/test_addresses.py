"""A fleet with several addresses: the device stays with one that answers, and changes over when it is gone."""

import json
import threading

import pytest

from edge_client.config import load_config
from edge_client.errors import ConfigError
from fleet_protocol.addresses import InvitationLink
from fleet_protocol.client.addresses import Addresses, own_order
from fleet_protocol.client.identity import Identity
from fleet_protocol.client.server_client import ServerClient
from fleet_protocol.errors import LinkFormatError, UnreachableError
from fleet_protocol.limits import ADDRESS_LENGTH, ADDRESSES
from tests.edge_client.fleet.test_joining import device as written_device
from tests.support.aggregator_process import FakeDevice, Fleet
from tests.support.device_fleet import SETTINGS_OF_ROUND, enrolled, finished, open_round
from tests.support.edge_process import wait_for
from tests.support.fallible_address import FallibleAddress

A, B, C = "https://a:1", "https://b:2", "https://c:3"
TOKEN = "aur_join_" + "x" * 43


def test_an_address_is_kept_while_it_answers_and_left_when_it_fails():
    addresses = Addresses((A, B, C))
    addresses.note_failure("gone")
    assert (addresses.url, addresses.another) == (B, True)
    addresses.note_answer()
    addresses.note_answer()
    assert addresses.url == B
    addresses.note_failure("gone")
    addresses.note_failure("refused")
    assert (addresses.url, addresses.another) == (A, True)  # A has not failed since B answered
    addresses.note_failure("still gone")
    assert (addresses.url, addresses.another) == (B, False)  # all failed: the caller waits longer
    addresses.note_failure("gone")
    assert (addresses.url, addresses.another) == (C, True)  # and then tries all of them once more
    assert [found["error"] for found in addresses.report()] == ["still gone", "gone", "refused"]
    addresses.note_answer()
    assert [found["error"] for found in addresses.report()] == ["still gone", "gone", ""]


def test_a_server_that_asks_for_patience_is_left_at_the_second_time():
    addresses = Addresses((A, B))
    addresses.note_failure("503", unwilling=True)
    assert (addresses.url, addresses.another) == (A, True)
    addresses.note_answer()
    addresses.note_failure("503", unwilling=True)
    assert addresses.url == A
    addresses.note_failure("503", unwilling=True)
    assert addresses.url == B


def test_one_address_alone_is_never_left():
    addresses = Addresses((A,))
    for unwilling in (False, True, True, False):
        addresses.note_failure("gone", unwilling=unwilling)
        assert (addresses.url, addresses.another) == (A, False)


def test_a_device_goes_back_to_its_first_address_after_an_hour():
    now = [0.0]
    addresses = Addresses((A, B), lambda: now[0])
    addresses.note_failure("gone")
    addresses.note_answer()
    now[0] = 3_599.0
    addresses.go_home()
    assert addresses.url == B
    now[0] = 3_600.0
    addresses.go_home()
    assert addresses.url == A


def test_devices_begin_at_all_addresses_of_a_fleet():
    begun = [own_order((A, B, C), f"{number:032x}")[0] for number in range(300)]
    assert all(70 <= begun.count(url) <= 130 for url in (A, B, C))
    assert own_order((A, B, C), "1" * 32) == own_order((A, B, C), "1" * 32)


def test_a_link_with_several_addresses_is_read_as_it_was_written():
    for authority in (None, "ab" * 32):
        link = InvitationLink(A, TOKEN, authority, (B, "https://[::1]:8470/fleet"))
        assert InvitationLink.parse(str(link)) == link
        assert link.addresses == (A, B, "https://[::1]:8470/fleet")


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("," + ",".join(f"https://h{number}" for number in range(ADDRESSES)), "must be 1 to 8 addresses, not 9"),
        ("," + "https://" + "h" * ADDRESS_LENGTH, "at most 300 characters"),
        (",http://b:2", "all https:// or all http://"),
        (f",{A}", "must not name an address twice"),
        (",https://b:70000", "is no address"),
        (",https://b?x", "without blanks"),
        (",https://", "no invitation"),
        (",ftp://b", "no invitation"),
        (",", "no invitation"),
        (",https://b" * 400, "no invitation"),
    ],
)
def test_a_link_with_addresses_that_cannot_be_used_is_refused(more, problem):
    with pytest.raises(LinkFormatError, match=problem):
        InvitationLink.parse(f"{A}/#{TOKEN}:{'ab' * 32}{more}")


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        (f'url = "{A}"\nurls = ["{B}"]', "leave one of them out"),
        ("wait_s = 1", "must start with http:// or https://"),
        (f"urls = {json.dumps([f'https://h{number}' for number in range(9)])}", "1 to 8 addresses, not 9"),
        (f'urls = ["{A}", "http://127.0.0.1:1"]', "all https:// or all http://"),
        ('urls = ["http://127.0.0.1:1", "http://192.0.2.1:1"]', "is plain HTTP"),
        (f'urls = ["{A}", "b:2"]', "must start with http:// or https://"),
    ],
)
def test_a_configuration_with_addresses_that_cannot_be_used_is_refused(tmp_path, server, problem):
    with pytest.raises(ConfigError, match=problem):
        load_config(written_device(tmp_path / "kitchen", f"[server]\n{server}\n"))


@pytest.fixture
def addresses():
    """Makes two addresses of a server, each of which may fail."""
    made = []

    def make(server):
        made.extend(FallibleAddress(int(server.url.rpartition(":")[2])) for _ in range(2))
        return made

    yield make
    for address in made:
        address.kill()


def test_a_poll_and_an_upload_that_are_cut_go_on_at_the_other_address_and_count_once(start_aggregator, addresses):
    server = start_aggregator()
    first, second = addresses(server)
    device = FakeDevice(1, ("c0", "c1"))
    fleet = Fleet(server, [device]).ready()
    client = ServerClient(first.url, Identity(device.device_id, device.secret), more=[second.url])

    # The address of a poll is gone while the device waits.
    failures: list[str] = []

    def poll() -> None:
        with pytest.raises(UnreachableError) as failure:
            client.work(60.0)
        failures.append(str(failure.value))

    polling = threading.Thread(target=poll)
    polling.start()
    wait_for(lambda: first.served, what="the poll")
    first.kill()
    polling.join(60)
    assert "does not answer" in failures[0]
    assert client.addresses.report() == [
        {"url": first.url, "in_use": False, "error": failures[0]},
        {"url": second.url, "in_use": True, "error": ""},
    ]
    round_id = fleet.open_round()
    work = client.work(30.0)
    assert (work.kind, work.round_id) == ("contribute", round_id)

    # The other one is gone in the middle of the upload; then the first, once the server has all of it.
    data = device.upload(fleet.work(device), fleet.samples)
    first.revive()
    second.cut_body_of = b"/update"
    with pytest.raises(UnreachableError):
        client.upload(round_id, data, lambda: None)
    assert client.addresses.url == first.url
    first.drop_answers = True
    with pytest.raises(UnreachableError):
        client.upload(round_id, data, lambda: None)
    second.revive()
    assert client.upload(round_id, data, lambda: None).repeated
    client.close()
    found = wait_for(lambda: (r := fleet.round(round_id))["summary"]["state"] != "open" and r, what="the round's end")
    assert found["summary"]["uploaded"] == 1
    fleet.close()


@pytest.mark.slow
def test_a_whole_device_goes_on_at_the_other_address_whenever_one_is_gone(bundles, fleet_of, addresses):
    server, device = fleet_of(bundles)
    both = addresses(server)
    edge = device("edge", "cnn1", ("yes", "no"))
    urls = f'urls = ["{both[0].url}", "{both[1].url}"]'
    edge.config.write_text(edge.config.read_text().replace(f'url = "{server.url}"', urls))
    edge.start()
    enrolled(server, 1)

    def in_use():
        found = edge.status().get("server") or {}
        return next((address for address in both if address.url == found.get("server")), None)

    # While it waits for work.
    used = wait_for(
        lambda: in_use() if (edge.status().get("server") or {}).get("reachable") else None, what="its first"
    )
    (other,) = {*both} - {used}
    used.kill()
    wait_for(lambda: in_use() is other and edge.status()["server"]["reachable"], what="the change to the other")
    shown = edge.command("status", check=False).stdout
    assert f"{used.url}: failed: " in shown
    assert f"{other.url}: in use" in shown
    assert "does not answer" in edge.command("doctor", check=False).stdout

    # In the middle of its upload, and so in the middle of a round.
    used.revive()
    other.cut_body_of = b"/update"
    round_id = open_round(server, settings=SETTINGS_OF_ROUND)
    wait_for(lambda: in_use() is used, what="the change back, in the middle of the upload")
    found = finished(server, round_id)
    assert found["summary"]["state"] == "done"
    assert found["summary"]["uploaded"] == 1
    assert edge.log().count("contribute") == 1  # it was not trained for a second time
    assert edge.end() == 0
