"""Whether multicast reaches this machine itself, which announcements on the local network need.

python3.11 -m tests.support.multicast      # ends with 0 where it does, with 1 where not; needs no package
"""

import socket
import struct
import sys

GROUP, HERE = "239.255.84.70", "127.0.0.1"


def reaches_itself() -> bool:
    """Send a packet to a group of this machine's own, and see whether it comes."""
    try:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        ):
            receiver.bind(("", 0))
            membership = struct.pack("4s4s", socket.inet_aton(GROUP), socket.inet_aton(HERE))
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            receiver.settimeout(10)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(HERE))
            sender.sendto(b"here", (GROUP, receiver.getsockname()[1]))
            return receiver.recv(16) == b"here"
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(0 if reaches_itself() else 1)
