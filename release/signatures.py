"""Signatures by GnuPG, with a key of the maintainer's own."""

import os
import re
import subprocess
from pathlib import Path

from release.errors import ReleaseError


def secret_key(fingerprint: str) -> str:
    """Return a fingerprint as GnuPG writes it, once its key has signed something; GnuPG may ask for a passphrase.

    Raises ReleaseError: it is no whole fingerprint, or GnuPG cannot sign with such a key.
    """
    written = fingerprint.replace(" ", "").upper()
    if not re.fullmatch(r"[0-9A-F]{40}", written):
        raise ReleaseError(
            f"the key {fingerprint!r} is no fingerprint of 40 digits; list yours: gpg --list-secret-keys"
        )
    _gpg("--yes", "--local-user", written, "--output", os.devnull, "--detach-sign", os.devnull)
    return written


def sign(path: Path, signature: Path, key: str) -> None:
    """Write a detached, armoured signature of a file. Raises ReleaseError: GnuPG failed; so do those below."""
    _gpg("--armor", "--local-user", key, "--output", signature, "--detach-sign", path)


def sign_inline(path: Path, signed: Path, key: str) -> None:
    """Write a text with its signature in it."""
    _gpg("--local-user", key, "--output", signed, "--clear-sign", path)


def export_key(key: str, path: Path) -> None:
    """Write the public key, armoured."""
    _gpg("--armor", "--export-options", "export-minimal", "--output", path, "--export", key)


def _gpg(*words: str | Path) -> None:
    try:
        subprocess.run(
            ["gpg", "--batch", "--digest-algo", "SHA512", *words], capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        raise ReleaseError("gpg, which signs, is not installed: apt-get install gnupg") from None
    except subprocess.CalledProcessError as error:
        raise ReleaseError(f"gpg failed, which signs: {error.stderr.strip()}") from None
