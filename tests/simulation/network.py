"""The network of a simulated world: it carries what clients ask to the nodes, and what those answer back, or does not.

Rules:
1. Bytes of one answer come in order, or not at all: nothing is altered, nothing behind a lost byte comes.
2. A connection that lost something in a black hole stays half open for ever: neither side is told anything.
3. What is drawn holds for one connection; the weather, which the world makes, for a client or for an address.
4. Whoever leaves is told to the other side, as late as bytes would be, and through a black hole never.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final

import httpx2
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.client.asgi import StreamingTransport
from outlast.testing.cluster import Member
from outlast.testing.line import Bell
from outlast.testing.network import BlackHole, Chop, Cut, Fault, Latency, Refuse, Stall, Way, under
from outlast.testing.process import Process

CHANCES: Final = {
    "cut": 0.15,
    "clean end": 0.15,
    "half open": 0.10,
    "in pieces": 0.15,
    "latency": 0.12,
    "asked twice": 0.10,
}
"""How often a connection is born with each fault."""
FARTHEST: Final = (200, 800, 3000)
"""Bytes of an answer after which it is cut at the latest."""
SETTLED: Final = 1e-6
"""Virtual seconds after which nothing is left to be done of what happened at one moment."""


class Network:
    """Nodes by their addresses, the weather by the names of clients and addresses, and what is under way.

    `heard` is when something last came to each client, `asked` what each asked for and when.
    """

    def __init__(self, dice: random.Random, *, note: Callable[[str], None]) -> None:
        self.nodes: dict[str, Member] = {}
        self.weather: dict[str, Fault | Refuse] = {}
        self.calm = False
        self.heard: dict[str, float] = {}
        self.asked: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
        self.pools: dict[Pool, str] = {}
        self.open: dict[Connection, None] = {}
        self.dice = dice
        self.note = note

    def pool(self) -> "Pool":
        """Return the connections of one link of the client whose process asks."""
        process = Process.current()
        assert process is not None, "only clients connect"
        return Pool(self, process.name)

    def change(self, name: str, fault: Fault | Refuse | None) -> None:
        """Make the weather of a client or an address, or lift it."""
        if fault is None:
            self.weather.pop(name, None)
        else:
            self.weather[name] = fault
        for connection in self.open:
            connection.bell.ring()

    def forget(self, client: str) -> None:
        """Let go of the connections of a client that is dead, as its machine does."""
        for pool in [pool for pool, name in self.pools.items() if name == client]:
            del self.pools[pool]

    def be_calm(self) -> None:
        """Lift everything; half open connections are found out on both sides."""
        self.calm = True
        self.weather.clear()
        for connection in self.open:
            connection.bell.ring()

    def draw(self) -> list[str]:
        """Return the faults that a connection is born with."""
        return [] if self.calm else [kind for kind, chance in CHANCES.items() if self.dice.random() < chance]


class Pool(httpx2.AsyncClient):
    """The connections of one link."""

    def __init__(self, network: Network, client: str) -> None:
        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            await Connection(network, client, scope).carry(receive, send)

        super().__init__(transport=StreamingTransport(application))
        self._network = network
        network.pools[self] = client

    async def aclose(self) -> None:
        self._network.pools.pop(self, None)
        await super().aclose()

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        at: TracebackType | None = None,
    ) -> None:
        self._network.pools.pop(self, None)
        await super().__aexit__(kind, error, at)


class Connection:
    """One request on its way to a node, and its answer on the way back."""

    def __init__(self, network: Network, client: str, scope: Scope) -> None:
        self.bell = Bell()
        self._network = network
        self._client = client
        self._scope = scope
        self._address = scope["server"][0]
        self._drawn = network.draw()
        self._cut = network.dice.randint(0, network.dice.choice(FARTHEST))
        self._faults: list[Fault] = []
        if "in pieces" in self._drawn:
            self._faults.append(Chop(network.dice.choice([1, 7, 100]), Way.DOWN))
        if "latency" in self._drawn:
            self._faults.append(Latency(network.dice.uniform(0.01, 1.5)))
        for kind in ("in pieces", "latency", "asked twice"):
            if kind in self._drawn:
                network.note(kind)
        self._said: Message | None = None
        self._came = 0
        self._hollow = Way(0)
        self._left = False

    async def carry(self, receive: Receive, send: Send) -> None:
        """Bring a request there and the answer back. Raises what a socket would."""
        network = self._network
        body = await _whole(receive)
        if body is None:
            return
        network.asked[self._client].append((asyncio.get_running_loop().time(), self._scope["path"]))
        if any(isinstance(each, Refuse) for each in self._weather()):
            raise httpx2.ConnectError("refused")
        network.open[self] = None
        listening = asyncio.create_task(self._listen(receive), name="a client's connection")
        try:
            if await self._travels(Way.UP):
                await self._ask(body, send)
        finally:
            self._left = True
            self.bell.ring()
            del network.open[self]
            listening.cancel()

    async def _ask(self, body: bytes, send: Send) -> None:
        node = self._network.nodes.get(self._address)
        if node is None or not node.process.alive:
            raise httpx2.ConnectError("nobody listens")
        serving = node.process.start(_quietly(node.app, self._scope, self._receiver(body), self._say))
        serving.add_done_callback(lambda _: self.bell.ring())
        if "asked twice" in self._drawn:
            node.process.start(_quietly(node.app, self._scope, self._receiver(body), _swallow))
        while not self._left:
            await self.bell.until(lambda: self._said is not None or serving.done() or self._left)
            message, self._said = self._said, None
            self.bell.ring()
            if not await self._travels(Way.DOWN):
                return
            if message is None:
                await self._fail("the node broke off")
            elif not await self._bring(message, send):
                return

    async def _bring(self, message: Message, send: Send) -> bool:
        """Bring a part of an answer to the client; False when there is nothing more to bring."""
        if message["type"] == "http.response.start":
            self._is_stream = not any(name == b"content-length" for name, _ in message["headers"])
            await send(message)
            return True
        for piece in self._pieces(message.get("body", b"")):
            kind = next((kind for kind in ("cut", "clean end", "half open") if kind in self._drawn), None)
            if kind is not None and self._came + len(piece) > self._cut:
                return await self._break(kind, piece[: self._cut - self._came], send)
            self._came += len(piece)
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            self._network.heard[self._client] = asyncio.get_running_loop().time()
        if message.get("more_body"):
            return True
        await send({"type": "http.response.body", "body": b""})
        return False

    async def _break(self, kind: str, rest: bytes, send: Send) -> bool:
        """Break an answer off after its last bytes."""
        if kind == "clean end" and not self._is_stream:
            kind = "cut"  # a length that is not kept is no clean end
        self._network.note(kind)
        await send({"type": "http.response.body", "body": rest, "more_body": True})
        if kind == "cut":
            await self._fail("reset")
        if kind == "half open":
            self._hollow = Way.BOTH
            return await self._travels(Way.DOWN)
        await send({"type": "http.response.body", "body": b""})
        return False

    # ---- on the way -------------------------------------------------------------------------

    def _weather(self) -> Iterator[Fault | Refuse]:
        for name in (self._client, self._address):
            if (fault := self._network.weather.get(name)) is not None:
                yield fault

    def _under(self, kind: Any, way: Way) -> Any:
        faults = [*self._faults, *(each for each in self._weather() if not isinstance(each, Refuse | Cut))]
        return under(faults, kind, way)

    async def _travels(self, way: Way) -> bool:
        """Take as long as bytes take; False for those that never arrive, once the client has left."""
        if (latency := self._under(Latency, way)) is not None:
            await asyncio.sleep(latency.seconds)
        await self.bell.until(lambda: self._under(Stall, way) is None or self._left)
        if self._under(BlackHole, way) is not None:
            self._hollow |= way
        if way in self._hollow:
            await self.bell.until(lambda: self._left or self._network.calm)
            await self._fail("found out")
        return not self._left

    async def _fail(self, fact: str) -> None:
        """Tell the client that its connection is broken, unless it leaves in the same moment."""
        await asyncio.sleep(SETTLED)
        if not self._left:
            raise httpx2.ReadError(fact)

    def _pieces(self, said: bytes) -> Iterator[bytes]:
        chop = self._under(Chop, Way.DOWN)
        size = len(said) if chop is None else max(chop.size, len(said) // 20 + 1)
        return (said[start : start + size] for start in range(0, len(said), size or 1))

    async def _listen(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._left = True
        self.bell.ring()

    # ---- the node's side --------------------------------------------------------------------

    def _receiver(self, body: bytes) -> Receive:
        parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if parts:
                return parts.pop()
            await self.bell.until(lambda: self._left)
            while Way.UP in self._hollow and not self._network.calm:
                await asyncio.sleep(1.0)  # it is not told that the client has left
            return {"type": "http.disconnect"}

        return receive

    async def _say(self, message: Message) -> None:
        await self.bell.until(lambda: self._said is None or self._left)
        if not self._left:
            self._said = message
            self.bell.ring()
            await self.bell.until(lambda: self._said is not message or self._left)


async def _quietly(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer; what fails there is a connection that ends."""
    try:
        await app(scope, receive, send)
    except Exception:  # noqa: BLE001 - a store that fails in the middle of an answer, among others
        return


async def _swallow(_message: Message) -> None:
    """Bring nothing to nobody."""


async def _whole(receive: Receive) -> bytes | None:
    """Return the body of a request; None where its client leaves before its end."""
    body = b""
    while (message := await receive())["type"] != "http.disconnect":
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body
    return None


def storms(asked: list[tuple[float, str]], seconds: float) -> int:
    """Return how many attempts to connect fell into the fullest span of so many seconds."""
    moments = [moment for moment, path in asked if path.endswith("/session")]
    return max((sum(first <= each < first + seconds for each in moments) for first in moments), default=0)
