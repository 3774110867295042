"""An audio source that delivers what a test puts into it, when it does."""

import threading

import numpy as np


class SoundStream:
    """As a microphone: reading waits for samples, and what nobody reads is kept."""

    def __init__(self, sample_rate_hz=14_400):
        self.sample_rate_hz = sample_rate_hz
        self.frames = self.overflows = self.reopened = 0
        self.lent, self.trouble = False, ""
        self._waiting = np.zeros(0, np.float32)
        self._changed = threading.Condition()

    def put(self, samples):
        with self._changed:
            self._waiting = np.concatenate([self._waiting, samples.astype(np.float32)])
            self._changed.notify_all()

    def wait_until_read(self, timeout_s=180.0):
        """Wait until less than a block is left."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._waiting) < 100, timeout_s), "nobody reads the sound"

    def read(self, samples, timeout_s):
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) >= samples, timeout_s)
            taken, self._waiting = self._waiting[:samples], self._waiting[samples:]
            self.frames += len(taken)
            self._changed.notify_all()
            return taken

    def close(self):
        pass
