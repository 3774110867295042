"""The dashboard: pages for the people who run a fleet. docs/dashboard.md shows them.

A page is HTML that the server makes; all of it works without scripts, but for what changes by itself. Pages call the
same functions as the routes of ``/v1``.
"""
