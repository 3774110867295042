"""A bundle says truly what is in it, equal input gives equal bundles, and the ready ones are found by their names."""

import json
import os
import re
import zipfile
from pathlib import Path

import pytest

from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import FIRST_CHOICE, find_bundle, ready_names
from fleet_protocol.errors import BundleError


def test_every_ready_bundle_is_one():
    assert FIRST_CHOICE in ready_names()
    for name in ready_names():
        assert read_bundle(find_bundle(name)).manifest.capacity >= 2


@pytest.mark.parametrize("given", ["./base", "base.auricle", "models/base", "/etc/auricle/base"])
def test_what_has_a_slash_or_a_suffix_is_a_path(given):
    assert find_bundle(given, Path("/srv")) == Path("/srv") / given


@pytest.mark.parametrize("given", ["bass", "", "Base", ".."])
def test_an_unknown_name_is_refused_with_those_that_are_known(given):
    with pytest.raises(BundleError, match="ann3, base, base_hidden") as caught:
        find_bundle(given)
    assert repr(given) in str(caught.value)


def test_a_file_that_is_missing_is_said_with_what_is_ready(tmp_path):
    with pytest.raises(BundleError, match=r"gone\.auricle is not a readable .* or name a ready one \(ann3, base"):
        read_bundle(find_bundle("gone.auricle", tmp_path))


@pytest.mark.parametrize("number", ["9" * 5_000, "9" * 400, "1" + "0" * 30])
def test_a_number_of_many_digits_in_a_manifest_is_refused(tmp_path, bundles, number):
    with zipfile.ZipFile(bundles["cnn2"]) as whole, zipfile.ZipFile(tmp_path / "odd.auricle", "w") as odd:
        for name in whole.namelist():
            data = whole.read(name)
            if name == "manifest.json":
                data = re.sub(rb'"capacity": \d+', b'"capacity": ' + number.encode(), data)
            odd.writestr(name, data)
    with pytest.raises(BundleError, match=f"a number of {len(number)} digits"):
        read_bundle(tmp_path / "odd.auricle")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": []}, "it names no layers"),
        ({"mean": []}, "are not 13 numbers"),
        ({"std": [1.0, 1.0]}, "are not 13 numbers"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(tmp_path, changes, message):
    with zipfile.ZipFile(find_bundle("cnn1")) as whole, zipfile.ZipFile(tmp_path / "odd.auricle", "w") as odd:
        for name in whole.namelist():
            data = whole.read(name)
            odd.writestr(name, json.dumps(json.loads(data) | changes) if name == "manifest.json" else data)
    with pytest.raises(BundleError, match=f"odd.auricle: its manifest cannot be read: .*{message}"):
        read_bundle(tmp_path / "odd.auricle")


def test_what_would_be_read_for_ever_is_no_bundle(tmp_path):
    os.mkfifo(tmp_path / "pipe.auricle")
    with (tmp_path / "large.auricle").open("wb") as large:
        large.truncate(20 * 2**30)
    for path, message in (
        (tmp_path / "pipe.auricle", "is no regular file"),
        (Path("/dev/zero"), "is no regular file"),
        (tmp_path, "is no regular file"),
        (tmp_path / "large.auricle", "more than 1073741824 bytes"),
    ):
        with pytest.raises(BundleError, match=f"{path} is not a readable model bundle .*{message}"):
            read_bundle(path)
