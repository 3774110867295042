"""A person at the dashboard: with a browser, or without one, keeping cookies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from tests.support.aggregator_process import ADMIN, Aggregator

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Every page, on the fleet of tests/support/pictured_fleet.py.
PAGES = (
    *("/", "/fleet", f"/fleet/{6:032x}", "/rounds", "/rounds/2", "/rounds/6", "/rounds/new"),
    *("/classes", "/classes/c4", "/audit", "/invitations"),
)


def sign_in(page: Page, url: str) -> None:
    """Have the administrator sign in with a browser's page."""
    page.goto(url)
    page.get_by_label("Your token").fill(ADMIN)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Overview").wait_for()


class Visitor:
    """Speaks HTTP as a browser does; ``address`` is its own, of 127.0.0.0/8."""

    def __init__(self, aggregator: Aggregator, address: str = "127.0.0.1", **headers: str):
        transport = httpx.HTTPTransport(local_address=address)
        self.client = aggregator.keep(
            httpx.Client(base_url=aggregator.url, transport=transport, timeout=180, trust_env=False, headers=headers)
        )

    def get(self, path: str, **options) -> httpx.Response:
        return self.client.get(path, **options)

    def post(self, path: str, **fields: str) -> httpx.Response:
        """Send a form."""
        return self.client.post(path, data=fields, headers={"Content-Type": "application/x-www-form-urlencoded"})

    def sign_in(self, token: str = ADMIN, **fields: str) -> httpx.Response:
        return self.post("/sign-in", token=token, **fields)
