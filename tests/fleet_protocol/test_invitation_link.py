"""The address of a fleet, in an invitation and in a device's configuration."""

import pytest

from fleet_protocol.errors import LinkFormatError
from fleet_protocol.invitation_link import InvitationLink
from fleet_protocol.limits import ADDRESS_LENGTH

TOKEN = "aur_join_" + "t" * 43


@pytest.mark.parametrize("authority", [None, "ab" * 32])
def test_a_link_is_read_as_it_was_written(authority):
    link = InvitationLink("https://[::1]:8470/fleet", TOKEN, authority)
    assert InvitationLink.parse(str(link)) == link


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://" + "h" * ADDRESS_LENGTH, "at most 300 characters"),
        ("https://b:70000", "is no address"),
        ("https://b?x", "without blanks"),
        ("https://", "must name a host"),
        ("ftp://b", "no invitation"),
        ("https://a,https://b" * 400, "no invitation"),
    ],
)
def test_a_link_with_an_address_that_cannot_be_used_is_refused(url, problem):
    with pytest.raises(LinkFormatError, match=problem):
        InvitationLink.parse(f"{url}/#{TOKEN}:{'ab' * 32}")
