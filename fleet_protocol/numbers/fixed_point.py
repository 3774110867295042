"""Numbers as whole multiples of 2^-k modulo 2^32, so that sums under masks are exact (docs/private-rounds.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.errors import SecureSumError
from fleet_protocol.numbers.arrays import Doubles

_FEWEST_BITS = 4


@dataclass(frozen=True)
class FixedPoint:
    """``bits``: of a number behind the point."""

    bits: int

    @classmethod
    def for_sums(cls, addends: int, largest: float) -> FixedPoint:
        """Return the finest in which so many numbers, none beyond ``largest``, have a sum below 2^31.

        Raises SecureSumError: it would be coarser than 1/16.
        """
        # Half a unit more each, by which rounding may enlarge a number.
        bits = math.floor(31 - math.log2(addends * (largest + 1)))
        if bits < _FEWEST_BITS:
            raise SecureSumError(f"{addends} numbers up to {largest:g} are too large to be summed in 32 bits")
        return cls(bits)

    def slack(self, addends: int) -> float:
        """Return twice what rounding puts a sum of so many numbers off, at most."""
        return math.ldexp(addends, -self.bits)

    def encode(self, numbers: Doubles) -> NDArray[np.uint32]:
        """Return numbers, rounded, as uint32 of the same shape; those below 0 count down from 2^32."""
        whole = np.rint(np.ldexp(numbers, self.bits)).astype(np.int64)
        return np.asarray(whole.astype(np.uint32))

    def decode(self, words: NDArray[np.uint32]) -> Doubles:
        """Return the numbers of a sum, float64 of the same shape, exactly."""
        return np.asarray(np.ldexp(words.view(np.int32).astype(np.float64), -self.bits))
