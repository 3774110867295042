"""What pyopen-wakeword, which Home Assistant's service and others build on, hears with a classifier.

In a process of its own, because it loads a TensorFlow Lite of its own: open_wake_word.py CLASSIFIER < 16-bit PCM prints
a score for every 80 ms, from the first on, before which it hears eight seconds of silence.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

RATE, PART = 16_000, 1_280
SILENCE = 8 * RATE


def to_pcm(samples: np.ndarray) -> np.ndarray:
    """16-bit samples, int16, of float samples in -1..1."""
    return np.round(32_767 * samples.clip(-1, 1)).astype("<i2")


def heard_by_open_wake_word(classifier: Path, pcm: np.ndarray) -> np.ndarray:
    """Its scores, float64."""
    command = [sys.executable, __file__, str(classifier)]
    done = subprocess.run(command, input=pcm.tobytes(), stdout=subprocess.PIPE, check=True, timeout=300)
    return np.array(json.loads(done.stdout))


def main(classifier: str) -> None:
    from pyopen_wakeword import OpenWakeWord, OpenWakeWordFeatures

    features, word = OpenWakeWordFeatures.from_builtin(), OpenWakeWord.from_model(classifier)
    pcm = sys.stdin.buffer.read()
    scores = []
    for start in range(0, len(pcm), 2 * PART):
        for columns in features.process_streaming(pcm[start : start + 2 * PART]):
            scores.extend(word.process_streaming(columns))
    print(json.dumps(scores))


if __name__ == "__main__":
    main(sys.argv[1])
