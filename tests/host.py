"""An application of this loop behind real sockets, served as it is in production."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp


@asynccontextmanager
async def hosted(app: ASGIApp, *, certificate: Path | None = None) -> AsyncIterator[str]:
    """Yield where this application answers, WebSockets included; over TLS where there is a certificate."""
    config = uvicorn.Config(
        app,
        port=0,
        lifespan="off",
        log_config=None,
        ws="websockets-sansio",
        ws_ping_interval=None,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=1,
        ssl_certfile=certificate,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(), name="uvicorn")
    try:
        while not server.started:
            await asyncio.sleep(0.1)
        (listener,) = server.servers[0].sockets
        yield f"http{'s' if certificate else ''}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
