"""Log-mel features in NumPy, and the energies in mel bands with which cepstra begin too.

The power spectrum of Hann windows, in triangular filters whose peak is 1, and ln(power + floor). With the HTK mel scale
these are the numbers of the log-mel pictures of Speech Commands. With `kaldi_32k` they are those of EfficientAT (Schmid
et al. 2023, arXiv:2211.04772), which learned from sound at 32 kHz, computed from sound at 16 kHz; bands above 8 kHz are
empty.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from edge_client.features.samples import of_each_clip, require_consistent
from fleet_protocol.bundle.feature_settings import KALDI_32K, LogMelSettings, MelSettings
from fleet_protocol.numbers.arrays import Array, Doubles, Floats, Ints

_PRE_EMPHASIS, _TRAINED_HZ = 0.97, 32_000
# Frames are transformed in chunks that stay in the second-level cache.
_CHUNK_BYTES = 1 << 19
# The mel filters are banded: each block of bands is multiplied with the bins that it covers, and no others.
_BAND_BLOCKS = 5

Block = tuple[slice, slice, Doubles]
"""Filters of some bands: (spectrum's parts that they cover, bands, float64 [parts, bands])."""


def blocks_of(filters: Doubles) -> tuple[Block, ...]:
    """Return filters, float64 [bins, bands], as blocks of bands; each bin's weight stands for both of its parts."""
    bands = filters.shape[1]
    blocks = []
    for chosen in np.array_split(np.arange(bands), min(_BAND_BLOCKS, bands)):
        columns = slice(int(chosen[0]), int(chosen[-1]) + 1)
        covered: Ints = np.flatnonzero(filters[:, columns].any(axis=1))
        first, end = (int(covered[0]), int(covered[-1]) + 1) if len(covered) else (0, 0)
        weights = np.repeat(filters[first:end, columns], 2, axis=0)
        weights.setflags(write=False)
        blocks.append((slice(2 * first, 2 * end), columns, weights))
    return tuple(blocks)


class MelEnergies:
    """Computes the energies; may be shared by threads."""

    def __init__(self, settings: MelSettings, blocks: tuple[Block, ...], window: Doubles | None = None) -> None:
        """Prepare; each window of samples is multiplied by ``window``, float64 [window samples], where there is one."""
        self._settings = settings
        self._blocks = blocks
        self._window = window
        self._workspaces = threading.local()

    def __call__(self, fill: Callable[[Array], None], dtype: np.dtype[Any]) -> Doubles:
        """Return the energy in each band and, last, in all bins, float64 [frames, mel_bands + 1], until the next call.

        ``fill`` writes the clip into the samples that the windows span, [samples] of the dtype.
        """
        workspace = self._workspace(dtype)
        fill(workspace.signal)
        size, rows = self._settings.window_samples, len(workspace.padded)
        for start in range(0, self._settings.frames, rows):
            windows = workspace.windows[start : start + rows]
            energies = workspace.energies[start : start + rows]
            padded = workspace.padded[: len(windows)]
            if self._window is None:
                padded[:, :size] = windows
            else:
                np.multiply(windows, self._window, out=padded[:, :size])
            # Real and imaginary parts stay side by side: adding their squares bin by bin would cost more than
            # the filters' longer sums.
            squares = np.fft.rfft(padded).view(np.float64)
            np.square(squares, out=squares)
            for parts, bands, weights in self._blocks:
                np.matmul(squares[:, parts], weights, out=energies[:, bands])
            np.einsum("ij->i", squares, out=energies[:, -1])
        return workspace.energies

    def _workspace(self, dtype: np.dtype[Any]) -> _Workspace:
        workspaces: dict[str, _Workspace] = self._workspaces.__dict__
        if dtype.char not in workspaces:
            workspaces[dtype.char] = _Workspace.of(self._settings, dtype)
        return workspaces[dtype.char]


@dataclass(frozen=True)
class _Workspace:
    """Arrays that are kept from clip to clip: fetching fresh pages from the system costs as much as the arithmetic.

    ``windows`` is a view of ``signal``, [frames, window samples]; ``padded`` is float64 [chunk, fft_size], zero beyond
    the window; ``energies`` is float64 [frames, mel_bands + 1], the last that of all bins.
    """

    signal: Array
    windows: Array
    padded: Doubles
    energies: Doubles

    @classmethod
    def of(cls, settings: MelSettings, dtype: np.dtype[Any]) -> _Workspace:
        """Make the arrays for some settings; chunks of frames are as equal as they can be."""
        signal = np.zeros((settings.frames - 1) * settings.hop_samples + settings.window_samples, dtype)
        windows = sliding_window_view(signal, settings.window_samples)[:: settings.hop_samples]
        chunks = -(-settings.frames * settings.fft_size * 8 // _CHUNK_BYTES)
        rows = -(-settings.frames // chunks)
        energies = np.empty((settings.frames, settings.mel_bands + 1))
        return cls(signal, windows, np.zeros((rows, settings.fft_size)), energies)


class LogMel:
    """Computes the features that some settings describe; may be shared by threads."""

    def __init__(self, settings: LogMelSettings) -> None:
        """Prepare the filters, which equal settings share. Raises FeatureError if they contradict themselves."""
        require_consistent(settings, settings.mel_bands)
        self.settings = settings
        self._energies = MelEnergies(settings, blocks_of(mel_filters(settings)), _window(settings))

    def __call__(self, samples: Array) -> Floats:
        """Return float32 [frames, mel bands], or of clips; finite for silence; samples and errors as ``FrontEnd``."""
        return of_each_clip(samples, self.settings.shape, self._log_energies)

    def _log_energies(self, clip: Array) -> Array:
        power = self._energies(functools.partial(self._place, clip), clip.dtype)[:, :-1]
        return np.asarray(np.log(power + self.settings.floor))

    def _place(self, clip: Array, signal: Array) -> None:
        given = min(len(clip), len(signal), self.settings.clip_samples)
        signal[:given], signal[given:] = clip[:given], 0.0


def _window(settings: LogMelSettings) -> Doubles:
    """Return the Hann window: periodic, or every second sample of the one at 32 kHz, which is not periodic."""
    size = settings.window_samples
    period = size - settings.sample_rate_hz / _TRAINED_HZ if settings.filters == KALDI_32K else size
    return np.asarray(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / period))


@functools.lru_cache(maxsize=8)
def mel_filters(settings: LogMelSettings) -> Doubles:
    """Return triangular filters with a peak of 1, float64 [fft_size / 2 + 1, mel bands]."""
    filters = _kaldi_filters(settings) if settings.filters == KALDI_32K else _htk_filters(settings)
    filters.setflags(write=False)
    return filters


def _htk_filters(settings: LogMelSettings) -> Doubles:
    low, high = (2595.0 * np.log10(1.0 + hz / 700.0) for hz in (settings.low_hz, settings.high_hz))
    edges = 700.0 * (10.0 ** (np.linspace(low, high, settings.mel_bands + 2) / 2595.0) - 1.0)
    return _triangles(_bins_hz(settings), edges)


def _kaldi_filters(settings: LogMelSettings) -> Doubles:
    """Return the filters of a network that learned from sound at 32 kHz, for the spectrum of sound at 16 kHz."""
    # Half as many samples make a quarter of the power. Pre-emphasis, y[t] = x[t] - 0.97 x[t-1] at 32 kHz, multiplies
    # the power at f by 1 + 0.97^2 - 2 0.97 cos(2 pi f / 32,000 Hz). Both are part of the filters.
    hz = _bins_hz(settings)
    emphasis = 1.0 + _PRE_EMPHASIS**2 - 2.0 * _PRE_EMPHASIS * np.cos(2.0 * np.pi * hz / _TRAINED_HZ)
    scale = (_TRAINED_HZ / settings.sample_rate_hz) ** 2
    low, high = (_kaldi_mels(np.array(edge)) for edge in (settings.low_hz, settings.high_hz))
    triangles = _triangles(_kaldi_mels(hz), np.linspace(low, high, settings.mel_bands + 2))
    return np.asarray(scale * emphasis * triangles)


def _bins_hz(settings: LogMelSettings) -> Doubles:
    return np.arange(settings.fft_size // 2 + 1)[:, None] * settings.sample_rate_hz / settings.fft_size


def _kaldi_mels(hz: Doubles) -> Doubles:
    return np.asarray(1127.0 * np.log(1.0 + hz / 700.0))


def _triangles(bins: Doubles, edges: Doubles) -> Doubles:
    """Return filters between neighbouring edges, float64 [bins, bands], of bins [bins, 1] on the edges' scale."""
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    return np.asarray(np.maximum(0.0, np.minimum((bins - left) / (centre - left), (right - bins) / (right - centre))))
