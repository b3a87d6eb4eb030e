"""Talks to an ASGI app in the same loop as over a wire: bodies stream, slow readers are felt, clients can leave.

The rules of this wire:

1. It holds one chunk in each direction. The app's `send` returns when the client has taken the chunk; the next chunk
   of a request is asked for when the app has taken the one before. Empty chunks do not travel.
2. A client that leaves early (closes the response, is cancelled, times out) is told to the app as `http.disconnect`.
   The app then has `grace` seconds of the loop's time before it is cancelled; what it still sends is swallowed, as
   uvicorn does.
3. An app that fails before its response started fails the request with its own exception; later, it breaks the
   response off. Where no client is left to tell, the loop's exception handler is told; Starlette's ClientDisconnect
   is no failure there.
4. The app runs in an empty context: context variables cross this wire as little as any other.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextvars import Context
from typing import Any, Final, TypeAlias

import httpx2
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Scope

GRACE: Final = 5.0
"""Seconds an app may go on after its client left: time to close what it holds, not to work on unseen."""

SWALLOWED: Final = 1000
"""Messages to a client that left that are swallowed at once. An app that does nothing but send would otherwise never
let the loop's time come to the end of its grace."""

ASGI: Final = {"version": "3.0", "spec_version": "2.3"}  # uvicorn's: `send` does not raise when the client has gone
_PORTS: Final = {"http": 80, "https": 443}

_Head: TypeAlias = tuple[int, Iterable[tuple[bytes, bytes]]]


