"""What comes before the end of long words, as it travels: read as it was sent, or refused by name."""

import numpy as np
import pytest

from fleet_protocol.errors import TensorError
from fleet_protocol.limits import STATES_BEFORE, WORD_S
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import pack, unpack
from fleet_protocol.numbers.word_order import WordOrder

SHAPE = (1, 4)
WORDS = [(np.full((states, *SHAPE), states, np.float32), length) for states, length in ((2, 1.5), (0, 0.3), (1, 0.7))]
ORDER = WordOrder.of(WORDS, SHAPE)


def fleet(order):
    return FleetPrototypes(
        "0" * 16, ("c0", "c1", "c2"), np.zeros((3, *SHAPE), np.float32), np.ones(3, np.int64), (), None, order
    )


def test_words_are_read_as_they_were_sent_and_some_of_them_are_chosen():
    read = FleetPrototypes.unpack(fleet(ORDER).pack()).order
    assert read.states.tolist() == [2, 0, 1]
    assert read.word(0)[0].tolist() == WORDS[0][0].tolist()
    assert read.word(0)[1] == 1.5
    assert read.word(1)[1] == 0.0  # a word without earlier windows needs no length
    chosen = read.words(np.array([2, 1, 0, 2]))
    assert [chosen.word(index)[0].tolist() for index in range(4)] == [WORDS[at][0].tolist() for at in (2, 1, 0, 2)]


def test_where_no_word_is_long_nothing_more_travels_and_what_an_earlier_release_sent_has_none():
    none = WordOrder.none(3, SHAPE)
    assert none.arrays == {}
    assert fleet(none).pack() == fleet(None).pack()
    assert FleetPrototypes.unpack(fleet(None).pack()).order.states.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"before_states": np.array([STATES_BEFORE + 1, 0, 1], np.float32)}, "other numbers of windows than 0 to 5"),
        ({"before_states": np.array([-1, 3, 1], np.float32)}, "other numbers of windows"),
        ({"before_states": np.array([1.5, 0, 1.5], np.float32)}, "other numbers of windows"),
        ({"before_states": np.array([2, 0, 2], np.float32)}, "'before' has 3 windows, and 'before_states' says 4"),
        ({"before_lengths": np.array([WORD_S * 2, 0, 1], np.float32)}, "above 0 to 4 s"),
        ({"before_lengths": np.array([-1, 0, 1], np.float32)}, "above 0 to 4 s"),
        ({"before_lengths": np.array([0, 1, 1], np.float32)}, "above 0 to 4 s"),
        ({"before_lengths": np.array([np.nan, 0, 1], np.float32)}, "must be finite"),
        ({"before": np.full((3, *SHAPE), np.inf, np.float32)}, "must be finite"),
        ({"before": np.zeros((3, 1, 5), np.float32)}, r"expected \(any, 1, 4\)"),
        ({"before_states": None}, "array 'before_states' is missing"),
        ({"before": None}, "array 'before' is missing"),
    ],
)
def test_what_no_device_makes_is_refused_by_either_side(changed, message):
    arrays, document = unpack(fleet(ORDER).pack())
    arrays = {name: array for name, array in (arrays | changed).items() if array is not None}
    with pytest.raises(TensorError, match=message):
        WordOrder.read(arrays, 3, SHAPE)
    with pytest.raises(TensorError, match=message):
        FleetPrototypes.unpack(pack(arrays, document))
