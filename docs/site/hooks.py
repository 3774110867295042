"""What MkDocs asks of this site: pages that the code writes, and links that leave the folder `docs`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import reference
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

# Files of the checkout beside `docs` that are pages of the site.
ROOT_PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "report-a-weakness.md",
}
GENERATED = {
    "reference/commands.md": reference.commands,
    "reference/configuration.md": reference.configuration,
    "reference/rest.md": reference.rest,
}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that stand elsewhere or nowhere."""
    root = Path(config.docs_dir).parent
    for name, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=_in_the_site((root / name).read_text(encoding="utf-8"))))
    for page, write in GENERATED.items():
        files.append(File.generated(config, page, content=write()))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Let the links to files beside `docs` lead to their pages."""
    for name, target in ROOT_PAGES.items():
        markdown = markdown.replace(f"](../{name}", f"]({target}")
    return markdown


def _in_the_site(text: str) -> str:
    """Return a page of the checkout's root as one of the folder `docs`."""
    for name, target in ROOT_PAGES.items():
        text = text.replace(f"]({name}", f"]({target}")
    return re.sub(r"\]\(docs/", "](", text).replace("](README.md)", "](index.md)")
