"""The documentation that comes with the package, as HTML, and which part of it explains which page."""

import posixpath
import re
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

# Of a checkout, or what the wheel installs.
_FOLDERS = (Path(__file__).parents[3] / "docs", Path(sysconfig.get_path("data")) / "share/doc/auricle")
_NO_PAGES = {"index"}  # made for the site alone
# What explains a page: by the page's template, a document and a fragment of it.
TOPICS = {
    "audit.html": ("security", "audit"),
    "class.html": ("dashboard", "how-a-class-was-found"),
    "classes.html": ("glossary", "a-label-and-a-class"),
    "device.html": ("dashboard", "health"),
    "fleet.html": ("dashboard", "the-list-of-the-fleet"),
    "fleet_chosen.html": ("dashboard", "several-devices"),
    "invitations.html": ("security", "identity"),
    "overview.html": ("dashboard", "the-pages"),
    "round.html": ("dashboard", "a-round"),
    "round_choose.html": ("dashboard", "starting-a-round"),
    "round_settings.html": ("methods", "local-methods"),
    "rounds.html": ("dashboard", "accuracy"),
    "sign_in.html": ("dashboard", "signing-in"),
}


@dataclass(frozen=True)
class Document:
    """A document.

    Attributes:
        content: Text as HTML; whatever is HTML in the document itself is escaped.
    """

    title: str
    content: Markup


def help_address(template: str, site: str | None) -> str | None:
    """Return where a page's help is; None where it has none, or where no documents are installed.

    Args:
        site: address of the documentation's site; None: this server's own pages of help.
    """
    if template not in TOPICS:
        return None
    name, anchor = TOPICS[template]
    if site is not None:
        return f"{site}/{name}.html#{anchor}"
    return f"/help/{name}#{anchor}" if name in documents() else None


@cache
def documents() -> dict[str, Path]:
    """Return the documents by their names, like ``dashboard``; none where the package was installed without them."""
    folder = next((folder for folder in _FOLDERS if (folder / "dashboard.md").is_file()), None)
    if folder is None:
        return {}
    paths = (*folder.glob("*.md"), *folder.glob("*/*.md"))
    found = {path.relative_to(folder).with_suffix("").as_posix(): path for path in paths}
    return {name: path for name, path in found.items() if name not in _NO_PAGES}


@cache
def read_document(name: str) -> Document:
    """Return a document as HTML."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.add_render_rule("table_open", _table_open)
    markdown.add_render_rule("table_close", lambda *_: "</table></div>")
    tokens = markdown.parse(documents()[name].read_text(encoding="utf-8"))
    titles: list[str] = []
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            titles.append("".join(child.content for child in tokens[place + 1].children or ()))
            anchor = _anchor_of(titles[-1])
            before = [_anchor_of(title) for title in titles].count(anchor) - 1
            token.attrs["id"] = f"{anchor}-{before}" if before else anchor
        if token.children:
            token.children = _shown(token.children, name)
        if token.type == "th_open" and not tokens[place + 1].content:  # the corner of a table heads nothing
            token.tag = tokens[place + 2].tag = "td"
        token.attrs.pop("style", None)  # of a column; the pages' policy refuses it
    content = markdown.renderer.render(tokens, markdown.options, {})
    return Document(next(iter(titles), name), Markup(content))  # noqa: S704  (the renderer escapes)


def _anchor_of(title: str) -> str:
    """Return the fragment by which a heading is found, as on the site and on code hosts."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _shown(children: list[Token], page: str) -> list[Token]:
    """Return the parts of a text with links that lead somewhere here; pictures do not come along, their texts do."""
    kept: list[Token] = []
    is_link = False
    for child in children:
        if child.type == "link_open":
            address = _address(str(child.attrs["href"]), page)
            is_link = address is not None
            child.attrs["href"] = address or ""
        if child.type in ("link_open", "link_close") and not is_link:
            continue
        kept.append(Token("text", "", 0, content=child.content) if child.type == "image" else child)
    return kept


def _address(target: str, page: str) -> str | None:
    """Return where a link of a document leads; None: to a file that is no page here."""
    if target.startswith(("https://", "http://", "#")):
        return target
    path, _, fragment = target.partition("#")
    name = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)).removesuffix(".md")
    return f"/help/{name}" + (f"#{fragment}" if fragment else "") if name in documents() else None


def _table_open(_renderer: object, tokens: Sequence[Token], index: int, *_: object) -> str:
    """Return a table's beginning: where it is wider than the page, it scrolls by itself, by keyboard too."""
    count = sum(token.type == "table_open" for token in tokens[: index + 1])
    return f'<div class="scroll" tabindex="0" role="region" aria-label="Table {count}"><table>'
