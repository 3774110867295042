"""Server optimisers behind a rule, FedOPT (Reddi et al. 2021, "Adaptive federated optimization", algorithm 2).

With d what the rule made of the round's updates (for the weighted mean, Delta_t):
    m <- beta_1 m + (1 - beta_1) d
    v <- v + d^2                                   Adagrad
    v <- v - (1 - beta_2) d^2 sign(v - d^2)        Yogi
    v <- beta_2 v + (1 - beta_2) d^2               Adam
    theta <- theta + eta m / (sqrt(v) + tau),      m = 0 and v = tau^2 at first
"""

from collections.abc import Callable

import numpy as np

from fleet_protocol.methods.setting import Setting
from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.tensors import Arrays

SERVER_OPTIMISER: dict[str, Setting] = {
    "server_optimiser": Setting(
        "none", "takes the combined update for a gradient", options=("none", "adam", "yogi", "adagrad")
    ),
    "server_learning_rate": Setting(0.03, "eta, of the server optimiser", 1e-8, 1e3),
    "server_beta_1": Setting(0.9, "memory of the server optimiser's mean update", 0.0, 0.9999),
    "server_beta_2": Setting(0.99, "memory of adam's and yogi's squared updates", 0.0, 0.9999),
    "server_tau": Setting(1e-3, "added to the root of the squared updates, and their start's root", 1e-9, 1e3),
}

_SQUARES: dict[str, Callable[[Doubles, Doubles, float], Doubles]] = {
    "adagrad": lambda v, squared, _: v + squared,
    "yogi": lambda v, squared, beta_2: v - (1 - beta_2) * squared * np.sign(v - squared),
    "adam": lambda v, squared, beta_2: beta_2 * v + (1 - beta_2) * squared,
}


def server_step(
    optimiser: str,
    previous: Floats,
    combined: Floats,
    state: Arrays,
    *,
    learning_rate: float,
    beta_1: float,
    beta_2: float,
    tau: float,
) -> tuple[Floats, Arrays]:
    """Take one step from the previous weights along the combined update.

    Args:
        optimiser: ``adam``, ``yogi`` or ``adagrad``.
        previous: float32 [weights], what the devices started from.
        combined: float32 [weights], what a rule made of their uploads.
        state: what the last step returned, ``OPTIMISER.m`` and ``OPTIMISER.v``, float32 [weights] each. A state of
            another optimiser, or of a model of another size, is not continued; neither is an empty one.
        learning_rate: eta.
        beta_1: memory of m.
        beta_2: memory of v; Adagrad has none.
        tau: how adaptive the step is: the smaller, the more alike all weights' steps.

    Returns:
        The new weights, float32 [weights], and the new state.
    """
    d = np.subtract(combined, previous, dtype=np.float64)
    m, v = _continued(optimiser, state, len(d)) or (np.zeros(len(d)), np.full(len(d), tau**2))
    m = beta_1 * m + (1 - beta_1) * d
    v = _SQUARES[optimiser](v, np.square(d), beta_2)
    moved = previous + learning_rate * m / (np.sqrt(v) + tau)
    return moved.astype(np.float32), {f"{optimiser}.m": m.astype(np.float32), f"{optimiser}.v": v.astype(np.float32)}


def _continued(optimiser: str, state: Arrays, width: int) -> tuple[Doubles, Doubles] | None:
    kept = [state.get(f"{optimiser}.{name}") for name in "mv"]
    if any(array is None or array.shape != (width,) for array in kept):
        return None
    m, v = (np.asarray(array, np.float64) for array in kept)
    return m, v
