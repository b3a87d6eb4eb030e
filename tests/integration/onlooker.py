"""A client as a process of its own, which a test stops: it follows a run, and says each change and each event as JSON.

`python -m tests.integration.onlooker URL RUN PROFILE`, where the profile is `brisk` or one of the client's own.
"""

import asyncio
import json
import sys
from typing import Any

from outlast import ReceivedEvent, connect
from outlast.client.client import Client
from outlast.supervision.profile import PROFILES
from tests.integration.busy import BRISK


def say(**said: Any) -> None:
    """Say one thing."""
    sys.stdout.write(f"{json.dumps(said)}\n")
    sys.stdout.flush()


async def show(client: Client) -> None:
    """Say whenever the link is another."""
    async for record in client.state:
        say(phase=record.link.phase, generation=record.link.generation)


async def main(url: str, run: str, profile: str) -> None:
    """Follow the run to its end."""
    async with connect(url, profile={**PROFILES, BRISK.name: BRISK}[profile]) as client:
        showing = asyncio.create_task(show(client))
        async for received in client.follow(run):
            assert isinstance(received, ReceivedEvent), "nothing is trimmed here"
            say(cursor=str(received.cursor))
    await showing


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
