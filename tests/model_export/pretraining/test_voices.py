"""Voices: the directions in which people differ are found beside words, noise and microphones."""

import numpy as np
import pytest

from edge_client.detection.speaker_gate import VOICES, Voices
from fleet_protocol.tensors import unpack
from model_export.cli import main
from model_export.errors import CorpusError
from model_export.pretraining.corpus import Corpus
from model_export.pretraining.pictures import BANDS, FRAMES, LOG_POWERS, to_pixels
from model_export.pretraining.voices import learn
from tests.support.sounds import write_clips

PEOPLE = 40


def said(word, person, rng):
    """A picture of a word: its band by time, in a voice that has two peaks of its own."""
    times, bands = np.arange(FRAMES)[:, None], np.arange(BANDS)
    own = np.random.default_rng([7, person])
    voice = sum(2.5 * np.exp(-(((bands - own.uniform(5, 35)) / 3) ** 2)) for _ in range(2))
    begin, centre = 20 + rng.integers(30), 10 + 8 * word + rng.normal(scale=0.5)
    spoken = np.exp(-(((times - begin - 12) / 8.0) ** 2)) * 9
    shape = np.exp(-(((bands - centre - 0.3 * (times - begin)) / 5.0) ** 2)) * 3
    return -9 + spoken + (shape + voice) * (spoken > 3) + rng.normal(scale=0.3, size=(FRAMES, BANDS))


def corpus(first, people, takes=4, words=3):
    rows = [(word, person) for word in range(words) for person in range(first, first + people) for _ in range(takes)]
    rng = np.random.default_rng(first)
    pixels = to_pixels(np.stack([said(word, person, rng) for word, person in rows]))
    words_, speakers = zip(*((f"word{word}", f"p{person}") for word, person in rows), strict=True)
    return Corpus(pixels, np.array(words_), np.array(speakers))


def test_people_who_were_never_heard_are_told_apart():
    arrays = learn(corpus(0, PEOPLE), seed=0)
    voices = Voices(arrays["directions"], arrays["between"])
    assert voices.directions.shape == (200, 20)
    assert (np.diff(voices.between) <= 0).all()
    new = corpus(1000, 10)
    heard = voices.of(LOG_POWERS[new.pixels])
    own, other = [], []
    for person in sorted(set(new.speakers)):
        mine = (new.speakers == person) & (new.words == "word1")
        rows = np.flatnonzero(mine)
        others = (new.speakers != person) & (new.words == "word1")
        own += voices.likeness(heard[rows[:3]], heard[rows[3:]]).tolist()
        other += voices.likeness(heard[rows[:3]], heard[others]).tolist()
    assert np.mean(np.array(own) > np.quantile(other, 0.9)) > 0.8


def test_the_same_corpus_and_seed_give_the_same_directions_and_too_few_takes_are_refused():
    small = corpus(0, 12)
    first, again, other = (learn(small, seed) for seed in (0, 0, 1))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["directions"], other["directions"])
    with pytest.raises(CorpusError, match="no two people of the corpus have 3 takes of a word"):
        learn(corpus(0, 12, takes=2), seed=0)


def test_the_command_leaves_people_out_and_writes_what_the_device_reads(tmp_path, capsys):
    for seed in range(6):
        write_clips(tmp_path / "all", "yes", 1, seed=seed)
    for path in sorted((tmp_path / "all" / "yes").iterdir()):
        for take in range(1, 4):
            path.with_name(path.name.replace("_nohash_0", f"_nohash_{take}")).write_bytes(path.read_bytes())
    (tmp_path / "out" / "yes").mkdir(parents=True)
    for path in sorted((tmp_path / "all" / "yes").iterdir())[:4]:
        (tmp_path / "out" / "yes" / path.name).write_bytes(path.read_bytes())
    target, options = tmp_path / "voices.safetensors", ("--attribution", "me", "-o")
    arguments = ["voices", "--data", str(tmp_path / "all"), *options, str(target)]
    assert main(arguments) == 0
    assert capsys.readouterr().out.strip() == str(target)
    arrays, document = unpack(target.read_bytes())
    shipped, about = unpack(VOICES.read_bytes())
    assert {name: array.shape for name, array in arrays.items()} == {
        name: array.shape for name, array in shipped.items()
    }
    assert document.keys() == about.keys()
    assert document["attribution"] == "me"
    assert main([*arguments, "--leave-out-speakers", str(tmp_path / "out")]) == 0
    assert unpack(target.read_bytes())[1]["corpus"] != document["corpus"]
    assert main([*arguments, "--leave-out-speakers", str(tmp_path / "all")]) == 1
    assert "no two people" in capsys.readouterr().err
    assert main([*arguments, "--seed", "-1"]) == 1
    assert "--seed must be at least 0, not -1" in capsys.readouterr().err
