"""An exchange is a request of HTTP by whoever made the handshake, and of its own says only what it wants."""

from typing import Any

import pytest
from starlette.requests import Request

from outlast.server.session.handshake import Handshake
from outlast.wire.session import Ask
from tests.session import scope_of

WHO = [
    (b"authorization", b"Bearer of-ann"),
    (b"cookie", b"who=ann"),
    (b"origin", b"http://localhost:8400"),
    (b"x-forwarded-for", b"10.0.0.7"),
    (b"X-Own", b"kept"),
]
SOCKET = [
    (b"connection", b"Upgrade"),
    (b"upgrade", b"websocket"),
    (b"sec-websocket-key", b"x"),
    (b"Sec-WebSocket-Protocol", b"outlast.v1"),
    (b"content-length", b"0"),
]
WANTED = [(b"accept", b"*/*"), (b"last-event-id", b"5"), (b"content-type", b"text/plain")]


def request(ask: Ask, **handshake: Any) -> Request:
    return Request(Handshake(scope_of(headers=WHO + SOCKET + WANTED, **handshake)).request(ask))


def test_who_asks_is_what_the_handshake_said_and_what_is_wanted_is_what_the_frame_says() -> None:
    asked = request(Ask(exchange=1, method="GET", path="/runs", headers={"accept": "text/event-stream"}))
    assert asked.headers.raw == [(b"host", b"localhost:8400"), *WHO, (b"accept", b"text/event-stream")]
    assert asked.client is not None
    assert asked.client.host == "127.0.0.1"
    assert asked.scope["type"] == "http"
    assert not {"subprotocols", "extensions"} & asked.scope.keys()


@pytest.mark.parametrize("root", ["", "/agents", "/ägents"])
def test_a_path_lies_below_the_place_of_the_routes(root: str) -> None:
    asked = request(Ask(exchange=1, method="GET", path="/runs/a%20b/events?after=5&types=a%2Cb"), root_path=root)
    assert asked.scope["path"] == f"{root}/runs/a b/events"
    assert asked.scope["root_path"] == root
    assert asked.scope["raw_path"].endswith(b"/runs/a%20b/events")
    assert asked.scope["raw_path"].isascii()
    assert dict(asked.query_params) == {"after": "5", "types": "a,b"}
    assert asked.url.path.endswith("/events")


@pytest.mark.parametrize(("said", "meant"), [("ws", "http"), ("wss", "https")])
def test_a_secure_handshake_makes_secure_requests(said: str, meant: str) -> None:
    assert request(Ask(exchange=1, method="GET", path="/"), scheme=said).url.scheme == meant


def test_each_request_has_a_state_of_its_own_and_what_middlewares_found_out_stays() -> None:
    handshake = Handshake(scope_of(state={"pool": 1}, user="ann"))
    one, two = (handshake.request(Ask(exchange=number, method="GET", path="/")) for number in (1, 2))
    one["state"]["seen"] = True
    assert two["state"] == {"pool": 1}
    assert two["user"] == "ann"
    bare = scope_of()
    del bare["state"]
    assert "state" not in Handshake(bare).request(Ask(exchange=1, method="GET", path="/"))
