"""The address of a fleet, in an invitation and in a device's configuration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_protocol.errors import LinkFormatError
from fleet_protocol.limits import ADDRESS_LENGTH
from fleet_protocol.messages.invitation_link import InvitationLink

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
        ("ftp://b", "nothing in it begins with https"),
        ("https://a,https://b" * 400, "what belongs behind a # is missing"),
    ],
)
def test_a_link_with_an_address_that_cannot_be_used_is_refused(url, problem):
    with pytest.raises(LinkFormatError, match=problem):
        InvitationLink.parse(f"{url}/#{TOKEN}:{'ab' * 32}")


LINK = f"https://host:8470/#{TOKEN}:{'ab' * 32}"


@pytest.mark.parametrize(
    "text",
    [
        LINK.replace("https", "Https"),
        LINK.replace("https", "HTTPS"),
        LINK.replace("#", "%23"),
        LINK.replace("/", "%2F").replace(":", "%3A").replace("#", "%23"),
        f"{LINK}.",
        f"<{LINK}>",
        f"\u201c{LINK}\u201d",
        f"**{LINK}**",
        f"[join]({LINK})",
        f"{LINK}\u200b",
        f"{LINK[:50]}\n{LINK[50:]}",
        f"{LINK[:-30]}\r\n  {LINK[-30:]}",
        LINK.replace(":ab", "\n:ab", 1),
        f"auricle-edge join {LINK}",
        f"$ auricle-edge join '{LINK}' --insecure-http",
        f"Here it is: {LINK} See you!",
    ],
)
def test_a_link_is_read_as_phones_and_messengers_pass_it_on(text):
    assert InvitationLink.parse(text) == InvitationLink.parse(LINK)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no invitation"),
        ("the kitchen's", "there is no invitation"),
        ("https://host:8470/", "what belongs behind a # is missing"),
        ("https://host:8470/#", "what belongs behind a # is missing"),
        ("https://host:8470/#token=aur_admin_x", "must stand aur_join_"),
        (LINK[:40], "cut off"),
        (LINK[:-1], "cut off"),
        (f"{LINK}00", "damaged"),
        ("x" * 100_000, "there is no invitation"),
        ("https://host/#aur_join_" + "y" * 100_000, "damaged"),
        ("https://" * 100_000, "is no invitation"),
    ],
)
def test_what_is_no_invitation_is_told_why_and_no_secret_is_shown(text, said):
    with pytest.raises(LinkFormatError, match=said) as caught:
        InvitationLink.parse(text)
    assert "aur_admin" not in str(caught.value)
    assert TOKEN[:20] not in str(caught.value)
    assert len(str(caught.value)) < 500


@given(st.text())
def test_any_text_is_a_link_or_refused(text):
    for tried in (text, f"https://{text}#{TOKEN}", f"https://host/#{text}"):
        try:
            link = InvitationLink.parse(tried)
        except LinkFormatError:
            continue
        assert InvitationLink.parse(str(link)) == link


@pytest.mark.parametrize("text", [f"https://anna:hunter2@host:8470/#{TOKEN}", "https://anna:hunter2@host:8470/"])
def test_an_address_with_a_password_is_refused_and_the_password_not_shown(text):
    with pytest.raises(LinkFormatError) as refused:
        InvitationLink.parse(text)
    assert "https://...@host:8470" in str(refused.value)
    assert not any(secret in str(refused.value) for secret in ("anna", "hunter2"))
