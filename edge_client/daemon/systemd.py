"""The few words that a service says to systemd (sd_notify(3)): a datagram to the socket that it names."""

from __future__ import annotations

import os
import socket


def notify(*words: str) -> bool:
    """Send words like ``READY=1`` or ``WATCHDOG=1``; return whether there is a systemd that listens.

    Raises:
        OSError: the socket is named, but takes nothing.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection:
        connection.connect(address)
        connection.sendall("\n".join(words).encode())
    return True
