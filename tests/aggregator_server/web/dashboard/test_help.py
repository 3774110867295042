"""Links of help lead from each page to the heading of a document that explains it, or to the site of the operator."""

import re
from html import unescape

import pytest

from aggregator_server.cli import parser
from aggregator_server.web.dashboard.documents import TOPICS, documents
from aggregator_server.web.dashboard.rendering import TEMPLATES
from tests.support.aggregator_process import Aggregator
from tests.support.dashboard_visitor import Visitor
from tests.support.pictured_fleet import HOSTILE

# Each page, and the heading that explains it.
PAGES = {
    "/": "The pages",
    "/fleet": "The list of the fleet",
    f"/fleet/{6:032x}": "Health",
    "/rounds": "Accuracy",
    "/rounds/2": "A round",
    "/rounds/6": "A round",
    "/rounds/new": "Starting a round",
    "/rounds/new?strategy=zero_shot": "Local methods",
    "/classes": "A label and a class",
    "/classes/c4": "How a class was found",
    "/audit": "Audit",
    "/invitations": "Identity",
}
NO_HELP = {"base.html", "error.html", "help.html"}
SITE = "https://docs.example/auricle"
HOSTILE_NAMES = (
    *("", "nothing", "index", "dashboard.md", "dashboard%00", "%ff", "\N{SNOWMAN}", "../README", "..%2fREADME"),
    *("%2e%2e/%2e%2e/etc/passwd", "models/%2e%2e/dashboard", "/etc/passwd"),
)
NO_SITES = (
    *("javascript:alert(1)", "docs.example", "ftp://docs.example", "https://", "https://a b"),
    *("https://me:key@docs.example", "https://docs.example/?q", "https://docs.example/#top", "https://docs.example\n"),
    *('https://docs.example/"><script>', "https://docs.example/" + 200 * "x"),
)


def help_on(text):
    found = re.search(r'<a href="([^"]+)" target="_blank"[^>]*>Help<', text)
    return found and unescape(found[1])


def test_the_help_of_each_page_shows_the_heading_that_explains_it(visitor):
    def helped(page):
        """The heading that a page's link of help leads to."""
        address, _, fragment = help_on(page.text).partition("#")
        return re.search(rf'<h[1-6] id="{fragment}">([^<]*)<', visitor.get(address).text)[1]

    titles = {"/sign-in": helped(visitor.get("/sign-in"))}
    visitor.sign_in()
    titles |= {path: helped(visitor.get(path)) for path in PAGES}
    chosen = visitor.post("/fleet", "/fleet", action="admit", device=[f"{1:032x}"])
    assert titles | {"chosen": helped(chosen)} == {"/sign-in": "Signing in", "chosen": "Several devices"} | PAGES


def test_every_page_has_a_topic_and_every_topic_a_heading(visitor):
    assert set(TOPICS) == {path.name for path in TEMPLATES.glob("[!_]*.html")} - NO_HELP
    for name, anchor in TOPICS.values():
        answer = visitor.get(f"/help/{name}")  # signed in or not
        assert answer.status_code == 200
        assert re.search(rf'<h[1-6] id="{anchor}">', answer.text), (name, anchor)


def test_every_document_is_shown_and_its_links_lead_to_pages(visitor):
    asked = {}
    for name in documents():
        answer = visitor.get(f"/help/{name}")
        assert answer.status_code == 200
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        content = re.search(r"<article.*?</article>", answer.text, re.DOTALL)[0]
        assert not re.search("<img|style=|<th></th>", content)
        asked[name] = re.findall(r'href="(?!https?:)([^"]*)"', content)
        assert len(set(re.findall(r'id="([^"]*)"', content))) == len(re.findall(r'id="', content))
    wrong = [
        (name, address)
        for name, addresses in asked.items()
        for address in addresses
        if not address.startswith("#") and address.removeprefix("/help/").partition("#")[0] not in asked
    ]
    assert wrong == []
    assert sum(map(len, asked.values())) > 100


@pytest.mark.parametrize("name", [*HOSTILE_NAMES, HOSTILE, 5_000 * "x"])
def test_a_hostile_name_is_no_page(visitor, name):
    answer = visitor.client.get(f"/help/{name}")
    assert answer.status_code == 404
    assert "<script>" not in answer.text
    assert "root:" not in answer.text
    assert len(answer.text) < 10_000


def test_an_operator_has_the_links_lead_to_a_site(tmp_path):
    process = Aggregator(tmp_path / "data", "--docs-url", SITE + "/").start()
    person = Visitor(process)
    assert help_on(person.get("/sign-in").text) == f"{SITE}/dashboard.html#signing-in"
    person.sign_in()
    assert help_on(person.get("/audit").text) == f"{SITE}/security.html#audit"
    person.close()
    assert process.stop() == 0


@pytest.mark.parametrize("url", NO_SITES)
def test_an_address_that_is_no_site_is_refused(tmp_path, capsys, url):
    with pytest.raises(SystemExit) as refused:
        parser().parse_args(["run", "--data", str(tmp_path), "--docs-url", url])
    assert refused.value.code == 2
    said = capsys.readouterr().err
    assert "--docs-url" in said
    assert "https://docs.example/auricle" in said
    assert len(said) < 3_000
