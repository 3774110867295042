"""Who is signed in: sessions, and links that work once; the clock is the caller's."""

import threading

import pytest

from aggregator_server.errors import NotAuthenticatedError
from aggregator_server.fleet.audit import SERVER
from aggregator_server.fleet.sessions import find_session, make_once, sign_in, sign_out
from aggregator_server.fleet.tokens import FIRST, add_token, find_person, revoke_token
from aggregator_server.limits import SESSION_S, SESSIONS_PER_TOKEN, SIGN_IN_LINK_S
from aggregator_server.schemas import TokenRequest
from aggregator_server.store.opening import open_store
from tests.support.aggregator_process import ADMIN


def test_a_session_ends_by_itself_and_with_the_first_token(tmp_path):
    store = open_store(tmp_path / "data")
    secret = sign_in(store, ADMIN, ADMIN, None, 100.0)
    assert find_session(store, secret, ADMIN, 99.0 + SESSION_S).role == "admin"
    assert find_session(store, secret, ADMIN, 100.0 + SESSION_S) is None
    assert find_session(store, secret, "another token of the administrator", 101.0) is None
    assert find_session(store, "nobody's secret", ADMIN, 101.0) is None
    with pytest.raises(NotAuthenticatedError, match="nobody has this token"):
        sign_in(store, "aur_user_nonsense", ADMIN, None, 100.0)


def test_a_token_has_so_many_sessions_and_no_more(tmp_path):
    store = open_store(tmp_path / "data")
    made = add_token(store, TokenRequest(name="Anna", role="viewer"), SERVER, 1.0)
    first = sign_in(store, ADMIN, ADMIN, None, 1.0)
    secrets = [sign_in(store, made.token, ADMIN, None, 2.0 + turn) for turn in range(SESSIONS_PER_TOKEN + 1)]
    alive = [find_session(store, secret, ADMIN, 50.0) is not None for secret in (first, *secrets)]
    assert alive == [True, False, *[True] * SESSIONS_PER_TOKEN]
    sign_out(store, secrets[1], SERVER, 51.0)
    revoke_token(store, made.info.token_id, SERVER, 52.0)
    assert not any(find_session(store, secret, ADMIN, 53.0) for secret in secrets)


def test_a_link_signs_an_administrator_in_once(tmp_path):
    store = open_store(tmp_path / "data")
    once = make_once(store, ADMIN, SERVER, 100.0)
    secret = sign_in(store, once, ADMIN, None, 99.0 + SIGN_IN_LINK_S)
    assert find_session(store, secret, ADMIN, 99.0 + SESSION_S) == FIRST
    with pytest.raises(NotAuthenticatedError, match=r"this link was used, or is older than 60 seconds; .* tokens link"):
        sign_in(store, once, ADMIN, None, 101.0)
    assert find_session(store, "another", ADMIN, 101.0) is None


def test_a_link_is_no_use_after_a_minute_or_with_another_token_of_the_server(tmp_path):
    store = open_store(tmp_path / "data")
    once = make_once(store, ADMIN, SERVER, 100.0)
    for first, now in ((ADMIN, 100.0 + SIGN_IN_LINK_S), ("another token of the administrator", 101.0)):
        with pytest.raises(NotAuthenticatedError, match="was used"):
            sign_in(store, once, first, None, now)
    for guessed in (once[:-1], once.upper(), "aur_once_", "aur_once_" + "x" * 43):
        with pytest.raises(NotAuthenticatedError):
            sign_in(store, guessed, ADMIN, None, 101.0)
    assert sign_in(store, once, ADMIN, None, 101.0)  # guesses use nothing up


def test_what_a_link_holds_is_neither_a_session_nor_a_token_and_no_session_is_a_link(tmp_path):
    store = open_store(tmp_path / "data")
    once = make_once(store, ADMIN, SERVER, 100.0)
    assert find_session(store, once, ADMIN, 101.0) is None
    assert find_person(store, once, 101.0) is None
    secret = sign_in(store, ADMIN, ADMIN, None, 101.0)
    with pytest.raises(NotAuthenticatedError):
        sign_in(store, secret, ADMIN, None, 102.0)


def test_of_many_who_open_a_link_at_the_same_time_one_is_signed_in(tmp_path):
    store = open_store(tmp_path / "data")
    once = make_once(store, ADMIN, SERVER, 100.0)
    start, outcomes = threading.Barrier(8), []

    def open_it():
        start.wait()
        try:
            outcomes.append(sign_in(store, once, ADMIN, None, 101.0))
        except NotAuthenticatedError:
            outcomes.append(None)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(outcomes), len([secret for secret in outcomes if secret])) == (8, 1)
