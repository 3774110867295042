"""A worker of `benchmarks.listening.alternatives`: `quiet` and `loud`, each as sure as a hop of 0.1 s is so."""

import numpy as np

from benchmarks.listening.workers.protocol import run


class Loudness:
    labels = ("loud", "quiet")
    hop_samples = 1600
    threshold = 0.75

    def reset(self):
        pass

    def scores(self, samples):
        loud = np.abs(samples.reshape(-1, self.hop_samples).astype(np.float32)).max(axis=1) / 32_767
        return np.stack([loud, 1 - loud], axis=1)


if __name__ == "__main__":
    run(lambda _: Loudness())
