"""Ours before a crowd, mounted in a FastAPI application as users do it."""

import asyncio
import sys

from fastapi import FastAPI

from bench.relay import relayed
from bench.stage import server


async def main(*arguments: str) -> None:
    """Serve until killed."""
    async with relayed(*arguments) as inner:
        application = FastAPI()
        application.mount("/", inner)
        await server(application).serve()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
