"""Announces the server on the local network by mDNS (RFC 6762, 6763), so that ``auricle-edge join`` can find it.

Whoever listens learns an address and a fleet's number, nothing else: to get in, a device still needs an invitation.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from aggregator_server.server_address import is_everywhere
from aggregator_server.tls import Certificate
from fleet_protocol.addresses import is_loopback

if TYPE_CHECKING:
    from zeroconf import ServiceInfo, Zeroconf

SERVICE = "_auricle._tcp.local."
Tls = Literal["pinned", "public", "none"]
"""Who vouches for the server: its own authority, which a device pins; a public one; or nobody (plain HTTP)."""

_log = logging.getLogger(__name__)


@contextmanager
def announced(data: Path, host: str, port: int, tls: Tls, *, wanted: bool = True) -> Iterator[None]:
    """Announce the server while the body runs, where others can reach it.

    Args:
        host: address that the server listens on; on a loopback address nothing is announced.
    """
    if not wanted or is_loopback(host):
        yield
        return
    try:
        import zeroconf
    except ImportError:
        _log.warning("not announced on the local network; needs: pip install 'auricle[discovery]'")
        yield
        return
    try:
        service = _service(data, host, port, tls)
        found = zeroconf.Zeroconf(ip_version=zeroconf.IPVersion.V4Only)
    except OSError as error:  # no network, or no multicast in it
        _log.warning("not announced on the local network: %s", error or type(error).__name__)
        yield
        return
    # In a thread: it takes a second, and the server shall not wait for it.
    registering = threading.Thread(target=_register, args=(found, service), daemon=True)
    registering.start()
    try:
        yield
    finally:
        registering.join()
        found.close()  # says goodbye


def _register(found: Zeroconf, service: ServiceInfo) -> None:
    import zeroconf

    try:
        # The name is the fleet's own: a server that was killed and starts again need not ask whether it is taken.
        found.register_service(service, cooperating_responders=True)
    except (OSError, zeroconf.Error) as error:
        _log.warning("not announced on the local network: %s", error or type(error).__name__)


def vouching(certificate: Certificate | None) -> Tls:
    """Return who vouches for a server with a certificate, or without one."""
    if certificate is None:
        return "none"
    return "public" if certificate.authority is None else "pinned"


def fleet_id(data: Path) -> str:
    """Return the number of a data folder's fleet, as the announcement has it."""
    return (data / "fleet.id").read_text().strip()


def _service(data: Path, host: str, port: int, tls: Tls) -> ServiceInfo:
    from zeroconf import ServiceInfo

    fleet = fleet_id(data)
    return ServiceInfo(
        SERVICE,
        f"auricle-{fleet}.{SERVICE}",
        addresses=[socket.inet_aton(address) for address in _addresses(host)],
        port=port,
        properties={"id": fleet, "tls": tls, "version": version("auricle")},
        server=f"auricle-{fleet}.local.",
    )


def _addresses(host: str) -> list[str]:
    """Return the IPv4 addresses by which others reach a server that listens on ``host``."""
    if not is_everywhere(host):
        return [str(ipaddress.IPv4Address(socket.gethostbyname(host)))]
    import ifaddr  # comes with zeroconf

    found = [str(ip.ip) for adapter in ifaddr.get_adapters() for ip in adapter.ips if ip.is_IPv4]
    reachable = [address for address in found if not is_loopback(address)]
    if not reachable:
        raise OSError("this machine has no address in a network")
    return reachable
