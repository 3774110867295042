"""The table of scores is searched on windows that were heard once, scored and thresholded as a device does."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.listening.choosing import Search, device_of, tried, written
from benchmarks.listening.front_ends import FrontEnd
from benchmarks.listening.material import RATE_HZ
from benchmarks.listening.own_words import mean, measure, owners
from edge_client.detection.scores import SHIPPED_TABLE, TABLE, read_table
from edge_client.errors import ModelError
from tests.support.sounds import TONES, write_words

SNR_DB = 10.0


@pytest.fixture(scope="module")
def heard(tmp_path_factory, pretrained_bundle):
    """An owner's device that heard a few minutes of melodies, and what the device itself makes of the same stream."""
    folder = tmp_path_factory.mktemp("words")
    write_words(folder, TONES, 6)
    noise = (np.random.default_rng(0).normal(scale=0.1, size=RATE_HZ * 5).astype(np.float32),)
    (owner,) = owners(folder, 1, 2, 1, seed=0)
    given = noise, noise, (SNR_DB,), 0
    device = device_of(pretrained_bundle, owner, 0, *given)
    return device, measure(FrontEnd("base", pretrained_bundle), [owner], *given, in_rooms=True)[0]


def test_a_trial_counts_what_the_device_itself_would_hear(heard):
    device, itself = heard
    found = mean([device.figures(TABLE)[SNR_DB]])
    assert found == {name: itself[name] for name in found}


def test_a_search_keeps_what_misses_less_and_writes_it_with_its_figures(heard, tmp_path):
    never = replace(TABLE, other_word=replace(TABLE.other_word, cosine=0.0, yes=0.0, no=0.0))
    sets = {"melodies": [heard[0]]}
    search = Search(never, "other_word", sets, 9)
    assert len(search.trials) == 9
    assert search.trials[0]["missed"] == 100
    assert search.best["missed"] == min(row["missed"] for row in search.trials) < 100
    assert search.best["missed"] == tried(search.table, sets)["missed"]

    path = tmp_path / "scores.toml"
    path.write_text(written(SHIPPED_TABLE.read_text(), search, "other_word"))
    assert read_table(path) == search.table
    assert f"now: at most 10 {search.best['at most 10']:g}" in path.read_text().splitlines()[2]
    again = written(path.read_text(), search, "other_word")
    assert again == path.read_text()


@pytest.mark.parametrize(("old", "new"), [("lack = 4.0", ""), ("lack = 4.0", 'lack = "much"'), ("[sound]", "[souns]")])
def test_a_table_that_lacks_a_number_is_refused_by_name(tmp_path, old, new):
    path = tmp_path / "mine.toml"
    path.write_text(SHIPPED_TABLE.read_text().replace(old, new))
    with pytest.raises(ModelError, match=r"mine\.toml is no table of scores .*; copy .*scores\.toml"):
        read_table(path)
