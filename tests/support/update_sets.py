"""Uploads of weights for the tests of aggregation rules: small ones by hand, and any by hypothesis."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aggregator_server.aggregation import Layout, Updates, stack_updates
from fleet_protocol.bundle.bundle_file import Layer

# Two layers, the first of a kernel and a bias: six weights.
LAYOUT = Layout(
    (Layer("conv", ("conv.kernel", "conv.bias")), Layer("head", ("head.kernel",))),
    {"conv.kernel": (2, 1), "conv.bias": (1,), "head.kernel": (1, 3)},
)
WIDTH = 6


def updates(rows, layout=LAYOUT) -> Updates:
    """Devices a, b, c ... with these rows of weights."""
    given = np.array(rows, np.float32)
    return Updates.of_rows(layout, [chr(97 + index) for index in range(len(given))], given)


def matrix(fleet: Updates):
    """All weights, float32 [devices, weights]: a copy."""
    return np.stack([fleet.row(number) for number in range(len(fleet))])


def uploaded(fleet: Updates, order=None) -> Updates:
    """The same uploads, as they come in from devices in some order."""
    by_device = {fleet.device_ids[row]: fleet.layout.split(fleet.row(row)) for row in range(len(fleet))}
    names = order or list(by_device)
    return stack_updates(fleet.layout, {name: (lambda arrays=by_device[name]: arrays) for name in names})


@st.composite
def fleets(draw, least=1, most=9, largest=100):
    """(uploads, sizes) of a few devices."""
    count = draw(st.integers(least, most))
    values = st.floats(-largest, largest, width=32, allow_subnormal=False)
    rows = draw(arrays(np.float32, (count, WIDTH), elements=values))
    sizes = draw(arrays(np.float64, count, elements=st.integers(0, 1000)))
    return updates(rows), sizes
