"""The link that invites a device: what it holds, how it is written and read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from fleet_protocol.errors import LinkFormatError
from fleet_protocol.ground.addresses import address_problem, without_password
from fleet_protocol.limits import ADDRESS_LENGTH

_TOKEN, _AUTHORITY = 43, 64  # characters: 32 bytes as base64, as hex digits
_LINK = re.compile(
    rf"(?P<url>https?://[^\s#]+?)/?#(?P<token>aur_join_[A-Za-z0-9_-]{{{_TOKEN}}})"
    rf"(?::(?P<authority>[0-9a-f]{{{_AUTHORITY}}}))?"
)
_LONGEST_LINK = ADDRESS_LENGTH + 200
_LONGEST_TEXT = 4 * _LONGEST_LINK
_START = re.compile(r"https?(?=:|%3A)", re.IGNORECASE)
_BREAKS = re.compile(r"[\s\u00ad\u200b-\u200f\u2060\ufeff]+")
_AROUND = ".,;:!?)]}>\"'`*_\u00bb\u2019\u201d\u201c"  # what a sentence, or a program, puts behind a link
_DASHES = str.maketrans({"\u2010": "-", "\u2011": "-", "\u2013": "-", "\u2014": "--"})


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
        """Read a link, in whatever a phone or a messenger made of it. Raises LinkFormatError: it is none.

        What is around the link is left out, as a whole command is; so are breaks within it. No error shows its token.
        """
        texts = _readings(text)
        found = next(filter(None, map(_LINK.fullmatch, texts)), None)
        if found is None:
            raise LinkFormatError(f"{_trouble(texts)}; `auricle-aggregator invite` prints one, like {_EXAMPLE}")
        link = cls(found["url"], found["token"], found["authority"])
        if problem := address_problem(link.url):
            raise LinkFormatError(f"the invitation's address {without_password(link.url)[:200]!r} {problem}")
        return link


_EXAMPLE = "https://host:8470/#aur_join_..."


def _readings(text: str) -> list[str]:
    """Return what of a text can be the link, the likeliest first: with its breaks joined, and up to the first one."""
    start = _START.search(text[:_LONGEST_TEXT])
    if start is None:
        return []
    rest = text[start.start() : _LONGEST_TEXT].translate(_DASHES)
    readings = []
    for reading in (_BREAKS.sub("", rest), *_BREAKS.split(rest)[:1]):
        link = reading if "#" in reading else unquote(reading)
        scheme, colon, others = link.rstrip(_AROUND).partition(":")
        readings.append(f"{scheme.lower()}{colon}{others}"[:_LONGEST_LINK])
    return readings


def _trouble(readings: list[str]) -> str:
    """Return why nothing of a text is an invitation, without what may be its secret."""
    if not readings:
        return "there is no invitation: nothing in it begins with https:// or http://"
    address, mark, secret = without_password(readings[0]).partition("#")
    if not mark or not secret:
        return f"{address[:200]!r} is no invitation: what belongs behind a # is missing, which some programs cut off"
    token, _, authority = secret.partition(":")
    if not token.startswith("aur_join_"):
        return f"{address[:200]!r} is no invitation: behind its # must stand aur_join_..."
    if len(token) < len("aur_join_") + _TOKEN or 0 < len(authority) < _AUTHORITY:
        return f"the invitation to {address[:200]!r} is cut off at its end; copy all of it"
    return f"the invitation to {address[:200]!r} is damaged, or something else stands behind it; copy it anew"
