"""Shares of a secret: the field against FIPS 197, and the laws that make them shares."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_protocol.errors import SecureSumError
from fleet_protocol.secure_sums.shamir import put_together, share_out, times

BYTES = st.integers(0, 255)


def product(one: int, other: int) -> int:
    return int(times(np.array([one], np.uint8), np.array([other], np.uint8))[0])


@pytest.mark.parametrize(("one", "other", "result"), [(0x57, 0x83, 0xC1), (0x57, 0x13, 0xFE), (0x53, 0xCA, 0x01)])
def test_products_are_those_of_aes(one, other, result):
    assert product(one, other) == product(other, one) == result


@given(BYTES, BYTES, BYTES)
def test_products_are_those_of_a_field(a, b, c):
    assert product(a, b) == product(b, a)
    assert product(a, product(b, c)) == product(product(a, b), c)
    assert product(a, b ^ c) == product(a, b) ^ product(a, c)
    assert product(a, 1) == a
    assert (product(a, b) == 0) == (a == 0 or b == 0)


@given(st.data())
@settings(max_examples=40)
def test_any_threshold_of_shares_gives_the_secret(data):
    secret = data.draw(st.binary(min_size=1, max_size=32))
    places = tuple(data.draw(st.lists(st.integers(1, 255), min_size=1, max_size=12, unique=True)))
    threshold = data.draw(st.integers(1, len(places)))
    length = (threshold - 1) * len(secret)
    shares = share_out(secret, threshold, places, data.draw(st.binary(min_size=length, max_size=length)))
    for _ in range(5):
        chosen = data.draw(st.permutations(places))[:threshold]
        assert put_together({place: shares[place] for place in chosen}) == secret


def test_fewer_shares_than_the_threshold_go_with_every_secret():
    """Of 256 possible polynomials of degree 1 each secret byte has exactly one that explains one share."""
    given_share, place, secrets = 0xA7, 9, bytes(range(256))
    explaining = [
        secret
        for coefficient in range(256)
        for secret, share in enumerate(share_out(secrets, 2, (place, 10), bytes([coefficient]) * 256)[place])
        if share == given_share
    ]
    assert sorted(explaining) == list(secrets)


def test_one_wrong_share_gives_another_secret():
    shares = share_out(b"secret", 3, (1, 2, 3, 4), bytes(range(12)))
    shares[2] = bytes(6)
    whole = [put_together({p: shares[p] for p in some}) == b"secret" for some in combinations(shares, 3)]
    assert whole == [False, False, True, False]


@pytest.mark.parametrize("places", [(), (0, 1), (1, 1), (1, 256)])
def test_places_outside_the_field_are_refused(places):
    with pytest.raises(SecureSumError):
        share_out(b"s", 1, places, b"")
    with pytest.raises(SecureSumError):
        put_together(dict.fromkeys(places, b"s") if len(set(places)) == len(places) else {})


def test_lengths_that_do_not_fit_are_refused():
    with pytest.raises(SecureSumError, match="random bytes"):
        share_out(b"ab", 2, (1, 2), b"c")
    with pytest.raises(SecureSumError, match="as long"):
        put_together({1: b"a", 2: b"bc"})
