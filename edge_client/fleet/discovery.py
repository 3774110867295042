"""Finds the aggregators that announce themselves on the local network, by mDNS (RFC 6762, 6763).

An announcement gives an address, nothing else: whoever sent it need not be whom he says. To join, a device needs an
invitation, which names the aggregator's authority.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from fleet_protocol.errors import LinkError

if TYPE_CHECKING:
    from zeroconf import ServiceInfo, Zeroconf

log = logging.getLogger(__name__)

SERVICE = "_auricle._tcp.local."
"""As aggregators announce it, with ``id`` (the fleet's number), ``tls`` and ``version``."""

# Time that the details of all announcements may take together, ms.
_ANSWER_MS = 1000
# Largest number of announcements that are read: anybody in the network can send any number.
_MOST_NAMES = 32
# Seconds that zeroconf has, beyond that, to notice that the time is over.
_GRACE_S = 5.0

Tls = Literal["pinned", "public", "none", "unknown"]


@dataclass(frozen=True)
class Found:
    """An aggregator that announced itself. ``tls``: Authority that vouches for it; "": what it does not say."""

    url: str
    fleet_id: str
    tls: Tls
    version: str


def find_aggregators(seconds: float) -> list[Found]:
    """Listen for announcements; return what answered in that time and a second, in the order of addresses.

    Raises ModuleNotFoundError if zeroconf is not installed; LinkError if there is no network, or no multicast in it.
    """
    import zeroconf

    try:
        network = zeroconf.Zeroconf(ip_version=zeroconf.IPVersion.V4Only)
        try:
            found = _described(network, _announced(network, seconds))
        finally:
            network.close()
    except (OSError, TimeoutError, zeroconf.Error) as error:
        raise LinkError(
            f"cannot look for aggregators on the local network ({error or type(error).__name__}); ask the operator for "
            "an invitation, and run `auricle-edge join LINK`"
        ) from error
    return sorted(found, key=lambda item: item.url)


def _announced(network: Zeroconf, seconds: float) -> list[str]:
    """Listen for so long; return the first names that were announced and can be shown."""
    from zeroconf import ServiceBrowser, ServiceStateChange

    names: dict[str, None] = {}
    full = threading.Event()

    def note(**change: object) -> None:
        name = str(change["name"])
        if change["state_change"] is ServiceStateChange.Removed or not name.isprintable() or name in names:
            return
        if len(names) < _MOST_NAMES:
            names[name] = None
        else:
            full.set()

    browser = ServiceBrowser(network, SERVICE, handlers=[note])
    threading.Event().wait(seconds)
    browser.cancel()
    if full.is_set():
        log.warning("more than %d aggregators announce themselves here; the others are left out", _MOST_NAMES)
    return list(names)


def _described(network: Zeroconf, names: Iterable[str]) -> list[Found]:
    """Ask for the address and properties of all announcements at once; leave out what does not answer."""
    from zeroconf import Error, ServiceInfo

    services = []
    for name in names:
        try:
            services.append(ServiceInfo(SERVICE, name))
        except Error as error:  # not a name that DNS-SD allows
            log.debug("an announcement is left out: %s", error)

    async def ask() -> None:
        answers = [service.async_request(network, _ANSWER_MS) for service in services]
        await asyncio.gather(*answers, return_exceptions=True)  # one that fails has no address

    assert network.loop is not None  # it runs from the beginning
    asyncio.run_coroutine_threadsafe(ask(), network.loop).result(_ANSWER_MS / 1000 + _GRACE_S)
    return [found for service in services if (found := _found(service)) is not None]


def _found(service: ServiceInfo) -> Found | None:
    """Return what an announcement says; None where it has no address, or cannot be read."""
    from zeroconf import IPVersion

    addresses = service.parsed_addresses(IPVersion.V4Only)
    if not addresses or not service.port:
        return None
    try:
        properties = service.decoded_properties
    except ValueError:  # bytes that are no UTF-8
        return None
    texts = {key: value for key, value in properties.items() if value and value.isprintable()}
    tls = cast("Tls", texts.get("tls") if texts.get("tls") in ("pinned", "public", "none") else "unknown")
    scheme = "http" if tls == "none" else "https"
    url = f"{scheme}://{addresses[0]}:{service.port}"
    return Found(url, str(texts.get("id", ""))[:64], tls, str(texts.get("version", ""))[:64])
