"""A network stream in the place of a microphone, such as a camera's sound: `ffmpeg` reads and decodes it.

The address may hold a password, so it stands in no argument, which every user of the machine could read: ffmpeg's
concat demuxer takes it from standard input, as a list of one file. Protocols are those of the address alone, so that
what a server sends can make ffmpeg read neither files nor other protocols.
"""

import shutil
import threading
from urllib.parse import SplitResult, unquote, urlsplit

from edge_client.capture.pcm_process import PcmProcess, PcmStream
from edge_client.config.sections import MicrophoneConfig
from edge_client.errors import AudioError

# By the scheme of an address: what ffmpeg may open, and options of the stream.
_PROTOCOLS = {
    "rtsp": "pipe,rtsp,rtp,tcp",
    "rtsps": "pipe,rtsp,rtsps,rtp,tcp,tls",
    "http": "pipe,http,tcp",
    "https": "pipe,https,http,tcp,tls",
}
_INTERLEAVED = {"rtsp_transport": "tcp"}  # through firewalls, and without lost packets
# Microseconds and bytes of a stream that are looked at before it is decoded, of the list and of its file.
_LOOK = {"analyzeduration": "1000000", "probesize": "65536"}
_OPTIONS = _LOOK | {"timeout": "10000000"}  # microseconds without an answer
_COMMAND = f"""ffmpeg -nostdin -hide_banner -nostats -loglevel error
    {" ".join(f"-{key} {value}" for key, value in _LOOK.items())} -f concat -safe 0 -protocol_whitelist"""
_OUTPUT = "-i pipe:0 -map 0:a:0 -vn -sn -dn -ac 1 -f s16le"


def open_stream(config: MicrophoneConfig, model_hz: int, cancelled: threading.Event) -> PcmStream:  # noqa: ARG001
    """Begin to receive the configured stream, at the model's rate unless one is set. Raises AudioError."""
    if shutil.which("ffmpeg") is None:
        raise AudioError("[microphone] url needs ffmpeg, which is not installed: sudo apt install ffmpeg")
    parts = urlsplit(config.url)
    rate_hz = config.rate_hz or model_hz
    command = [*_COMMAND.split(), _PROTOCOLS[parts.scheme], *_OUTPUT.split(), "-ar", str(rate_hz), "pipe:1"]
    process = PcmProcess("ffmpeg", command, _playlist(config.url, parts), _secrets(config.url, parts))
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"  # without the path: those of cameras hold tokens too
    return PcmStream(process, shown, rate_hz, channels=1)


def _playlist(url: str, parts: SplitResult) -> bytes:
    quoted = url.replace("'", r"'\''")
    options = _OPTIONS | (_INTERLEAVED if parts.scheme.startswith("rtsp") else {})
    lines = ["ffconcat version 1.0", f"file '{quoted}'", *(f"option {key} {value}" for key, value in options.items())]
    return "\n".join(lines).encode() + b"\n"


def _secrets(url: str, parts: SplitResult) -> list[str]:
    """Return what must not be shown of what ffmpeg says, the longest first."""
    user = parts.netloc.rpartition("@")[0]
    rest = url.partition(parts.netloc)[2]
    names = {url, user, unquote(user), parts.password or "", unquote(parts.password or ""), rest}
    return sorted((name for name in names if len(name) > 1), key=len, reverse=True)
