"""A proxy as Home Assistant's: it puts a page below a path of its own, which it strips, and asks from one address."""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PREFIX = "/api/hassio_ingress/k3vq52xcqe7hma4t"
# Nothing else of this machine uses it.
ADDRESS = "127.32.30.2"


class Ingress(ThreadingHTTPServer):
    """In front of the page at a port of this machine; ``url`` is the page's beginning."""

    daemon_threads = True

    def __init__(self, port: int):
        super().__init__(("127.0.0.1", 0), Handler)
        self.port = port
        self.origin = f"http://127.0.0.1:{self.server_address[1]}"
        self.url = f"{self.origin}{PREFIX}/"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    def forward(self):
        if not self.path.startswith(f"{PREFIX}/"):
            self.send_error(404)
            return
        page = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=180, source_address=(ADDRESS, 0))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        page.request(self.command, self.path.removeprefix(PREFIX), body, headers | {"X-Ingress-Path": PREFIX})
        answer = page.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            while part := answer.read1():
                self.wfile.write(part)
        except ConnectionError:  # the browser left
            pass
        finally:
            page.close()

    do_GET = do_POST = forward  # noqa: N815  (the names that the server calls)

    def log_message(self, *_):
        pass
