"""A region whose fleet has several servers: the one with the lease speaks to the upper server, and no other."""

import signal
from pathlib import Path

import pytest

from tests.support.aggregator_process import Fleet
from tests.support.regions import OWN_MEAN, Region, Upper, until
from tests.support.state_servers import options_of

pytestmark = [pytest.mark.scaled, pytest.mark.slow]
ESTABLISHED = "01"


def speaks(server, other):
    """Whether a server's process has a connection to another one, by Linux's table of them."""
    port = int(other.url.rpartition(":")[2])
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{line[9]}]" for line in lines if int(line[2].split(":")[1], 16) == port}
    open_ones = set()
    for path in Path(f"/proc/{server.process.pid}/fd").iterdir():
        try:
            open_ones.add(str(path.readlink()))
        except FileNotFoundError:  # closed meanwhile
            continue
    return bool(sockets & open_ones)


def test_the_server_with_the_lease_alone_speaks_to_the_upper_one(start_aggregator, tmp_path):
    upper = Upper(start_aggregator)
    region = Region(upper.aggregator, tmp_path / "north", start_aggregator, (1, 2), *OWN_MEAN)
    first = region.aggregator
    second = start_aggregator("second", *options_of(tmp_path / "north"))
    beside = Fleet(second, region.devices)

    def alone(one, other):
        until(lambda: speaks(one, upper.aggregator), "a connection to the upper server")
        assert not speaks(other, upper.aggregator)

    round_id = upper.opened()
    for device in region.devices:  # they talk to the one that does not have the lease
        beside.upload(device, beside.contribution(device)).raise_for_status()
        alone(first, second)
    assert upper.done(round_id)["summary"]["uploaded"] == 1
    region.adopted(1)
    alone(first, second)
    # Paused, and then gone: the other one goes on as the same region.
    first.process.send_signal(signal.SIGSTOP)
    round_id = upper.opened()
    for device in region.devices:
        beside.upload(device, beside.contribution(device)).raise_for_status()
    found = upper.done(round_id)
    assert (found["summary"]["state"], found["summary"]["uploaded"]) == ("done", 1)
    until(lambda: speaks(second, upper.aggregator), "a connection to the upper server")
    first.process.send_signal(signal.SIGCONT)
    until(lambda: not speaks(first, upper.aggregator), "the end of what the paused one said")
    following = upper.opened()
    for device in region.devices:
        region.upload(device, region.contribution(device)).raise_for_status()
    assert upper.done(following)["summary"]["uploaded"] == 1
    alone(second, first)
    (known,) = upper.admin.get("/v1/devices").json()
    assert (known["name"], known["conduct"]["counted"]) == ("north", 3)
