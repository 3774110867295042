"""Why a broker is not reached: one connection of its own finds the reason, for the log, the status and `doctor`."""

from __future__ import annotations

import secrets
import socket
import ssl
from pathlib import Path

_TIMEOUT_S = 5.0
# What a broker of MQTT 3.1.1 says to a client that it refuses, in the last byte of its answer.
_REFUSALS = {
    1: "it does not speak MQTT 3.1.1",
    2: "it refuses this client's identifier",
    3: "it is out of service",
    4: "it refuses the user name and password; see [mqtt] username and password",
    5: "it refuses this user; see [mqtt] username and password, and the broker's rights",
}


def context_of(ca: Path | None) -> ssl.SSLContext:
    """Return what a connection trusts: the system's authorities, or those of a PEM file. Raises OSError."""
    return ssl.create_default_context(cafile=None if ca is None else str(ca))


def broker_trouble(
    host: str, port: int, *, tls: bool = False, ca: Path | None = None, username: str = "", password: str = ""
) -> str:
    """Connect once, say who one is, and leave; return why that failed, with the way out, "" where it did not.

    It waits for at most some seconds. Of the password nothing is in the answer.
    """
    try:
        with socket.create_connection((host, port), _TIMEOUT_S) as plain:
            if not tls:
                return _greeted(plain, username, password, tls=False)
            with context_of(ca).wrap_socket(plain, server_hostname=host) as secure:
                return _greeted(secure, username, password, tls=True)
    except socket.gaierror:
        return "there is no such name in the network; see [mqtt] host"
    except ConnectionRefusedError:
        return "nothing listens there; see [mqtt] host and port, and whether the broker runs"
    except TimeoutError:
        return "it does not answer; see [mqtt] host and port, and whether a firewall is between"
    except ssl.SSLCertVerificationError as error:
        way_out = "name its authority's certificate as [mqtt] ca" if ca is None else f"{ca} is not its authority"
        return f"its certificate cannot be trusted ({error.verify_message}): {way_out}"
    except (ssl.SSLError, ConnectionResetError) as error:  # a broker without TLS ends what it cannot read
        said = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        return f"it does not speak TLS there ({said}); set [mqtt] tls = false, or port = 8883, the usual one"
    except OSError as error:
        return f"{error.strerror or error}; see [mqtt] host and port"


def _greeted(connection: socket.socket, username: str, password: str, *, tls: bool) -> str:
    """Begin a session that leaves nothing at the broker; return why it was refused, "" where it was not."""
    fields = [b"auricle-check-" + secrets.token_hex(4).encode()]  # not the daemon's, whose session would end
    flags = 0x02  # a clean session
    if username:
        fields.append(username.encode())
        flags |= 0x80
        if password:
            fields.append(password.encode())
            flags |= 0x40
    body = b"\0\x04MQTT\x04" + bytes([flags]) + b"\0\x0a" + b"".join(len(one).to_bytes(2) + one for one in fields)
    length, rest = b"", len(body)
    while True:
        rest, low = divmod(rest, 128)
        length += bytes([low | (0x80 if rest else 0)])
        if not rest:
            break
    try:
        connection.sendall(b"\x10" + length + body)
        answer = connection.recv(4)
        if answer[:1] == b"\x20" and len(answer) == 4:
            connection.sendall(b"\xe0\0")
    except (ConnectionResetError, BrokenPipeError):
        answer = b""
    if answer[:1] == b"\x20" and len(answer) == 4:
        code = answer[3]
        return _REFUSALS.get(code, f"it refuses this device with the code {code}") if code else ""
    if tls:
        return "it ends the connection; see the broker's log"
    return "it ends the connection or speaks no MQTT there; a port for TLS, usually 8883, needs [mqtt] tls = true"
