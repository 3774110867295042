"""Home Assistant's Supervisor, as far as an app asks it: services and discovery, by its documented answers."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "a token of the Supervisor"
UUID = "1b2c3d4e5f"


class Supervisor(ThreadingHTTPServer):
    """``broker``: what it knows of MQTT; ``asked``: method, path and document of each request."""

    daemon_threads = True

    def __init__(self, broker=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.broker, self.asked = broker, []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def answer(self, asked, token):
        """The status and the document that answer a request."""
        self.asked.append(asked)
        if token != f"Bearer {TOKEN}":
            return 401, {"result": "error", "message": "unauthorized"}
        if asked[:2] == ("GET", "/services/mqtt"):
            if self.broker is None:
                return 400, {"result": "error", "message": "Service not enabled"}
            return 200, {"result": "ok", "data": self.broker}
        return 200, {"result": "ok", "data": {"uuid": UUID} if asked[0] == "POST" else {}}


class Handler(BaseHTTPRequestHandler):
    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = self.command, self.path, json.loads(body) if body else None
        status, document = self.server.answer(asked, self.headers["Authorization"])
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = handle_any  # noqa: N815  (the names that the server calls)

    def log_message(self, *_):
        pass
