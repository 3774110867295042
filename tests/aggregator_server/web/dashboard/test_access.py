"""Who gets at the pages: sessions, roles, forms that other sites send, and bounds. Real requests to a real server."""

import hashlib
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from aggregator_server.limits import FORM_BYTES
from fleet_protocol.ground.command_line import version
from tests.support.aggregator_process import ADMIN, read_answer
from tests.support.checkout import ROOT
from tests.support.commands import answer
from tests.support.dashboard_visitor import PAGES, Visitor
from tests.support.state_servers import options_of

FOR_OPERATORS = {"/rounds/new"}
VENDORED = ROOT / "aggregator_server/web/dashboard/static/vendor"


def person(aggregator, role):
    with aggregator.client() as client:
        made = client.post("/v1/tokens", json={"name": f"a {role}", "role": role}).json()
    return made["token"], made["info"]["token_id"]


def audited(aggregator, what):
    with aggregator.client() as client:
        return client.get("/v1/audit", params={"what": what}).json()


def test_whoever_signs_in_comes_to_the_page_that_was_asked_for(visitor):
    response = visitor.sign_in(next="/fleet")
    assert (response.status_code, response.headers["location"]) == (303, "/fleet")
    assert visitor.get("/sign-in").headers["location"] == "/"


@pytest.mark.parametrize("elsewhere", ["//example.org", "https://example.org/", "/\\example.org", "/\r\nX: y"])
def test_a_link_cannot_lead_elsewhere_after_signing_in(visitor, elsewhere):
    assert visitor.sign_in(next=elsewhere).headers["location"] == "/"


def test_no_page_has_a_script_or_a_style_of_its_own(admin):
    for path in PAGES:
        page = admin.get(path).text
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=\"|javascript:", page), path


def test_the_fleet_page_says_how_many_devices_are_outdated_and_lists_them_alone(admin):
    everybody = admin.get("/fleet").text
    assert "1 of 7 is outdated" in everybody
    assert f"older than this server's {version()}." in everybody
    assert re.search(r"0\.0\.9 <span[^>]*>outdated</span>", everybody)
    alone = admin.get("/fleet?state=outdated").text
    assert ("workshop" in alone, "kitchen" in alone) == (True, False)
    device = admin.get(f"/fleet/{3:032x}").text
    assert all(text in device for text in ("tflite-runtime 2.14.0", "Python 3.11.2", "bookworm", "3f3f3f3f3f3f<"))


