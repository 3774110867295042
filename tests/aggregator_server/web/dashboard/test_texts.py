"""Every text of the dashboard is in its catalogues, and these are whole and what the server reads."""

import ast
import gettext
import re

import pytest
from babel.messages.pofile import read_po
from jinja2 import nodes

from aggregator_server.web.dashboard.languages import DOMAIN, LANGUAGES, LOCALE
from aggregator_server.web.dashboard.rendering import TEMPLATES, environment
from tests.support.dashboard_texts import DASHBOARD, forms, po_file, template, translated

PLACEHOLDER = re.compile(r"%\((\w+)\)s|(\{\w+\})|(%%)")
TAG = re.compile(r"<[^>]*>")
ATTRIBUTE = re.compile(r'(?:aria-label|title|alt|placeholder|data-label)="([^"]*)"')
NO_TEXTS = {"Auricle", "CSV", "JSON", "Python", "UTC"}  # names
COMMANDS = re.compile(r"<code[^>]*>.*?</code>", re.DOTALL)


def texts(code):
    with po_file(code).open("rb") as file:
        return [message for message in read_po(file, locale=code, domain=DOMAIN) if message.id]


def has_words(text):
    return any(word not in NO_TEXTS for word in re.findall(r"[^\W\d_]{2,}", re.sub(r"&\w+;", "", text)))


@pytest.mark.parametrize("code", translated())
def test_a_catalogue_has_every_text_and_no_other_one(code):
    expected = {forms(message.id) for message in template() if message.id}
    found = texts(code)
    assert {forms(message.id) for message in found} == expected
    assert [message.id for message in found if message.fuzzy or not all(forms(message.string))] == []


@pytest.mark.parametrize("code", translated())
def test_a_translation_has_the_placeholders_of_its_text_and_no_markup(code):
    wrong = []
    for message in texts(code):
        wanted = {frozenset(PLACEHOLDER.findall(text)) for text in forms(message.id)}
        wrong += [
            text
            for text in forms(message.string)
            if frozenset(PLACEHOLDER.findall(text)) not in wanted or re.search(r"[<>\"&]", text)
        ]
    assert wrong == []


@pytest.mark.parametrize("code", translated())
def test_the_server_reads_what_the_translators_wrote(code):
    compiled = gettext.translation(DOMAIN, LOCALE, [code])
    for message in texts(code):
        if isinstance(message.id, str):
            assert compiled.gettext(message.id) == message.string
        else:
            assert {compiled.ngettext(*message.id, count) for count in (1, 2, 5)} == set(message.string)


def test_every_text_of_a_template_is_one_to_translate():
    bare = []
    for path in sorted(TEMPLATES.glob("*.html")):
        source = re.sub(r"\{#.*?#\}", "", path.read_text())
        tree = environment().parse(re.sub(r"\{%-?\s*trans\b.*?endtrans\s*-?%\}", "", source, flags=re.DOTALL))
        written = "\0".join(data.data for data in tree.find_all(nodes.TemplateData))
        shown = TAG.sub(" ", COMMANDS.sub("", re.sub(r"<svg.*?</svg>", "", written, flags=re.DOTALL)))
        shown = re.sub(r"[\w-]+=\"[^\"]*\"", " ", shown)
        bare += [f"{path.name}: {text}" for text in ATTRIBUTE.findall(written) if has_words(text)]
        bare += [f"{path.name}: {text.strip()}" for text in re.findall(r"[^\0\n]+", shown) if has_words(text)]
    assert bare == []


def test_every_error_that_a_page_words_itself_is_one_to_translate():
    bare = []
    for path in sorted(DASHBOARD.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Raise)
                and isinstance(node.exc, ast.Call)
                and node.exc.args
                and ast.unparse(node.exc.func).endswith("Error")
            ):
                told = node.exc.args[0]
                if isinstance(told, ast.JoinedStr | ast.Constant) and ast.unparse(node.exc.func) != "AssertionError":
                    bare.append(f"{path.name}:{node.lineno}")
    assert bare == []


def test_every_language_names_itself_and_has_its_catalogue():
    assert set(LANGUAGES) == {"en", *(path.name for path in LOCALE.iterdir())}
