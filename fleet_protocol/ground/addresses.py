"""Addresses: which never leave a machine, what counts as one, and what is wrong with a server's."""

import ipaddress
import re
from urllib.parse import urlsplit

from fleet_protocol.limits import ADDRESS_LENGTH


def is_address(host: str) -> bool:
    """Tell whether a host is given by a number, IPv4 or IPv6, not by a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Tell whether what is sent to a host stays on this machine, as far as its name or number says."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


def network_of(host: str) -> str:
    """Return what counts as one address: of IPv6, the network of 64 bits, because a client has all of it."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


def is_clear(url: str) -> bool:
    """Tell whether others can read what is sent to an address: plain HTTP that leaves this machine."""
    parts = urlsplit(url)
    return parts.scheme != "https" and not is_loopback(parts.hostname or "")


def without_password(url: str) -> str:
    """Return an address as it may be shown: without the name and the password before its host."""
    return re.sub(r"//[^/?#]*@", "//...@", url)


def address_problem(url: str) -> str:
    """Return what is wrong with an address of a server; "" where nothing is. It never quotes the address."""
    if len(url) > ADDRESS_LENGTH:
        return f"must have at most {ADDRESS_LENGTH} characters, not {len(url)}"
    if not url.startswith(("http://", "https://")):
        return "must start with http:// or https://"
    try:
        found = urlsplit(url)
        host, port = found.hostname, found.port
    except ValueError as error:  # the port is no number or above 65535, or the brackets of an IPv6 address do not match
        return f"is no address ({error}); write it like http://aggregator.local:8470"
    if not host or port == 0:
        return "must name a host, and a port from 1 to 65535 where it names one, like http://aggregator.local:8470"
    if "@" in found.netloc:
        return "must name no user and no password before its host: a device shows its own secret there"
    if found.query or found.fragment or not url.isprintable() or " " in url:
        return "must be a host and perhaps a path, without blanks, ? or #"
    return ""
