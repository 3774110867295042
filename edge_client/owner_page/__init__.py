"""The owner's page: a small web server of its own, beside the daemon, on the device; docs/owners-page.md."""
