"""A camera's sound on the local network: a tone by HTTP, as an endless WAV file, or by RTSP, as L16 over TCP."""

import base64
import contextlib
import shutil
import socketserver
import struct
import threading
import time

import numpy as np
import pytest

needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
RATE_HZ, TONE_HZ, PASSWORD = 16_000, 1000, "pa'ss%20word"  # as it stands in an address
_BLOCK = 320
_ALLOWED = "Basic " + base64.b64encode(b"owner:pa'ss word").decode()
_WAVE = b"RIFF\xff\xff\xff\xffWAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, RATE_HZ, 2 * RATE_HZ, 2, 16)
_SDP = f"v=0\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 0 RTP/AVP 97\r\na=rtpmap:97 L16/{RATE_HZ}/1\r\n"


class StreamServer(socketserver.ThreadingTCPServer):
    """``other``: answers an HTTP request by a body of its own instead of the tone."""

    daemon_threads = allow_reuse_address = True

    def __init__(self, port=0, other=None):
        super().__init__(("127.0.0.1", port), _Connection)
        self.port, self.other, self.ends = self.server_address[1], other, threading.Event()
        self.refused = 0
        threading.Thread(target=self.serve_forever, args=[0.05], daemon=True).start()

    def url(self, scheme, user=f"owner:{PASSWORD}@"):
        return f"{scheme}://{user}127.0.0.1:{self.port}/token-of-the-camera/1"

    def close(self):
        """End every stream and take no more, as a camera that is switched off."""
        self.ends.set()
        self.shutdown()
        self.server_close()


class _Connection(socketserver.StreamRequestHandler):
    def handle(self):
        with contextlib.suppress(OSError):
            while (request := self._request()) is not None:
                self._answer(*request)

    def _request(self):
        line = self.rfile.readline().decode().split()
        if not line:
            return None
        fields = {}
        while (field := self.rfile.readline().decode().strip()) != "":
            name, _, value = field.partition(":")
            fields[name.lower()] = value.strip()
        return line[0], line[-1], fields

    def _answer(self, method, version, fields):
        if method != "OPTIONS" and fields.get("authorization") != _ALLOWED:
            self.server.refused += 1
            self._say(version, "401 Unauthorized", fields, 'WWW-Authenticate: Basic realm="camera"')
        elif method == "GET":
            self._say(version, "200 OK", fields, "Connection: close", length=None)
            self.wfile.write(self.server.other or _WAVE + b"data\xff\xff\xff\xff")
            if self.server.other is None:
                self._play(lambda block, _: block.astype("<i2").tobytes())
            raise ConnectionAbortedError
        elif method == "DESCRIBE":
            self._say(version, "200 OK", fields, "Content-Type: application/sdp", body=_SDP)
        elif method == "SETUP":
            self._say(version, "200 OK", fields, "Session: 1", "Transport: RTP/AVP/TCP;unicast;interleaved=0-1")
        elif method == "PLAY":
            self._say(version, "200 OK", fields, "Session: 1")
            self._play(_rtp)
        else:
            self._say(version, "200 OK", fields, "Session: 1", "Public: DESCRIBE, SETUP, PLAY, TEARDOWN")

    def _say(self, version, status, fields, *lines, body="", length=True):
        lines = [f"{version} {status}", *([f"CSeq: {fields['cseq']}"] if "cseq" in fields else []), *lines]
        lines += [f"Content-Length: {len(body)}"] if length else []
        self.wfile.write("\r\n".join([*lines, "", body]).encode())

    def _play(self, packed):
        """Send the tone at the pace of real time."""
        begin, number = time.monotonic(), 0
        while not self.server.ends.is_set():
            at = number * _BLOCK + np.arange(_BLOCK)
            tone = np.rint(8_000 * np.sin(2 * np.pi * TONE_HZ / RATE_HZ * at)).astype(np.int16)
            self.wfile.write(packed(tone, number))
            number += 1
            time.sleep(max(0.0, begin + number * _BLOCK / RATE_HZ - time.monotonic()))
        raise ConnectionAbortedError


def _rtp(block, number):
    packet = struct.pack(">BBHII", 0x80, 97, number & 0xFFFF, number * _BLOCK, 1) + block.astype(">i2").tobytes()
    return struct.pack(">cBH", b"$", 0, len(packet)) + packet
