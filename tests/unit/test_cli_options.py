"""Where a server is and who asks, from options and variables."""

import pytest

from outlast.cli.options import headers
from outlast.cli.program import run
from tests.peer import Peer, served


def test_a_token_is_sent_as_a_bearer_and_nothing_without_one() -> None:
    assert headers("secret") == {"authorization": "Bearer secret"}
    assert headers(None) == {}


@pytest.mark.parametrize("command", ["show", "tail", "stop", "erase", "audit"])
@pytest.mark.parametrize("id", ["", "..", "a b", "a/b", "x" * 129])
def test_an_id_that_no_run_can_have_is_refused_with_what_to_do(
    command: str, id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(Peer((404, {"code": "run_not_found", "detail": "There is no such run."}))) as peer:
        assert run([command, id, "--url", peer.url]) == 2
    assert "`outlast runs` lists yours" in capsys.readouterr().err
    assert not peer.asked


def test_variables_name_the_server_and_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(Peer((200, {"answer": "settled"}))) as peer:
        monkeypatch.setenv("OUTLAST_URL", peer.url)
        monkeypatch.setenv("OUTLAST_TOKEN", "secret")
        assert run(["stop", "r1"]) == 0
        assert run(["stop", "r1", "--token", "other"]) == 0
    assert [asked["authorization"] for asked in peer.headers] == ["Bearer secret", "Bearer other"]
