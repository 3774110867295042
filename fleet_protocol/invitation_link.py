"""The link that invites a device: what it holds, how it is written and read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleet_protocol.addresses import address_problem
from fleet_protocol.errors import LinkFormatError
from fleet_protocol.limits import ADDRESS_LENGTH

_LINK = re.compile(r"(?P<url>https?://[^\s#]+?)/?#(?P<token>aur_join_[\w-]{20,100})(?::(?P<authority>[0-9a-f]{64}))?")
_LONGEST_LINK = ADDRESS_LENGTH + 200


@dataclass(frozen=True)
class InvitationLink:
    """What a device needs to join a fleet, in one link: ``https://host:port/#aur_join_...:authority``.

    What follows ``#`` is never sent to a server by a browser, and needs no quotes in a shell.
    """

    url: str  # Address of the aggregator
    token: str  # Text of the invitation
    # SHA-256 of the aggregator's own authority, 64 hex digits; None where public ones vouch for it, or nobody does
    authority: str | None = None

    def __str__(self) -> str:
        vouching = f":{self.authority}" if self.authority else ""
        return f"{self.url.rstrip('/')}/#{self.token}{vouching}"

    @classmethod
    def parse(cls, text: str) -> InvitationLink:
        """Read a link. Raises LinkFormatError: it is none, or its address is none."""
        text = text.strip()
        found = _LINK.fullmatch(text) if len(text) <= _LONGEST_LINK else None
        if found is None:
            raise LinkFormatError(
                f"{text[:200]!r} is no invitation; `auricle-aggregator invite` prints one, like "
                "https://host:8470/#aur_join_..."
            )
        link = cls(found["url"], found["token"], found["authority"])
        if problem := address_problem(link.url):
            raise LinkFormatError(f"the invitation's address {link.url[:200]!r} {problem}")
        return link
