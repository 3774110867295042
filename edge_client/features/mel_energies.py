"""Energies in mel bands of the windows of a clip: what cepstra and log-mel features begin with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fleet_protocol.arrays import Array, Doubles, Ints
from fleet_protocol.feature_settings import MelSettings

# Frames are transformed in chunks that stay in the second-level cache.
_CHUNK_BYTES = 1 << 19
# The mel filters are banded: each block of bands is multiplied with the bins that it covers, and no others.
_BAND_BLOCKS = 5

Block = tuple[slice, slice, Doubles]
"""Filters of some bands: (spectrum's parts that they cover, bands, float64 [parts, bands])."""


def blocks_of(filters: Doubles) -> tuple[Block, ...]:
    """Return filters, float64 [bins, bands], as blocks of neighbouring bands.

    Parts are the bins' real and imaginary parts in turn, so each bin's weight stands twice.
    """
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
        """Prepare.

        Args:
            settings: of the front end.
            blocks: the filters.
            window: float64 [window samples], what the samples of a window are multiplied by; None: nothing.
        """
        self._settings = settings
        self._blocks = blocks
        self._window = window
        self._workspaces = threading.local()

    def __call__(self, fill: Callable[[Array], None], dtype: np.dtype[Any]) -> Doubles:
        """Return the energy in each band and, last, in all bins, float64 [frames, mel_bands + 1], until the next call.

        Args:
            fill: writes the clip into the samples that the windows span, [samples] of the dtype.
            dtype: of the samples.
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
        """Return this thread's arrays for clips of a dtype."""
        workspaces: dict[str, _Workspace] = self._workspaces.__dict__
        if dtype.char not in workspaces:
            workspaces[dtype.char] = _Workspace.of(self._settings, dtype)
        return workspaces[dtype.char]


@dataclass(frozen=True)
class _Workspace:
    """Arrays that are kept from clip to clip: fetching fresh pages from the system costs as much as the arithmetic.

    Attributes:
        signal: [samples that the windows span], in the clips' dtype.
        windows: [frames, window samples], a view of ``signal`` in which windows overlap as they do in time.
        padded: Padded frames, float64 [chunk, fft_size], zero beyond the window.
        energies: Energy in each band and, last, in all bins, float64 [frames, mel_bands + 1].
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
        return cls(
            signal=signal,
            windows=windows,
            padded=np.zeros((rows, settings.fft_size)),
            energies=np.empty((settings.frames, settings.mel_bands + 1)),
        )
