"""The demo's split: the paper's pattern of labels, and no speaker in two parts, whatever recordings there are."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demo import DemoError
from demo.split import KEYWORDS, SOUNDS, deal, new_sound_rounds, read_labels, split
from edge_client.audio.recordings import speaker_of

WORDS = [f"word{number:02d}" for number in range(30)]


@pytest.mark.parametrize(
    ("labels", "devices"),
    [
        (KEYWORDS, ("yes no up down", "up down left right", "left right on off")),
        (SOUNDS, (" ".join(SOUNDS[:3]), "children_playing dog_bark drilling", " ".join(SOUNDS[4:8]))),
    ],
)
def test_the_papers_labels_are_dealt_as_in_the_paper(labels, devices):
    plan = deal(sorted(labels))
    assert plan.devices == tuple(tuple(words.split()) for words in devices)
    assert (plan.known, plan.new) == (labels[:-2], labels[-2:])


LABELS = [sorted(WORDS), KEYWORDS, SOUNDS]


@given(labels=st.one_of(*(st.lists(st.sampled_from(known), min_size=4, unique=True) for known in LABELS)))
@settings(derandomize=True, deadline=None)
def test_any_labels_are_dealt_in_overlapping_runs_in_the_papers_order_or_the_alphabets(labels):
    plan = deal(labels)
    order = next(known for known in LABELS if labels[0] in known)
    assert plan.known + plan.new == tuple(label for label in order if label in labels)
    assert set().union(*plan.devices) == set(plan.known)
    for run in plan.devices:
        assert len(run) >= 2
        start = plan.known.index(run[0])
        assert run == plan.known[start : start + len(run)]
    for one, other in itertools.pairwise(plan.devices):
        assert set(one) & set(other)


@pytest.mark.parametrize(
    ("labels", "new", "message"),
    [
        (["yes", "no", "up"], None, r"at least 4 labels are needed, not 3 \(no, up, yes\)"),
        ([], None, r"at least 4 labels are needed, not 0 \(none\)"),
        (KEYWORDS, ["stop"], "two different labels must be new, not stop; present: yes, no"),
        (KEYWORDS, ["stop", "stop"], "two different labels must be new, not stop, stop"),
        (KEYWORDS, ["stop", "maybe"], "two different labels must be new, not stop, maybe"),
        (KEYWORDS, ["stop", "go", "on"], "two different labels must be new, not stop, go, on"),
    ],
)
def test_what_cannot_be_dealt_is_explained(labels, new, message):
    with pytest.raises(DemoError, match=message):
        deal(labels, new)


def corpus(labels, speakers, takes, rng=None):
    """Paths of recordings; with ``rng``, a random number of takes of each label by each speaker."""
    return {
        label: [
            Path(label) / f"s{speaker}_nohash_{take}.wav"
            for speaker in range(speakers)
            for take in range(takes if rng is None else int(rng.integers(takes + 1)))
        ]
        for label in labels
    }


def parts_of(result):
    """Every part's clips; a device's first clips and those of its new labels are one part."""
    devices = [[path for paths in clips.values() for path in paths] for clips in result.training]
    for arrival in result.arrivals:
        devices[arrival.device] += arrival.clips
    shared = [[path for paths in clips.values() for path in paths] for clips in (result.public, result.test)]
    return [*shared, *devices]


def require_sound(result, clips):
    parts = parts_of(result)
    for part in parts:
        assert len(set(part)) == len(part)
    for one, other in itertools.combinations(parts, 2):
        assert not {speaker_of(path) for path in one} & {speaker_of(path) for path in other}
    lists = [result.public, result.test, *result.training, *({a.label: a.clips} for a in result.arrivals)]
    for label, paths in ((label, paths) for part in lists for label, paths in part.items()):
        assert len(paths) >= 5
        assert set(paths) <= set(clips[label])
    assert tuple(result.public) == result.deal.known
    assert len({len(paths) for paths in result.public.values()}) == 1
    assert tuple(tuple(clips) for clips in result.training) == result.deal.devices
    low, high = result.per_round
    assert 1 <= low <= high <= min(len(paths) for clips in result.training for paths in clips.values())


@given(
    labels=st.integers(4, 14),
    speakers=st.integers(5, 60),
    takes=st.integers(1, 6),
    seed=st.integers(0, 999),
    uneven=st.booleans(),
)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_no_speaker_is_in_two_parts_and_every_part_has_enough_or_it_is_said(labels, speakers, takes, seed, uneven):
    clips = corpus(WORDS[:labels], speakers, takes, np.random.default_rng(seed) if uneven else None)
    try:
        result = split(clips, deal(list(clips)), seed)
    except DemoError as error:
        assert str(error).startswith("too few recordings of 'word")  # noqa: PT017
        # Forty speakers with two takes of everything are enough for anything.
        assert uneven or speakers * takes < 80 or speakers < 40
    else:
        require_sound(result, clips)


def test_the_papers_sizes_are_used_where_there_is_enough_and_scaled_down_where_not():
    rich = split(corpus(KEYWORDS, 900, 4), deal(KEYWORDS), 0)
    assert {len(paths) for paths in rich.public.values()} == {300}
    assert rich.per_round == (200, 300)
    poor = corpus(KEYWORDS, 60, 4)
    result = split(poor, deal(KEYWORDS), 0)
    assert 40 <= len(result.public["yes"]) <= 80
    assert result.per_round[1] == min(len(paths) for clips in result.training for paths in clips.values())
    assert result.per_round[0] == result.per_round[1] * 2 // 3


def test_new_labels_arrive_as_in_the_paper():
    result = split(corpus(KEYWORDS, 60, 4), deal(KEYWORDS), 0)
    met = [(new_sound_rounds(8)[new.late], new.device, new.label) for new in result.arrivals]
    assert met == [(3, 0, "stop"), (3, 1, "stop"), (6, 0, "stop"), (6, 1, "go")]


@pytest.mark.parametrize(
    ("clips", "message"),
    [
        (corpus(KEYWORDS, 3, 50), "too few recordings of 'yes': of 150 clips by 3 speakers, .* would get 0, but"),
        (corpus(KEYWORDS, 60, 4) | {"off": [Path("off/a_1.wav")]}, "'off': of 1 clips by 1 speakers"),
        (corpus(KEYWORDS, 60, 4) | {"go": [Path(f"go/a{i}.wav") for i in range(8)]}, "'go': of 8 clips"),
    ],
)
def test_too_few_recordings_are_an_error_that_names_label_and_count(clips, message):
    with pytest.raises(DemoError, match=message):
        split(clips, deal(list(clips)), 0)


def test_a_folder_is_read_by_label(tmp_path):
    for name in ("yes/a_1.wav", "yes/b_1.flac", "no/a_1.wav", "_noise/a_1.wav", "no/text.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert read_labels(tmp_path) == {
        "no": (tmp_path / "no" / "a_1.wav",),
        "yes": (tmp_path / "yes" / "a_1.wav", tmp_path / "yes" / "b_1.flac"),
    }
    with pytest.raises(DemoError, match="nowhere"):
        read_labels(tmp_path / "nowhere")


def test_new_sounds_appear_in_the_papers_rounds_and_in_proportion_in_shorter_runs():
    assert new_sound_rounds(10) == (4, 8)
    assert new_sound_rounds(8) == (3, 6)
    assert new_sound_rounds(5) == (2, 4)
    assert new_sound_rounds(3) == (2, 3)
