"""The clips that a device judges its models by: whole speakers, always the same, and never one it trains on."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from edge_client.audio.recordings import Recordings, speaker_of
from edge_client.learning.training_data import Split, held_out
from tests.support.aggregator_process import SETTINGS
from tests.support.sounds import write_clips

CLIPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("stuvwxyz"), st.integers(0, 9)), min_size=1, unique=True
)


def folder(clips):
    """Paths by label, of (label, speaker, number)."""
    found: dict[str, list[Path]] = {}
    for label, speaker, number in sorted(clips):
        found.setdefault(label, []).append(Path(label) / f"{speaker}_nohash_{number}.wav")
    return found


@given(CLIPS, st.floats(0.05, 0.5), st.randoms(use_true_random=False))
def test_every_label_keeps_clips_to_train_on_and_the_choice_depends_on_the_names_alone(clips, share, random):
    chosen = held_out(folder(clips), share)
    for paths in folder(clips).values():
        assert set(paths) - chosen
    random.shuffle(clips)
    assert held_out({label: paths[::-1] for label, paths in folder(clips).items()}, share) == chosen


def test_of_many_speakers_whole_ones_are_held_out_about_as_many_clips_as_asked_for():
    clips = folder((label, f"{speaker:02}", number) for label in "ab" for speaker in range(20) for number in range(3))
    chosen = held_out(clips, 0.2)
    assert len(chosen) == 24
    speakers = {speaker_of(path) for path in chosen}
    assert chosen == {path for paths in clips.values() for path in paths if speaker_of(path) in speakers}


def test_a_device_that_hears_one_person_or_two_holds_out_single_clips():
    one = folder(("a", "owner", number) for number in range(20))
    two = folder(("a", speaker, number) for speaker in ("owner", "guest") for number in range(10))
    mostly = folder([("a", "owner", number) for number in range(16)] + [("a", "guest", number) for number in range(4)])
    for clips in (one, two, mostly):
        assert len(held_out(clips, 0.2)) == 4
    assert any(speaker_of(path) == "owner" for path in held_out(mostly, 0.2))
    assert held_out(folder([("a", "owner", 0)]), 0.5) == frozenset()
    assert held_out({}, 0.5) == frozenset()


def test_a_source_of_clips_is_parted_in_two_for_every_round(tmp_path):
    for label in ("yes", "no"):
        write_clips(tmp_path, label, 10, seed=1)
    recordings = Recordings(tmp_path, SETTINGS, per_round=(5, 5), seed=3)
    train = Split(recordings, 0.3)
    judge = train.held_out
    assert train.labels() == judge.labels() == ("no", "yes")
    for label in train.labels():
        judged = judge.clips_for_round(1, label)
        assert judge.clips_for_round(2, label) == judged
        for number in (1, 2):
            drawn = train.clips_for_round(number, label)
            assert not set(drawn) & set(judged)
            assert set(drawn) | set(judged) >= set(recordings.clips_for_round(number, label))
    assert sum(len(judge.clips_for_round(1, label)) for label in judge.labels()) == 6
    assert judge.load(judge.clips_for_round(1, "yes")).shape[1] == SETTINGS.clip_samples
    assert Split(recordings, 0.0).clips_for_round(1, "yes") == recordings.clips_for_round(1, "yes")
