"""Finds the aggregators that announce themselves on the local network, by mDNS (RFC 6762, 6763).

An announcement gives an address, nothing else: whoever sent it need not be whom he says. To join, a device needs an
invitation, which names the aggregator's authority.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from zeroconf import Zeroconf

SERVICE = "_auricle._tcp.local."
"""As aggregators announce it, with ``id`` (the fleet's number), ``tls`` and ``version``."""

# Time that one announcement's details may take, ms.
_ANSWER_MS = 1000

Tls = Literal["pinned", "public", "none", "unknown"]


@dataclass(frozen=True)
class Found:
    """An aggregator that announced itself.

    Attributes:
        url: Address, by its host's number.
        fleet_id: Number of its fleet; "" where it does not say.
        tls: Who vouches for it: its own authority, a public one, or nobody (plain HTTP).
        version: Version of its software; "" where it does not say.
    """

    url: str
    fleet_id: str
    tls: Tls
    version: str


def find_aggregators(seconds: float) -> list[Found]:
    """Listen for announcements; return what answered in that time, in the order of addresses.

    Raises:
        ModuleNotFoundError: zeroconf is not installed.
        OSError: there is no network.
    """
    from zeroconf import IPVersion, ServiceBrowser, ServiceStateChange, Zeroconf

    names: set[str] = set()

    def note(**change: object) -> None:
        if change["state_change"] is not ServiceStateChange.Removed:
            names.add(str(change["name"]))

    network = Zeroconf(ip_version=IPVersion.V4Only)
    try:
        browser = ServiceBrowser(network, SERVICE, handlers=[note])
        threading.Event().wait(seconds)
        found = [described for name in sorted(names) if (described := _described(network, name)) is not None]
        browser.cancel()
    finally:
        network.close()
    return sorted(found, key=lambda item: item.url)


def _described(network: Zeroconf, name: str) -> Found | None:
    """Ask for an announcement's address and properties; None where it does not answer."""
    service = network.get_service_info(SERVICE, name, _ANSWER_MS)
    addresses = [] if service is None else service.parsed_addresses()
    if service is None or not addresses or not service.port:
        return None
    told = {key: value for key, value in service.decoded_properties.items() if value and value.isprintable()}
    tls = cast("Tls", told.get("tls") if told.get("tls") in ("pinned", "public", "none") else "unknown")
    scheme = "http" if tls == "none" else "https"
    url = f"{scheme}://{addresses[0]}:{service.port}"
    return Found(url, str(told.get("id", ""))[:64], tls, str(told.get("version", ""))[:64])
