"""Regions: servers that are devices of an upper one, with devices of their own, all real processes."""

import time
from pathlib import Path

import numpy as np

from aggregator_server import cli
from fleet_protocol.addresses import InvitationLink
from fleet_protocol.client.certificates import fingerprint
from tests.support.aggregator_process import Fleet, SharingDevice, tiny_bundle
from tests.support.state_servers import options_of

CLASSES = ("c0", "c1", "c2", "c3")
MEAN = {"name": "weighted_mean", "settings": {"clips_cap": 0}}
OWN_MEAN = ("--aggregation", "weighted_mean:clips_cap=0")


def until(found, what, seconds=120):
    """Wait for a state, and return it."""
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return value


def invite(server, devices=1):
    """The link of an invitation to a server."""
    with server.client() as admin:
        token = admin.post("/v1/invitations", json={"devices": devices}).raise_for_status().json()["token"]
        shown = admin.get("/v1/authority")
    authority = fingerprint(shown.json()["certificate"]) if shown.status_code == 200 else None
    return str(InvitationLink(server.url, token, authority))


def join(link, data: Path, *options):
    """Run ``auricle-aggregator join``; return its exit status."""
    return cli.main(["join", link, "--data", str(data), *options_of(data), *options])


class Region(Fleet):
    """A region with some devices that share the model of ``tiny_bundle``."""

    def __init__(self, upper, data, start, numbers, *options, kind=SharingDevice):
        assert join(invite(upper), data, "--name", data.name, *options) == 0
        super().__init__(start(data.name), [kind(number, CLASSES) for number in numbers])
        self.enrol()

    def take_part(self, devices=None):
        """Let devices upload for the region's open round, after what they have to learn; return what each sent."""
        sent = {}
        for device in self.devices if devices is None else devices:
            work = self.contribution(device)
            sent[device.number] = device.arrays(work, self.samples)
            self.upload(device, work).raise_for_status()
        return sent

    def rounds(self):
        """The region's rounds, newest first."""
        return self.admin.get("/v1/rounds").raise_for_status().json()

    def adopted(self, times):
        """Wait until the region has taken over so many results; return the newest one's round."""

        def newest():
            found = [one for one in self.rounds() if one["operation"] == "adopt"]
            return self.round(found[0]["round_id"]) if len(found) == times else None

        return until(newest, f"{times} results taken over")


def mean_of(sent):
    """The mean of what devices sent, weighted by their clips."""
    sizes = [40 + number for number in sent]
    names = {name for arrays in sent.values() for name in arrays if name.startswith("weights/")}
    return {
        name.removeprefix("weights/"): np.average([arrays[name] for arrays in sent.values()], axis=0, weights=sizes)
        for name in names
    }


class Upper(Fleet):
    """An upper server with a model, and no device but its regions."""

    def __init__(self, start, name="upper", *options):
        super().__init__(start(name, *options), [])
        self.publish().raise_for_status()
        self.admin.put("/v1/model", content=tiny_bundle()).raise_for_status()

    def opened(self, **request):
        plan = {"strategy": "fedavg", "aggregation": MEAN, "personalisation": {"name": "none"}, "deadline_s": 300}
        return self.open_round(**(plan | request))

    def done(self, round_id):
        """Wait until a round is over, and return it."""

        def over():
            found = self.round(round_id)
            return found if found["summary"]["state"] != "open" else None

        return until(over, f"the end of round {round_id}")
