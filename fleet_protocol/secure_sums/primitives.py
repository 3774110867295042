"""What of the package ``cryptography`` private rounds use; it is imported at first use, since few devices need it."""

from collections.abc import Callable

from fleet_protocol.errors import SecureSumError

KEY_BYTES = 32


def is_available() -> bool:
    """Return whether this Python has the package ``cryptography``."""
    try:
        import cryptography.hazmat.primitives.asymmetric.x25519  # noqa: F401
    except ImportError:
        return False
    return True


def derive(secret: bytes, purpose: bytes, length: int = KEY_BYTES) -> bytes:
    """Return bytes for one purpose, by HKDF with SHA-256 (RFC 5869) without salt; ``secret`` is uniform."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length, salt=None, info=purpose).derive(secret)


def open_keystream(key: bytes) -> Callable[[int], bytes]:
    """Return what gives the next so many bytes of ChaCha20's keystream from block 0 with nonce 0 (RFC 8439).

    A key has this one use.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    encryptor = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return lambda length: encryptor.update(bytes(length))


def keystream(key: bytes, length: int) -> bytes:
    """Return the first bytes of :func:`open_keystream`."""
    return open_keystream(key)(length)


def public_key(private: bytes) -> str:
    """Return the X25519 public key (RFC 7748) of a private one, as hex digits."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw().hex()


def agree(private: bytes, others: str, purpose: bytes) -> bytes:
    """Return a key that two devices alone have, by X25519 and HKDF. Raises SecureSumError: the other's is no key."""
    return open_agreement(private)(others, purpose)


def open_agreement(private: bytes) -> Callable[[str, bytes], bytes]:
    """Return :func:`agree` with one private key, which is loaded once: a group has many to agree with."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    own = X25519PrivateKey.from_private_bytes(private)

    def agree_with(others: str, purpose: bytes) -> bytes:
        try:
            return derive(own.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(others))), purpose)
        except ValueError as error:  # a point of small order gives zeros, whatever the private key
            raise SecureSumError(f"{others[:64]!r} is no usable X25519 key") from error

    return agree_with


def seal(key: bytes, text: bytes, about: bytes) -> bytes:
    """Encrypt by ChaCha20-Poly1305 (RFC 8439) with nonce 0: a key has this one use. ``about`` is bound to it."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).encrypt(bytes(12), text, about)


def unseal(key: bytes, sealed: bytes, about: bytes) -> bytes:
    """Return what :func:`seal` was given. Raises SecureSumError: it was sealed otherwise, or changed."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), sealed, about)
    except (InvalidTag, ValueError) as error:
        raise SecureSumError("encrypted shares were changed, or are of another round, group or device") from error


def signing_public_key(private: bytes) -> str:
    """Return the Ed25519 public key (RFC 8032) of a private one, as hex digits."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw().hex()


def sign(private: bytes, text: bytes) -> str:
    """Return an Ed25519 signature as hex digits."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(private).sign(text).hex()


def is_signed(public: str, signature: str, text: bytes) -> bool:
    """Return whether an Ed25519 signature, as hex digits, is of this key and text."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), text)
    except (InvalidSignature, ValueError):
        return False
    return True
