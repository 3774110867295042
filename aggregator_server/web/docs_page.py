"""The page at /docs: the OpenAPI schema as one HTML document that loads nothing from anywhere."""

import base64
import hashlib
import html
import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

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


def render(schema: Json) -> str:
    """Return the page for an OpenAPI schema."""
    info = schema["info"]
    parts = (*_operations(schema), "<h2>Messages</h2>", *_messages(schema), "<h2>Tokens</h2>", *_tokens(schema))
    body = "\n".join(parts)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{_text(info["title"])}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{_text(info['title'])} {_text(info['version'])}</h1>"
        f"<p>{_text(info['description'])}</p>"
        f'<p>The same for programs: <a href="/openapi.json">/openapi.json</a>.</p>{body}</body></html>'
    )


def _operations(schema: Json) -> Iterator[str]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield (
                f"<details><summary><code>{method.upper()} {_text(path)}</code> {_text(operation['summary'])}</summary>"
                f"<p>{_text(operation.get('description', ''))}</p>{_needs(operation)}{_parameters(operation)}"
                f"{_body(operation)}{_responses(operation)}</details>"
            )


def _needs(operation: Json) -> str:
    names = [name for requirement in operation.get("security", []) for name in requirement]
    return f"<p>Token: {_text(' or '.join(sorted(set(names))) or 'none')}</p>"


def _parameters(operation: Json) -> str:
    rows = "".join(
        f"<tr><td><code>{_text(item['name'])}</code></td><td>{_text(item['in'])}</td>"
        f"<td>{_kind(item.get('schema', {}))}</td><td>{_text(item.get('description', ''))}</td></tr>"
        for item in operation.get("parameters", [])
    )
    return f"<table><tr><th>parameter</th><th>in</th><th>type</th><th></th></tr>{rows}</table>" if rows else ""


def _body(operation: Json) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    return "".join(f"<p>Body ({_text(media)}): {_kind(item.get('schema', {}))}</p>" for media, item in content.items())


def _responses(operation: Json) -> str:
    rows = ""
    for status, response in sorted(operation["responses"].items()):
        kinds = " ".join(_kind(item.get("schema", {})) for item in response.get("content", {}).values())
        rows += f"<tr><td>{status}</td><td>{kinds}</td><td>{_text(response.get('description', ''))}</td></tr>"
    return f"<table><tr><th>status</th><th>body</th><th></th></tr>{rows}</table>"


def _messages(schema: Json) -> Iterator[str]:
    for name, message in sorted(schema["components"]["schemas"].items()):
        text = _text(json.dumps(message.get("properties", {}), indent=1))
        about = _text(message.get("description", ""))
        title = f"<summary><code>{_text(name)}</code></summary>"
        yield f'<details id="{_text(name)}">{title}<pre>{about}</pre><pre>{text}</pre></details>'


def _tokens(schema: Json) -> Iterator[str]:
    for name, scheme in schema["components"]["securitySchemes"].items():
        yield f"<p><code>{_text(name)}</code>: {_text(scheme['description'])}</p>"


def _kind(schema: Json) -> str:
    """Name a schema, with a link where it is a message of its own."""
    if "$ref" in schema:
        name = _text(schema["$ref"].rsplit("/", 1)[-1])
        return f'<a href="#{name}">{name}</a>'
    if "items" in schema:
        return f"list of {_kind(schema['items'])}"
    if "anyOf" in schema:
        return " or ".join(_kind(option) for option in schema["anyOf"])
    return _text(" ".join(str(schema[key]) for key in ("type", "format", "pattern") if key in schema))


def _text(value: str) -> str:
    return html.escape(str(value))
