"""Hundreds of single bit flips in every binary body: each is refused by name, or changes a value and nothing else."""

import io
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

from fleet_protocol.bundle import unpack_bundle
from fleet_protocol.client.identity import Identity
from fleet_protocol.client.server_client import ServerClient
from fleet_protocol.errors import BundleError, ProtocolError, UnreachableError
from fleet_protocol.fleet_prototypes import FleetPrototypes
from fleet_protocol.public_set import PublicSet, pack_consensus, unpack_consensus
from fleet_protocol.ready_bundles import find_bundle
from fleet_protocol.tensors import digest, pack, unpack
from tests.support.aggregator_process import FakeDevice, Fleet, SharingDevice, public_set, tiny_bundle
from tests.support.core_fleet import devices
from tests.support.embedded_words import PrototypeDevice, embedded_public_set
from tests.support.flips import flips
from tests.support.hostile_server import HostileServer, whole

FLIPS, SENT = 200, 60
RNG = np.random.default_rng(1)
PROTOTYPES = FleetPrototypes("0" * 16, ("c0", "c1"), np.zeros((2, 1, 8), np.float32), np.ones(2, np.int64), ("c1",))
SCORES = np.asarray(RNG.random((24, 4)), np.float32)
BODIES = {
    "bundle": (find_bundle("cnn1").read_bytes(), lambda data: unpack_bundle(data, "the bundle")),
    "small bundle, mostly manifest": (tiny_bundle(), lambda data: unpack_bundle(data, "the bundle")),
    "public set": (public_set().pack(), PublicSet.unpack),
    "public set of two rows, mostly header": (public_set(2, 2).pack(), PublicSet.unpack),
    "consensus": (pack_consensus(SCORES, ("c0", "c1", "c2", "c3")), unpack_consensus),
    "weights": (pack({"body/kernel": SCORES, "head/bias": SCORES[0]}, {"classes": ["c0"]}), unpack),
    "prototypes": (PROTOTYPES.pack(), FleetPrototypes.unpack),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_device_reads_a_flipped_body_or_refuses_it_by_name(name):
    good, read = BODIES[name]
    refused = 0
    for damaged in flips(good, FLIPS, seed=2):
        try:
            read(damaged)
        except ProtocolError:
            refused += 1
    assert refused > 0


def test_a_flip_on_the_way_to_a_device_is_noticed_and_leaves_nothing_behind(tmp_path):
    good = public_set().pack()
    server = HostileServer(whole(b""))
    client = ServerClient(server.url, Identity("1" * 32, "secret"))
    path = tmp_path / "blobs" / digest(good)
    for damaged in flips(good, 50, seed=3):
        server.answer = whole(damaged)
        with pytest.raises(UnreachableError, match="arrived damaged"):
            client.fetch(digest(good), path, len(good), lambda: None)
        assert list(path.parent.iterdir()) == []
    server.answer = whole(good)
    client.fetch(digest(good), path, len(good), lambda: None)
    assert path.read_bytes() == good
    client.close()
    server.close()


UPLOADS = {
    "zero_shot": SimpleNamespace(kind=FakeDevice, public=public_set()),
    "fedavg": SimpleNamespace(kind=SharingDevice, public=public_set()),
    "prototypes": SimpleNamespace(kind=PrototypeDevice, public=embedded_public_set(np.random.default_rng(7))),
}


@pytest.fixture
def fleet(start_aggregator, request):
    """One device that uploads, and one that never does, so that no round closes."""
    case = UPLOADS[request.param]
    made = Fleet(start_aggregator(), devices(2, kind=case.kind))
    made.admin.put("/v1/public-set", content=case.public.pack()).raise_for_status()
    made.admin.put("/v1/model", content=tiny_bundle())
    made.enrol()
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("fleet", "strategy"), [(name, name) for name in UPLOADS], indirect=["fleet"])
def test_an_aggregator_refuses_a_flipped_upload_by_its_code_or_takes_it(fleet, strategy):
    device, codes = fleet.devices[0], set()
    round_id = fleet.open_round(strategy=strategy, deadline_s=3600)
    work = fleet.work(device)
    good = device.upload(work, fleet.rows(work))
    for number, damaged in enumerate(flips(good, SENT, seed=5)):
        answer = fleet.upload(device, work | {"round_id": round_id}, damaged)
        if answer.status_code == 200:
            assert answer.json()["sha256"] == digest(damaged)
            codes.add("taken")
            fleet.admin.delete(f"/v1/rounds/{round_id}").raise_for_status()
            round_id = fleet.open_round(strategy=strategy, deadline_s=3600)
        else:
            assert answer.status_code in (413, 422), (number, answer.text)
            codes.add(answer.json()["error"]["code"])
    assert {"taken", "malformed_update"} <= codes
    assert fleet.admin.get("/v1/health").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("fleet", ["zero_shot"], indirect=True)
@pytest.mark.parametrize(
    ("address", "good"),
    [("/v1/public-set", public_set(4).pack()), ("/v1/model", tiny_bundle(4))],
    ids=["public set", "model"],
)
def test_an_aggregator_refuses_a_flipped_publication_by_its_code_or_takes_it(fleet, address, good):
    statuses = set()
    for number, damaged in enumerate(flips(good, SENT, seed=5)):
        answer = fleet.admin.put(address, content=damaged)
        statuses.add(answer.status_code)
        assert answer.status_code in (200, 201, 409, 422), (number, answer.text)
    assert 422 in statuses
    assert fleet.admin.get("/v1/health").status_code == 200


def test_a_bundle_that_would_expand_is_refused_before_it_is_read():
    good, packed = io.BytesIO(tiny_bundle()), io.BytesIO()
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name) if name == "manifest.json" else bytes(100_000_000))
    assert len(packed.getvalue()) < 1_000_000
    with pytest.raises(BundleError, match="its members are compressed"):
        unpack_bundle(packed.getvalue(), "the bundle")
