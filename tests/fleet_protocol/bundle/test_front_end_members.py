"""Bundles and front ends that leave out what another file of the installation holds."""

import io
import json
import zipfile

import pytest

from fleet_protocol.bundle.bundle_file import read_bundle, unpack_bundle, without_shipped, write_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle, find_member
from fleet_protocol.errors import BundleError
from fleet_protocol.numbers.tensors import digest


def members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(data, **changes):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, member in (members(data) | changes).items():
            archive.writestr(name, member)
    return buffer.getvalue()


@pytest.mark.parametrize(("name", "kilobytes"), [("sounds_2s", 1000), ("words", 800), ("words_and_sounds", 1600)])
def test_a_thin_bundle_opens_as_the_whole_one(name, kilobytes):
    thin = find_bundle(name).read_bytes()
    assert set(members(thin)) == {"manifest.json", "model.tflite", "weights.safetensors"}
    opened = unpack_bundle(thin, "thin")
    assert [digest(one) for one in opened.manifest.networks] == [
        one.sha256 for one in opened.manifest.feature_settings.networks
    ]
    assert len(opened.manifest.embedding_statistics.words) >= 30
    whole = write_bundle(opened.manifest, opened.graph, opened.weights)
    assert len(whole) > len(thin) + 1000 * kilobytes
    assert unpack_bundle(whole, "whole").manifest == opened.manifest
    assert without_shipped(whole) == thin


def test_a_bundle_whose_network_is_nowhere_is_refused():
    thin = find_bundle("sounds").read_bytes()
    manifest = json.loads(members(thin)["manifest.json"])
    manifest["sha256"]["front_end.tflite"] = "0" * 64
    with pytest.raises(BundleError, match=r"another version, or damaged: it has no front_end\.tflite"):
        unpack_bundle(rewritten(thin, **{"manifest.json": json.dumps(manifest).encode()}), "it")
    # The digest of something else that ships, as one who would mix networks up might name it.
    manifest["sha256"]["front_end.tflite"] = digest(read_bundle(find_bundle("base")).manifest.networks[0])
    with pytest.raises(BundleError, match="not the network of its features"):
        unpack_bundle(rewritten(thin, **{"manifest.json": json.dumps(manifest).encode()}), "it")


def test_statistics_of_more_networks_than_there_are_are_refused():
    base = find_bundle("base").read_bytes()
    manifest = json.loads(members(base)["manifest.json"])
    statistics = members(base)["embedding.safetensors"]
    manifest["sha256"]["embedding_2.safetensors"] = digest(statistics)
    crafted = {"manifest.json": json.dumps(manifest).encode(), "embedding_2.safetensors": statistics}
    with pytest.raises(BundleError, match="2 statistics for 1 networks"):
        unpack_bundle(rewritten(base, **crafted), "it")


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 and no archive", None], ids=["empty", "no archive", "no list"])
def test_a_damaged_front_end_that_ships_is_named_with_the_way_out(tmp_path, damage):
    path = tmp_path / "base.frontend"
    if damage is None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("frontend.json", '{"files": []}')
    else:
        path.write_bytes(damage)
    with pytest.raises(
        BundleError, match=r"base\.frontend, which comes with Auricle, is damaged .*install Auricle again"
    ):
        find_member("0" * 64, tmp_path)
