"""The cache of what the aggregator sent stays within its bound."""

import os

from edge_client.storage.blob_cache import BlobCache
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.tensors import digest


def test_blobs_that_are_not_wanted_stay_only_as_far_as_there_is_room_for_them(tmp_path):
    blobs = BlobCache(tmp_path)
    names = []
    for age, content in enumerate((b"new", b"older", b"oldest")):
        names.append(digest(content))
        write_durably(blobs.path(names[-1]), content)
        os.utime(blobs.path(names[-1]), (1_000 - age, 1_000 - age))
    blobs.keep({names[2]}, spare_bytes=7)
    assert [blobs.has(name) for name in names] == [True, False, True]
    blobs.keep({names[2]})
    assert [blobs.has(name) for name in names] == [False, False, True]
