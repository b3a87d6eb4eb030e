"""Where a server is and who asks, from options and variables."""

import pytest

from outlast.cli.options import headers
from outlast.cli.program import run
from tests.peer import Peer, served


def test_a_token_is_sent_as_a_bearer_and_nothing_without_one() -> None:
    assert headers("secret") == {"authorization": "Bearer secret"}
    assert headers(None) == {}


def test_variables_name_the_server_and_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(Peer((200, {"answer": "settled"}))) as peer:
        monkeypatch.setenv("OUTLAST_URL", peer.url)
        monkeypatch.setenv("OUTLAST_TOKEN", "secret")
        assert run(["stop", "r1"]) == 0
        assert run(["stop", "r1", "--token", "other"]) == 0
    assert [asked["authorization"] for asked in peer.headers] == ["Bearer secret", "Bearer other"]
