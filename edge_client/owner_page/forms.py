"""What a form of the page sent."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.requests import Request

from edge_client.errors import ClipError
from edge_client.owner_page.device import Kind

_FORM_BYTES = 4096


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form.

    Raises:
        ClipError: it is larger than any that the page sends.
    """
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _FORM_BYTES:
            raise ClipError(f"a form of more than {_FORM_BYTES} bytes is refused")
    fields = parse_qs(body.decode(errors="replace"), keep_blank_values=True)
    return {name: values[-1] for name, values in fields.items()}


def kind_of(given: str) -> Kind:
    """Return a kind of event.

    Raises:
        ClipError: it is none.
    """
    if given == "detected":
        return "detected"
    if given == "unknown":
        return "unknown"
    raise ClipError(f"{given[:100]!r} is no kind of event; detected or unknown")


def number_of(given: str) -> int:
    """Return a whole number, not negative.

    Raises:
        ClipError: it is none.
    """
    if not given.isdecimal() or len(given) > 15:
        raise ClipError(f"{given[:100]!r} is not a number")
    return int(given)
