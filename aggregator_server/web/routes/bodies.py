"""How the OpenAPI schema shows bodies that are not JSON."""

from __future__ import annotations

from typing import Any

BINARY: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
BINARY_BODY: dict[str, Any] = {"requestBody": {"required": True, "content": BINARY}}
