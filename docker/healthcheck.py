"""Ends with 0 where the aggregator of this container answers: healthcheck.py DATA PORT."""

import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path


def ask(url: str, trusted: ssl.SSLContext | None = None) -> str:
    """Return what a server says of its health."""
    with urllib.request.urlopen(f"{url}/v1/health", timeout=4, context=trusted) as answer:  # noqa: S310
        return str(answer.read().decode())


def main() -> None:
    """Ask /v1/health; an exception ends the program with 1."""
    data, port = sys.argv[1:]
    authority = Path(data) / "tls" / "authority.pem"  # with --tls auto, and --tls proxy, which speaks plain HTTP
    if authority.exists():
        try:
            print(ask(f"https://127.0.0.1:{port}", ssl.create_default_context(cafile=authority)))
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ssl.SSLError):
                raise
        else:
            return
    print(ask(f"http://127.0.0.1:{port}"))


if __name__ == "__main__":
    main()
