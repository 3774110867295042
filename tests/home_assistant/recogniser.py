"""Stands in for a recogniser of speech, without which Home Assistant runs no pipeline: it understands nothing.

``python -m tests.home_assistant.recogniser tcp://127.0.0.1:PORT``
"""

import asyncio
import sys

from wyoming.asr import Transcript
from wyoming.audio import AudioStop
from wyoming.event import Event
from wyoming.info import AsrModel, AsrProgram, Attribution, Describe, Info
from wyoming.server import AsyncEventHandler, AsyncServer


class Recogniser(AsyncEventHandler):
    """One connection."""

    async def handle_event(self, event: Event) -> bool:
        """Answer; there may always be more."""
        if Describe.is_type(event.type):
            about = {"attribution": Attribution("", ""), "installed": True, "description": "", "version": "1"}
            model = AsrModel(name="none", languages=["en"], **about)
            await self.write_event(Info(asr=[AsrProgram(name="recogniser", models=[model], **about)]).event())
        elif AudioStop.is_type(event.type):
            await self.write_event(Transcript("").event())
        return True


if __name__ == "__main__":
    asyncio.run(AsyncServer.from_uri(sys.argv[1]).run(Recogniser))