class StreamingTransport(httpx2.AsyncBaseTransport):
    """Carry the requests of an httpx2.AsyncClient to `app`, in the running loop, streaming both ways.

    `state` is what the app's lifespan left for its requests; `grace` is in seconds. The read timeout of a request is
    kept, on the loop's time; the other timeouts have nothing to wait for. Closing the transport ends the requests that
    are still open.
    Raises what the app raises before its response starts, httpx2.RemoteProtocolError where it breaks a response
    off, httpx2.ReadTimeout. Source: the ASGI HTTP protocol, version 2.3.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        client: tuple[str, int] = ("127.0.0.1", 50000),
        root_path: str = "",
        state: Mapping[str, Any] | None = None,
        grace: float = GRACE,
    ) -> None:
        self._app = app
        self._client = client
        self._root_path = root_path
        self._state = state or {}
        self._grace = grace
        self._exchanges: list[_Exchange] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = _Exchange(self._app, self._scope(request), request, grace=self._grace)
        self._exchanges.append(exchange)
        exchange.serving.add_done_callback(lambda _: self._exchanges.remove(exchange))
        try:
            status, headers = await exchange.answer()
        except BaseException:  # whatever ends the request here, cancellation too, is a client that leaves
            await exchange.aclose()
            raise
        return httpx2.Response(status, headers=list(headers), stream=_Body(exchange))

    async def aclose(self) -> None:
        for exchange in list(self._exchanges):
            await exchange.end()

    def _scope(self, request: httpx2.Request) -> Scope:
        url = request.url
        return {
            "type": "http",
            "asgi": dict(ASGI),
            "http_version": "1.1",
            "method": request.method,
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.partition(b"?")[0],
            "query_string": url.query,
            "root_path": self._root_path,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": self._client,
            "server": (url.host, url.port or _PORTS.get(url.scheme)),
            "state": dict(self._state),
        }


class _Body(httpx2.AsyncByteStream):
    """What the client reads of a response."""

    def __init__(self, exchange: "_Exchange") -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (chunk := await self._exchange.take()) is not None:
            yield chunk

    async def aclose(self) -> None:
        await self._exchange.aclose()


class _Exchange:
    """One request and its response: what either side has said, and who waits for it.

    The client calls `answer`, `take` and `aclose`, the app `_receive` and `_send`; a task of its own reads the body
    of the request. A wait here ends with its peer: the client's by its timeout, the app's when the client leaves.
    """

    def __init__(self, app: ASGIApp, scope: Scope, request: httpx2.Request, *, grace: float) -> None:
        self._request = request
        self._grace = grace
        self._change = asyncio.Event()
        self._upload: Message | None = None  # a part of the request that the app has not taken yet
        self._head: _Head | None = None
        self._chunk: bytes | None = None  # a part of the response that the client has not taken yet
        self._complete = False  # the app has said its last
        self._left = False  # the client went before that
        self._swallowed = 0  # what the app said after that
        self._deadline: asyncio.TimerHandle | None = None
        self._fault: BaseException | None = None  # the client's own: its body failed
        self._failure: BaseException | None = None  # the app's, until someone is told
        name = f"asgi {request.method} {request.url.path}"
        self._uploading = asyncio.create_task(self._read(), name=f"{name} upload")
        self._uploading.add_done_callback(self._uploaded)
        self.serving = asyncio.create_task(self._serve(app, scope), name=name, context=Context())
        self.serving.add_done_callback(self._served)

    # ---- the client's side -------------------------------------------------------------------------------------------

    async def answer(self) -> _Head:
        """Wait for the status and the headers."""
        await self._client_until(lambda: self._head is not None)
        if self._head is None:
            raise self._broken("the app ended without a response")
        return self._head

    async def take(self) -> bytes | None:
        """Wait for the next chunk of the response; None at its end."""
        await self._client_until(lambda: self._chunk is not None or self._complete)
        chunk, self._chunk = self._chunk, None
        if chunk is None and not self._finished():
            raise self._broken("the app broke its response off")
        self._changed()
        return chunk

    async def aclose(self) -> None:
        """Leave, unless the response is finished: then the app ends in its own time."""
        if not self._finished():
            await self.end()

    async def end(self) -> None:
        """Leave and wait for the app to end, which is cancelled after the grace."""
        self._leave()
        if not self.serving.done():
            await asyncio.wait([self.serving])  # an app that is deaf to its cancellation is a hang to be seen
        self._report()

    def _leave(self) -> None:
        if not self._finished():
            self._left = True
            self._chunk = None
        if self._deadline is None and not self.serving.done():
            self._deadline = asyncio.get_running_loop().call_later(self._grace, self.serving.cancel)
        self._changed()

    async def _client_until(self, said: Callable[[], bool]) -> None:
        timeout: float | None = self._request.extensions.get("timeout", {}).get("read")
        try:
            async with asyncio.timeout(timeout):
                await self._until(lambda: said() or self.serving.done())
        except TimeoutError as late:
            raise httpx2.ReadTimeout("the app said nothing in time", request=self._request) from late

    def _broken(self, fact: str) -> BaseException:
        if self._fault is not None:
            return self._fault
        failure, self._failure = self._failure, None
        if failure is not None and self._head is None:
            return failure
        error = httpx2.RemoteProtocolError(fact, request=self._request)
        error.__cause__ = failure
        return error

    async def _read(self) -> None:
        assert isinstance(self._request.stream, httpx2.AsyncByteStream)
        chunks = aiter(self._request.stream)
        try:
            async for chunk in chunks:
                if chunk:
                    await self._put({"type": "http.request", "body": chunk, "more_body": True})
        finally:
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
        await self._put({"type": "http.request", "body": b"", "more_body": False})

    async def _put(self, upload: Message) -> None:
        self._upload = upload
        self._changed()
        await self._until(lambda: self._upload is None)

    def _uploaded(self, uploading: asyncio.Task[None]) -> None:
        if not uploading.cancelled() and uploading.exception() is not None:
            self._fault = uploading.exception()
            self._leave()

    # ---- the app's side ----------------------------------------------------------------------------------------------

    async def _serve(self, app: ASGIApp, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._send)
        finally:
            self._uploading.cancel()
            await asyncio.wait([self._uploading])

    async def _receive(self) -> Message:
        await self._until(lambda: self._upload is not None or self._left or self._finished())
        if self._upload is None or self._left or self._finished():
            return {"type": "http.disconnect"}
        upload, self._upload = self._upload, None
        self._changed()
        return upload

    async def _send(self, message: Message) -> None:
        if self._left:
            self._swallowed += 1
            await self._until(lambda: self._swallowed < SWALLOWED)  # beyond that, for the deadline
            return
        match message["type"]:
            case "http.response.start" if self._head is None:
                self._head = (message["status"], message.get("headers", []))
                self._changed()
            case "http.response.body" if self._head is not None and not self._complete:
                await self._say(message.get("body", b""), last=not message.get("more_body", False))
            case unexpected:
                raise RuntimeError(f"the message {unexpected!r} is out of place here")

    async def _say(self, chunk: bytes, *, last: bool) -> None:
        # A send that the app cancelled has left its chunk on the wire, and the client will take it from there.
        await self._until(lambda: self._chunk is None)
        if not self._left:
            self._chunk = chunk if chunk and self._request.method != "HEAD" else None
            self._complete = last
            self._changed()
        await self._until(lambda: self._chunk is None)

    def _served(self, serving: asyncio.Task[None]) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if not serving.cancelled():
            self._failure = serving.exception()
        if self._left or self._complete:
            self._report()
        self._changed()

    def _report(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None and not isinstance(failure, ClientDisconnect):
            context = {"message": "an ASGI app failed with no client to tell", "exception": failure}
            asyncio.get_running_loop().call_exception_handler(context)

    # ---- both --------------------------------------------------------------------------------------------------------

    def _finished(self) -> bool:
        return self._complete and self._chunk is None and not self._left

    def _changed(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._change.wait()
