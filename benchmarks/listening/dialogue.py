"""Hours of talk and noise without a taught word, made part by part: synthesised dialogue in recorded backgrounds.

Two synthetic voices talk in turns for one to three minutes, then nobody does for up to one. The sentences are drawn
from phrases of everyday English. Each part has a background and a ratio of levels of its own every twenty seconds.

`python -m benchmarks.listening.dialogue SECONDS SEED LABEL..` writes the talk of one part alone, 16-bit samples at
16 kHz, to its standard output: the synthesiser is C code with one global state, so each part has a process.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.command import ROOT, BenchmarkError
from benchmarks.listening.material import RATE_HZ, WORD_DB, Half, background, gains, loud_rms
from demo.corpus import ACCENTS, Synthesiser
from edge_client.audio.resampling import resample
from fleet_protocol.numbers.arrays import Floats

PART_S = 600.0
SNR_DB = (0.0, 30.0)
_LEVEL_DB = (WORD_DB - 8.0, WORD_DB + 4.0)
_TALK_S, _TURN_S, _SILENCE_S = (60.0, 180.0), (0.2, 1.5), (5.0, 60.0)
_SUBJECTS = (
    *("my sister", "the doctor", "our neighbour", "the teacher", "his brother", "the postman", "a friend of mine"),
    *("the girl next door", "my grandmother", "the driver", "everybody at work", "the man from the bank"),
    "your cousin",
)
_VERBS = (
    *("bought", "forgot", "found", "painted", "wanted", "sold", "carried", "borrowed", "cleaned", "talked about"),
    *("asked for", "laughed at", "waited for", "looked at", "dreamed of", "paid for", "wrote about", "remembered"),
)
_OBJECTS = (
    *("the green bicycle", "a cup of coffee", "two tickets for the theatre", "the broken window", "an old radio"),
    *("some bread and cheese", "the letter from the bank", "a bottle of water", "the red curtains"),
    *("a new telephone", "the garden behind the house", "those wooden chairs", "a very long story", "the television"),
    *("nine apples", "the kitchen table", "a basket of flowers", "the football match", "his favourite song"),
    "a warm jacket",
)
_PLACES = (
    *("in the city", "after breakfast", "last Saturday", "at the station", "before the holidays"),
    *("in the middle of June", "near the river", "on the way home", "at seven in the evening", "during the storm"),
    *("for the first time this year", "behind the library", "because of the weather", "without telling anybody"),
    "with a great deal of patience",
)
_PHRASES = (
    *("What do you think about that?", "I am not sure whether this is true.", "That sounds really wonderful."),
    *("Could you please pass me the salt?", "Where did you leave the keys?", "Let us meet again next week."),
    *("It will probably rain tomorrow.", "How much did they pay for it?", "I have never heard of such a thing."),
    *("Wait a moment, somebody is at the door.", "Who told you about this?", "Dinner is ready in ten minutes."),
    *("Turn the volume a little lower, please.", "The children are already asleep.", "Thank you, that is very kind."),
    *("Do you remember the summer of that year?", "We should really go shopping today."),
    *("I like the yellow one better.", "She speaks three languages.", "Have you seen my glasses anywhere?"),
    "There is nothing wrong with the engine.",
)


def sentences(taught: Sequence[str], rng: np.random.Generator) -> Iterator[str]:
    """Yield sentences without end, none of which has a taught word in it."""
    heard = re.compile(rf"\b({'|'.join(map(re.escape, taught))})\b", re.IGNORECASE)
    while True:
        if rng.random() < 0.4:
            sentence = str(rng.choice(_PHRASES))
        else:
            parts = [str(rng.choice(part)) for part in (_SUBJECTS, _VERBS, _OBJECTS, _PLACES)]
            sentence = " ".join(parts).capitalize() + "."
        if not heard.search(sentence):
            yield sentence


def talk(seconds: float, taught: Sequence[str], seed: int) -> Floats:
    """Return dialogues with silence between them, float32 [samples] at ``RATE_HZ``; only in a process of its own."""
    voices, rng = Synthesiser(), np.random.default_rng(seed)
    spoken, length = sentences(taught, rng), round(seconds * RATE_HZ)
    samples, at = np.zeros(length, np.float32), 0
    while at < length:
        pair = [f"{rng.choice(ACCENTS)}+{rng.choice(voices.variants)}" for _ in range(2)]
        manners = [(int(rng.integers(130, 211)), *map(int, rng.integers(20, 81, size=2))) for _ in pair]
        level = 10 ** (rng.uniform(*_LEVEL_DB) / 20)
        end, speaker = at + round(rng.uniform(*_TALK_S) * RATE_HZ), 0
        while at < min(end, length):
            voices.use(pair[speaker])
            said = resample(voices.say(next(spoken), *manners[speaker]), voices.rate_hz, RATE_HZ)[: length - at]
            samples[at : at + len(said)] = level / loud_rms(said) * said
            at += len(said) + round(rng.uniform(*_TURN_S) * RATE_HZ)
            speaker = 1 - speaker
        at += round(rng.uniform(*_SILENCE_S) * RATE_HZ)
    return samples


def dialogue(half: Half, hours: float, taught: Sequence[str], seed: int) -> Iterator[Floats]:
    """Yield talk in backgrounds, float32 [samples] at ``RATE_HZ``, in parts of at most ``PART_S``."""
    left, part = hours * 3600, 0
    while left > 0:
        seconds = min(PART_S, left)
        spoken = synthesised(seconds, taught, 1000 * seed + part)
        rng = np.random.default_rng([seed, part])
        noise = background(half, len(spoken), rng)
        yield np.clip(spoken + gains(len(spoken), SNR_DB, rng) * noise, -1.0, 1.0).astype(np.float32)
        left, part = left - seconds, part + 1


def synthesised(seconds: float, taught: Sequence[str], seed: int) -> Floats:
    """Return talk, float32 [samples] at ``RATE_HZ``, as :func:`talk`, from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.listening.dialogue", str(seconds), str(seed), *taught]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if result.returncode:
        raise BenchmarkError(f"{' '.join(command)} failed:\n{result.stderr[-2000:].decode(errors='replace')}")
    return np.frombuffer(result.stdout, "<i2").astype(np.float32) / 32_768


if __name__ == "__main__":
    spoken = talk(float(sys.argv[1]), sys.argv[3:], int(sys.argv[2]))
    sys.stdout.buffer.write((np.clip(spoken, -1.0, 1.0) * 32_767).astype("<i2").tobytes())
