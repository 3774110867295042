"""Somebody on this machine who takes HTTP requests, and answers as a test wants."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """``requests``: path, headers and body of each; ``statuses``: what the next ones get, then 200."""

    def __init__(self):
        self.requests, self.statuses = [], []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                owner.requests.append((self.path, dict(self.headers), body))
                status = owner.statuses.pop(0) if owner.statuses else 200
                self.send_response(status)
                if status // 100 == 3:
                    self.send_header("location", f"{owner.url}/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def documents(self):
        return [json.loads(body) for _, _, body in self.requests]

    def close(self):
        self._server.shutdown()
        self._server.server_close()
