"""How often words that no network heard reach a label's score, as a bundle says it."""

import pytest

from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.errors import BundleError
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.numbers.joint_statistics import join
from fleet_protocol.numbers.tensors import pack, unpack


def statistics_of(name):
    return read_bundle(find_bundle(name)).manifest.embedding_statistics


def test_a_tail_travels_with_the_statistics_and_into_joined_ones():
    words, base = statistics_of("words"), statistics_of("base")
    assert EmbeddingStatistics.unpack(words.pack()).unheard == words.unheard == (2.5, 1.5)
    assert join(words, statistics_of("sounds")).unheard == words.unheard
    assert base.unheard is None
    assert "unheard" not in unpack(base.pack())[1]


@pytest.mark.parametrize(
    "value", [3.0, [3.0], [3, 1, 1], ["a", 1], [[3], 1], [16, 1], [-16, 1], [3, 0.2], [3, 16], ["nan", 1], {}]
)
def test_a_tail_that_makes_no_sense_is_refused(value):
    arrays, document = unpack(statistics_of("words").pack())
    with pytest.raises(BundleError, match=r"must be -15\.\.15 and 0\.25\.\.15, not "):
        EmbeddingStatistics.unpack(pack(arrays, document | {"unheard": value}))
