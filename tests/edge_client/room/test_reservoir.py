"""The reservoir keeps a bounded sample of all hours, and says without bias how often a score is reached."""

import numpy as np
import pytest

from edge_client.room.reservoir import HOURS, Layout, Reservoir

LAYOUT = Layout("front end", 2, 0.25, 2)


def reservoir(layout=LAYOUT, **changes):
    """A reservoir whose clock stands where the list says."""
    clock = [1_767_571_200.0]
    return Reservoir(layout, clock=lambda: clock[0], seed=3, **changes), clock


def hear(found, clock, embeddings, scores, detected=()):
    for index, (embedding, score) in enumerate(zip(embeddings, scores, strict=True)):
        clock[0] += found.layout.hop_s
        found.look(embedding, float(score), dict(detected).get(index, ""))


def test_all_runs_stay_while_there_is_room_and_silence_is_not_counted():
    found, clock = reservoir()
    begin = 16
    hear(found, clock, [np.full(2, index, np.float32) for index in range(begin)], [0.1] * begin)
    hear(found, clock, [None] * 16, [0.0] * 16)
    sample = found.sample()
    assert sample.heard_hours == pytest.approx(14 * 0.25 / 3600)  # the first two windows begin a block
    assert sample.windows.shape == (2, 3, 2)
    assert (sample.chances() == 1).all()


def test_a_run_holds_the_windows_about_the_highest_score():
    found, clock = reservoir()
    scores = [0.1] * 10
    scores[5] = 0.9
    hear(found, clock, [np.full(2, index, np.float32) for index in range(10)], scores, [(5, "yes")])
    sample = found.sample()
    assert sample.windows[0, :, 0].tolist() == [4.0, 5.0, 6.0]
    assert sample.names == ["yes"]
    assert sample.taken.tolist() == [0]


def test_it_is_bounded_however_much_is_heard_and_every_hour_of_the_day_keeps_its_share():
    found, clock = reservoir(Layout("front end", 448, 2.0, 1))
    rng = np.random.default_rng(0)
    for hour in range(HOURS):
        clock[0] = 1_767_571_200.0 + 3600 * hour
        hear(found, clock, rng.normal(size=(200, 448)).astype(np.float32), rng.random(200))
    sample = found.sample()
    assert sample.windows.nbytes <= 4_000_000
    assert np.bincount(sample.hours, minlength=HOURS).tolist() == [found.layout.runs] * HOURS


def test_how_often_another_score_is_reached_is_told_without_bias():
    rng, blocks = np.random.default_rng(1), 5_000
    told = []
    for seed in range(4):
        layout = Layout("front end", 1, 2.0, 1)
        found = Reservoir(layout, clock=lambda: 1_767_571_200.0, seed=seed)
        logits = rng.normal(-4, 2, size=blocks)
        other = 0.8 * logits + rng.normal(0, 1, size=blocks)  # what another head makes of the same windows
        for index in range(blocks):
            found.look(np.array([other[index]], np.float32), 1 / (1 + np.exp(-logits[index])))
            found.look(None, 0.0)  # a block has two windows
        sample = found.sample()
        reached = (1 / sample.chances())[np.nanmax(sample.windows[:, :, 0], axis=1) > -1.0].sum()
        told.append(reached / (other > -1.0).sum())
    assert np.mean(told) == pytest.approx(1.0, abs=0.2)
