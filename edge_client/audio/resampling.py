"""Band-limited resampling by a rational factor, in NumPy alone.

A polyphase filter bank (Crochiere & Rabiner 1983) with a Kaiser-windowed sinc: everything up to 0.89 of the lower
rate's half passes unchanged within 0.01 dB, everything beyond that half is damped by at least 80 dB.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

import numpy as np

from edge_client.errors import RecordingError
from fleet_protocol.numbers.arrays import Floats

_ATTENUATION_DB = 80.0
# Zero crossings of the sinc on each side; the transition band shrinks as they grow.
_CROSSINGS = 48
# Every usual pair of rates is met exactly; odd ones within half a cent, so that no filter bank can fill the memory.
_LARGEST_DOWN = 2_000
_RATES_HZ = (1_000, 768_000)
# Numbers of one view of the inputs: it takes no memory, but on 32 bits NumPy allows no view of 2 GB.
_VIEW = 1 << 28


def resample(samples: Floats, from_hz: int, to_hz: int) -> Floats:
    """Convert a recording, float32 [samples], to another sample rate, without shifting it in time.

    Returns float32 [samples * to_hz / from_hz, rounded up]; beyond its ends a recording counts as silent. Raises
    RecordingError if a rate is outside 1..768 kHz.
    """
    up, down = _ratio(from_hz, to_hz)
    if up == down or not len(samples):
        return samples
    phases, reach = _filter_bank(up, down)
    length = -(-len(samples) * up // down)
    # Output n lies at input n * down / up: at whole sample (n * down) // up, and phase (n * down) % up behind it.
    padded = np.zeros(len(samples) + 2 * reach + down, np.float32)
    padded[reach : reach + len(samples)] = samples
    resampled = np.empty(length, np.float32)
    for first in range(min(up, length)):
        start, phase = divmod(first * down, up)
        outputs, at_once = resampled[first::up], _VIEW // (2 * reach)
        for begin in range(0, len(outputs), at_once):
            part = outputs[begin : begin + at_once]
            offset = 4 * (start + 1 + begin * down)
            windows: Floats = np.ndarray((len(part), 2 * reach), np.float32, padded, offset, (4 * down, 4))
            np.einsum("nk,k->n", windows, phases[phase], out=part)
    return resampled


def resample_blocks(blocks: Iterable[Floats], from_hz: int, to_hz: int) -> Iterator[Floats]:
    """Convert a recording that comes in blocks, float32 [any]: together, what :func:`resample` makes of the whole.

    It keeps a block and a filter's length. For a stream of small blocks :class:`StreamResampler` needs less time.
    """
    up, down = _ratio(from_hz, to_hz)
    if up == down:
        yield from blocks
        return
    _, reach = _filter_bank(up, down)
    margin = -(-reach // down) * down  # in whole periods of the phases, as every cut is
    pending, done = np.zeros(0, np.float32), 0  # of what is pending, the start was converted before
    for block in blocks:
        pending = np.concatenate([pending, block])
        end = done + max(0, len(pending) - done - margin) // down * down
        if end > done:
            yield resample(pending[: end + margin], from_hz, to_hz)[done // down * up : end // down * up]
            kept = max(0, end - margin)
            pending, done = pending[kept:], end - kept
    if len(pending) > done:
        yield resample(pending, from_hz, to_hz)[done // down * up :]


class StreamResampler:
    """Converts an endless recording block by block: together, what :func:`resample` makes of the whole.

    A block of outputs is one matrix product. The filters of many phases have few samples each, and on a small board
    calling NumPy for every phase would cost more than the arithmetic.
    """

    def __init__(self, from_hz: int, to_hz: int) -> None:
        """Begin a recording. Raises RecordingError if a rate is outside 1..768 kHz."""
        up, down = _ratio(from_hz, to_hz)
        self._same = up == down
        phases, reach = _filter_bank(up, down)
        # As many whole periods of the phases as make a block's step about as long as its filter.
        periods = max(1, 2 * reach // down)
        self._step = periods * down
        self._overlap = 2 * reach
        self._matrix = np.zeros((self._step + self._overlap, periods * up), np.float32)
        for output in range(periods * up):
            start, phase = divmod(output * down, up)
            self._matrix[start + 1 : start + 1 + self._overlap, output] = phases[phase]
        self._pending = np.zeros(reach, np.float32)

    def push(self, samples: Floats) -> Floats:
        """Take the next block, float32 [any]; return what is certain by now, milliseconds late, float32 [any]."""
        if self._same:
            return samples
        pending = np.concatenate([self._pending, samples])
        steps = max(0, (len(pending) - self._overlap) // self._step)
        self._pending = pending[steps * self._step :]
        if not steps:
            return np.empty(0, np.float32)
        shape = (steps, self._step + self._overlap)
        windows: Floats = np.ndarray(shape, np.float32, pending, 0, (4 * self._step, 4))
        resampled: Floats = np.ascontiguousarray(windows) @ self._matrix
        return resampled.reshape(-1)


def require_rate(rate_hz: int) -> None:
    """Raise RecordingError if a sample rate is none that is converted."""
    if not _RATES_HZ[0] <= rate_hz <= _RATES_HZ[1]:
        raise RecordingError(f"a sample rate of {rate_hz} Hz is outside {_RATES_HZ[0]} to {_RATES_HZ[1]} Hz")


def _ratio(from_hz: int, to_hz: int) -> tuple[int, int]:
    """Return the rates' ratio, to over from, in small whole numbers."""
    for rate in (from_hz, to_hz):
        require_rate(rate)
    return Fraction(to_hz, from_hz).limit_denominator(_LARGEST_DOWN).as_integer_ratio()


@functools.lru_cache(maxsize=8)
def _filter_bank(up: int, down: int) -> tuple[Floats, int]:
    """Return (float32 [up, 2 * reach], reach): the filter of each phase, over input samples -reach < t <= reach."""
    # Times are counted in input samples; the cut-off is half a transition band below half of the lower rate.
    lower = min(1.0, up / down)  # the lower rate, in units of the input's
    transition = (_ATTENUATION_DB - 7.95) / (2.285 * 2 * np.pi * 2 * _CROSSINGS)  # Kaiser 1974, of the lower rate
    cutoff = lower * (0.5 - transition / 2)
    half_width = _CROSSINGS / lower
    reach = math.ceil(half_width)
    time = np.arange(1 - reach, reach + 1)[None, :] - (np.arange(up) / up)[:, None]
    inside = np.sqrt(np.maximum(0.0, 1.0 - (time / half_width) ** 2))
    beta = 0.1102 * (_ATTENUATION_DB - 8.7)
    window = np.where(np.abs(time) <= half_width, np.i0(beta * inside) / np.i0(beta), 0.0)
    bank = (2 * cutoff * np.sinc(2 * cutoff * time) * window).astype(np.float32)
    bank.setflags(write=False)
    return bank, reach
