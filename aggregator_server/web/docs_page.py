"""The page at /docs: the OpenAPI schema as one HTML document that loads nothing from anywhere."""

import base64
import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "code,pre{font-family:ui-monospace,monospace;background:#f3f3f3}pre{padding:.6rem;overflow:auto}"
    "summary{cursor:pointer;padding:.3rem 0}table{border-collapse:collapse}"
    "td,th{border:1px solid #ccc;padding:.2rem .6rem;text-align:left;vertical-align:top}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a browser may load for the page: nothing but the style within it."""


def render(schema: dict[str, Any]) -> str:
    """Return the page for an OpenAPI schema."""
    loader = FileSystemLoader(Path(__file__).parent / "templates")
    template = Environment(loader=loader, autoescape=True, trim_blocks=True).get_template("docs.html")
    return template.render(schema, style=_STYLE, to_json=partial(json.dumps, indent=1))
