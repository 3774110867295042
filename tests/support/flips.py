"""Single bits, flipped at seeded random places: what a worn memory card does, and the smallest damage there is."""

import random
from collections.abc import Iterator


def flips(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Yield ``count`` copies of some bytes, each with one bit flipped."""
    rng = random.Random(seed)
    for _ in range(count):
        place, bit = rng.randrange(len(data)), rng.randrange(8)
        yield data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
