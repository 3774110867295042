"""The ring between recording and listening: nothing is moved or lost but the oldest, and that is counted."""

import threading
import time

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_client.capture.ring import SampleRing


@given(capacity=st.integers(1, 20), steps=st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=40))
@settings(derandomize=True, deadline=None, max_examples=200)
def test_it_holds_what_a_list_of_the_latest_would(capacity, steps):
    ring, held, made = SampleRing(capacity), [], 0
    for put, count in steps:
        if put:
            held += range(made, made + count)
            made += count
            dropped = max(0, len(held) - capacity)
            held = held[dropped:]
            assert ring.put(np.arange(made - count, made, dtype=np.float32)) == dropped
        else:
            assert ring.take(count, 0).tolist() == held[:count]
            held = held[count:]


def test_more_than_it_holds_can_be_taken_while_it_is_filled():
    ring = SampleRing(100)
    taken = []
    reader = threading.Thread(target=lambda: taken.append(ring.take(1_000, 30)))
    reader.start()
    for start in range(0, 1_000, 50):
        while ring._held > 50:
            time.sleep(0.001)
        ring.put(np.arange(start, start + 50, dtype=np.float32))
    reader.join()
    np.testing.assert_array_equal(taken[0], np.arange(1_000))


def test_what_was_taken_stays_when_the_ring_is_filled_again():
    ring = SampleRing(4)
    ring.put(np.ones(4, np.float32))
    taken = ring.take(4, 0)
    ring.put(np.zeros(4, np.float32))
    assert taken.tolist() == [1, 1, 1, 1]


def test_closing_wakes_the_reader_with_what_there_is():
    ring = SampleRing(10)
    ring.put(np.ones(3, np.float32))
    threading.Timer(0.05, ring.close).start()
    assert len(ring.take(10, 60)) == 3