def test_the_cookie_is_out_of_reach_for_scripts_and_other_sites(start_aggregator, visitor):
    cookie = visitor.sign_in().headers.get_list("set-cookie")[0]
    assert cookie.startswith("auricle=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    behind_proxy = start_aggregator("server", "--behind-proxy", "127.0.0.1")
    private = Visitor(behind_proxy, **{"X-Forwarded-Proto": "https"})
    cookie = private.sign_in().headers.get_list("set-cookie")[0]
    assert cookie.startswith("__Host-auricle=")
    assert "Secure" in cookie


def test_neither_cookie_nor_folder_hold_what_opens_a_session(aggregator, admin):
    secret = admin.client.cookies["auricle"]
    assert ADMIN not in secret
    for path, content in aggregator.files().items():
        assert not {secret.encode(), ADMIN.encode()} & {*re.findall(rb"[\w-]{20,}", content)}, path


def test_signing_out_ends_the_session_on_the_server(aggregator, admin):
    secret = admin.client.cookies["auricle"]
    response = admin.post("/sign-out")
    assert (response.status_code, response.headers["location"]) == (303, "/sign-in?note=signed-out")
    assert "You are signed out." in admin.get(response.headers["location"]).text
    thief = Visitor(aggregator, Cookie=f"auricle={secret}")
    assert thief.get("/").status_code == 303
    assert audited(aggregator, "signed_out")[0]["who"] == "administrator's token"


def test_each_role_sees_and_does_what_it_may(aggregator, visitor):
    token, _ = person(aggregator, "viewer")
    visitor.sign_in(token)
    for path in PAGES:
        expected = 403 if path in FOR_OPERATORS or path == "/invitations" else 200
        assert visitor.get(path).status_code == expected, path
        assert "Traceback" not in visitor.get(path).text
    assert "Start a round" not in visitor.get("/rounds").text
    assert "Lift quarantine" not in visitor.get("/fleet").text
    refused = visitor.post("/rounds/6/cancel")
    assert refused.status_code == 403
    assert "has the role viewer; this needs the role operator" in refused.text
    token, _ = person(aggregator, "operator")
    operator = Visitor(aggregator)
    operator.sign_in(token)
    assert operator.get("/rounds/new").status_code == 200
    assert operator.get("/invitations").status_code == 403
    assert operator.post(f"/fleet/{1:032x}/revoke").status_code == 403


def test_a_form_that_another_site_sends_changes_nothing(aggregator, admin):
    elsewhere = ({"Origin": "https://example.org"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"})
    for headers in elsewhere:
        response = admin.client.post("/classes/c1/rename", data={"name": "forged"}, headers=headers)
        assert response.status_code == 403, headers
        assert "nothing was changed" in response.text
        assert admin.client.post("/sign-in", data={"token": ADMIN}, headers=headers).status_code == 403
    assert "forged" not in admin.get("/classes").text
    proxied = {"Origin": "https://fleet.example.org", "Host": "127.0.0.1:8470"}  # as nginx passes it on by default
    said = admin.client.post("/sign-in", data={"token": ADMIN}, headers=proxied).text
    assert all(word in said for word in ("https://fleet.example.org", "127.0.0.1:8470", "Host $http_host")), said
    own = {"Origin": aggregator.url, "Sec-Fetch-Site": "same-origin"}
    assert admin.client.post("/classes/c1/rename", data={"name": "nope"}, headers=own).status_code == 303


def link_of(aggregator):
    """A link that signs an administrator in once: (its page's path, its secret)."""
    given = ("--data", aggregator.data, *options_of(aggregator.data))
    url = urlsplit(answer("tokens", "link", *given, **aggregator.tokens)["link"])
    assert f"{url.scheme}://{url.netloc}" == aggregator.url
    return url.path, url.fragment


def test_a_link_that_a_command_prints_signs_in_once_and_no_other_site_uses_it(aggregator, admin):
    path, once = link_of(aggregator)
    for signed_in in (Visitor(aggregator), admin):
        page = signed_in.get(path)
        assert (page.status_code, once in page.text, "data-send" in page.text) == (200, False, True)
    led = admin.client.get(path, headers={"Sec-Fetch-Site": "cross-site"}).text
    assert ("data-send" in led, ">Sign in</button>" in led) == (False, True)  # somebody has to press it
    thief = Visitor(aggregator, "127.0.0.78")
    forged = thief.client.post("/sign-in", data={"token": once}, headers={"Sec-Fetch-Site": "cross-site"})
    assert forged.status_code == 403
    assert Visitor(aggregator, Cookie=f"auricle={once}").get("/").status_code == 303
    with aggregator.client(once) as client:
        assert client.get("/v1/rounds").status_code == 401
    person = Visitor(aggregator, "127.0.0.79")
    assert person.sign_in(once).headers["location"] == "/"
    assert "administrator&#39;s token" in person.get("/audit").text
    again = thief.sign_in(once)
    assert (again.status_code, "This link was used" in again.text) == (401, True)
    assert "tokens link" in again.text
    assert thief.get("/").status_code == 303
    assert thief.sign_in("aur_once_" + "x" * 43).status_code == 401
    noted = [entry for entry in audited(aggregator, "authentication_failed") if entry["address"] == "127.0.0.78"]
    assert len(noted) == 2
    assert audited(aggregator, "sign_in_link_made")[0]["who"] == "command line"
    assert once.encode() not in b"".join(aggregator.files().values())


def test_wrong_tokens_are_noted(aggregator):
    guesser = Visitor(aggregator, "127.0.0.77")
    answer = guesser.sign_in("aur_user_nobody")
    assert (answer.status_code, "Nobody has this token" in answer.text) == (401, True)
    (noted,) = [entry for entry in audited(aggregator, "authentication_failed") if entry["address"] == "127.0.0.77"]
    assert noted["details"]["request"] == "POST /sign-in"
    assert guesser.sign_in().status_code == 303
    assert audited(aggregator, "signed_in")[0]["address"] == "127.0.0.77"


def test_a_form_is_small_and_a_form(admin):
    too_large = admin.client.post("/classes/c1/rename", data={"name": "x" * FORM_BYTES})
    assert too_large.status_code == 413
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    pieces = iter([b"name="] + [b"x" * 8192] * 9)  # chunked: no length is announced
    assert admin.client.post("/classes/c1/rename", content=pieces, headers=form).status_code == 413
    assert admin.client.post("/classes/c1/rename", json={"name": "x"}).status_code == 422
    assert admin.client.post("/classes/c1/rename", files={"name": ("a.txt", b"x")}).status_code == 422
    assert admin.post("/classes/c1/rename", name="").status_code == 422


def test_what_is_not_there_is_said_on_a_page(admin):
    for path, words in (
        ("/rounds/999", "There is no round 999"),
        (f"/fleet/{77:032x}", f"There is no device '{77:032x}'"),
        ("/classes/c99", "There is no class 'c99'"),
        ("/fleet/%3Cb%3E", "cannot be"),
        (f"/rounds?before={2**63}", "cannot be"),
        ("/static/../access.py", "nothing at this address"),
        ("/static/x.js", "no file"),
    ):
        response = admin.get(path)
        assert response.status_code == 404, path
        assert words in response.text.replace("&#39;", "'")
    hostile = admin.get("/fleet", params={"search": '"><script>', "state": '"><script>', "after": '"><script>'}).text
    assert ("No such device" in hostile, "<script>" in hostile) == (True, False)


def test_the_files_of_other_projects_are_what_they_are_said_to_be(admin):
    listed = dict(
        re.findall(r"^\| `([\w.-]+)` \|.*\| ([0-9a-f]{64}) \|$", (VENDORED / "VENDORED.md").read_text(), re.MULTILINE)
    )
    assert set(listed) == {path.name for path in VENDORED.iterdir() if path.suffix in (".js", ".css")}
    for name, digest in listed.items():
        assert hashlib.sha256((VENDORED / name).read_bytes()).hexdigest() == digest
        served = admin.get(f"/static/vendor/{name}")
        assert hashlib.sha256(served.content).hexdigest() == digest
    for licence in re.findall(r"`(LICENSE-\w+\.txt)`", (VENDORED / "VENDORED.md").read_text()):
        assert Path(VENDORED / licence).stat().st_size > 200


def test_head_is_answered_wherever_get_is_and_without_a_body(admin):
    for path in ("/", "/static/dashboard.css?", "/openapi.json", "/v1/health"):
        asked, got = admin.client.head(path), admin.get(path)
        assert (asked.status_code, asked.content) == (200, b""), path
        for name in ("content-type", "content-length"):
            assert asked.headers[name] == got.headers[name], path
    assert [admin.client.head(path).status_code for path in ("/v1/rounds", "/nothing", "/sign-out")] == [401, 404, 405]


def test_a_request_that_names_the_whole_address_is_answered(aggregator):
    for asked in ("http://fleet.example/v1/health?x=1", "HTTPS://fleet.example:8470/sign-in", "http://fleet.example"):
        with aggregator.connect() as connection:
            connection.sendall(f"GET {asked} HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close\r\n\r\n".encode())
            status, headers, _ = read_answer(connection)
        assert (status, headers.get("location")) in ((200, None), (303, "/sign-in?next=/")), asked
