"""Health checks: a server that lives need not be ready."""


def test_alive_is_told_from_ready(start_aggregator):
    server = start_aggregator("server", READY_S=2.0)
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
