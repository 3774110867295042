"""The ciphers as private rounds use them, against the vectors of their standards."""

import pytest

from fleet_protocol.errors import SecureSumError
from fleet_protocol.secure_sums import primitives

ALICE = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
BOB = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")


def test_x25519_is_that_of_rfc_7748_section_6_1():
    alice, bob = primitives.public_key(ALICE), primitives.public_key(BOB)
    assert alice == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert bob == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    shared = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
    assert primitives.agree(ALICE, bob, b"p") == primitives.agree(BOB, alice, b"p") == primitives.derive(shared, b"p")


@pytest.mark.parametrize("key", ["00" * 32, "01" + "00" * 31, "ff" * 3, "zz" * 32])
def test_a_key_that_gives_everybody_the_same_secret_or_is_none_is_refused(key):
    with pytest.raises(SecureSumError, match="no usable X25519 key"):
        primitives.agree(ALICE, key, b"p")


def test_hkdf_is_that_of_rfc_5869_appendix_a_3():
    okm = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"
    assert primitives.derive(b"\x0b" * 22, b"", 42).hex() == okm


def test_the_keystream_is_that_of_rfc_8439_appendix_a_1_vectors_1_and_2():
    first = (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )
    second = (
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
    )
    assert primitives.keystream(bytes(32), 128).hex() == first + second


def test_ed25519_is_that_of_rfc_8032_section_7_1_test_1():
    private = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    signature = (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )
    assert primitives.signing_public_key(private) == public
    assert primitives.sign(private, b"") == signature
    assert primitives.is_signed(public, signature, b"")
    assert not primitives.is_signed(public, signature, b"x")
    assert not primitives.is_signed("zz", signature, b"")


def test_what_was_sealed_opens_with_its_key_and_purpose_alone():
    sealed = primitives.seal(bytes(32), b"shares", b"from a to b")
    assert primitives.unseal(bytes(32), sealed, b"from a to b") == b"shares"
    for key, text, about in [
        (bytes([1, *bytes(31)]), sealed, b"from a to b"),
        (bytes(32), sealed, b"from b to a"),
        (bytes(32), sealed[:-1] + bytes([sealed[-1] ^ 1]), b"from a to b"),
        (bytes(32), b"", b"from a to b"),
    ]:
        with pytest.raises(SecureSumError):
            primitives.unseal(key, text, about)
