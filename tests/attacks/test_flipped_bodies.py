"""Hundreds of single bit flips in every binary body: each is refused by name, or changes a value and nothing else."""

import io
import zipfile
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from fleet_protocol.bundle.bundle_file import unpack_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.client.identity import Identity
from fleet_protocol.client.server_client import ServerClient
from fleet_protocol.errors import BundleError, ProtocolError, UnreachableError
from fleet_protocol.messages.public_set import PublicSet, pack_consensus, unpack_consensus
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import digest, pack, unpack
from fleet_protocol.numbers.word_order import WordOrder
from tests.support.aggregator_process import public_set, tiny_bundle
from tests.support.flips import flips
from tests.support.hostile_server import HostileServer, whole

FLIPS = 200
RNG = np.random.default_rng(1)
PROTOTYPES = FleetPrototypes("0" * 16, ("c0", "c1"), np.zeros((2, 1, 8), np.float32), np.ones(2, np.int64), ("c1",))
ORDER = WordOrder.of([(np.ones((2, 1, 8), np.float32), 1.3), (np.zeros((0, 1, 8), np.float32), 0.0)], (1, 8))
SCORES = np.asarray(RNG.random((24, 4)), np.float32)
BODIES = {
    "bundle": (find_bundle("cnn1").read_bytes(), lambda data: unpack_bundle(data, "the bundle")),
    "small bundle, mostly manifest": (tiny_bundle(), lambda data: unpack_bundle(data, "the bundle")),
    "public set": (public_set().pack(), PublicSet.unpack),
    "public set of two rows, mostly header": (public_set(2, 2).pack(), PublicSet.unpack),
    "consensus": (pack_consensus(SCORES, ("c0", "c1", "c2", "c3")), unpack_consensus),
    "weights": (pack({"body/kernel": SCORES, "head/bias": SCORES[0]}, {"classes": ["c0"]}), unpack),
    "prototypes": (PROTOTYPES.pack(), FleetPrototypes.unpack),
    "prototypes of phrases": (replace(PROTOTYPES, order=ORDER).pack(), FleetPrototypes.unpack),
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
    path = tmp_path / "blobs" / digest(good)
    with HostileServer(whole(b"")) as server, closing(ServerClient(server.url, Identity("1" * 32, "secret"))) as client:
        for damaged in flips(good, 50, seed=3):
            server.answer = whole(damaged)
            with pytest.raises(UnreachableError, match="arrived damaged"):
                client.fetch(digest(good), path, len(good), lambda: None)
            assert list(path.parent.iterdir()) == []
        server.answer = whole(good)
        client.fetch(digest(good), path, len(good), lambda: None)
    assert path.read_bytes() == good


def test_a_bundle_that_would_expand_is_refused_before_it_is_read():
    good, packed = io.BytesIO(tiny_bundle()), io.BytesIO()
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name) if name == "manifest.json" else bytes(100_000_000))
    assert len(packed.getvalue()) < 1_000_000
    with pytest.raises(BundleError, match="its members are compressed"):
        unpack_bundle(packed.getvalue(), "the bundle")
