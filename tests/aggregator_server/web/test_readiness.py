"""Health checks: a server that lives need not be ready, and one that ends says so before it does."""

import signal

from tests.support.edge_process import wait_for


def test_alive_is_told_from_ready_and_the_server_says_that_it_will_end(start_aggregator):
    server = start_aggregator("server", "--drain-s", "120", READY_S=2.0)
    store, away = server.data / "blobs", server.data / "away"
    with server.client(token=None) as client:

        def ready():
            answer = client.get("/v1/health/ready")
            return answer.status_code, answer.json().get("status") or answer.json()["error"]["code"]

        assert ready() == (200, "ready")
        store.rename(away)
        refused = client.get("/v1/health/ready")
        assert "its log says why" in refused.json()["error"]["message"]
        assert str(server.data) not in refused.text
        assert [ready() for _ in range(3)] == [(503, "not_ready")] * 3
        assert int(refused.headers["retry-after"]) > 0
        assert client.get("/v1/health/alive").json() == {"status": "alive"}
        assert server.log().count("not ready:") == 1
        away.rename(store)
        assert ready() == (200, "ready")

        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: ready() == (503, "not_ready"), what="the word that it ends")
        assert client.get("/v1/health/alive").json() == {"status": "alive"}
        assert client.get("/v1/health").status_code == 200  # others are served meanwhile
        server.process.send_signal(signal.SIGINT)
        server.process.wait(60)
