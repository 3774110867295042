"""Ends with 0 where the aggregator of this container answers: healthcheck.py DATA PORT."""

import ssl
import sys
import urllib.request
from pathlib import Path


def main() -> None:
    """Ask /v1/health; an exception ends the program with 1."""
    data, port = sys.argv[1:]
    authority = Path(data) / "tls" / "authority.pem"  # with --tls auto
    trusted = ssl.create_default_context(cafile=authority) if authority.exists() else None
    scheme = "https" if trusted else "http"
    with urllib.request.urlopen(f"{scheme}://127.0.0.1:{port}/v1/health", timeout=8, context=trusted) as answer:  # noqa: S310
        print(answer.read().decode())


if __name__ == "__main__":
    main()
