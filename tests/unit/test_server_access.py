from collections.abc import Mapping
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from outlast.errors import HookFailed, PeerRefused, Unauthenticated
from outlast.facts import Fact, HookTroubled
from outlast.server.access import EXPIRY_GRACE, Access
from outlast.server.identity import ANONYMOUS, Action, Identity

pytestmark = pytest.mark.anyio

LOOPBACK = ("127.0.0.1", 50000)


def request(
    headers: Mapping[str, str] | None = None, *, method: str = "GET", client: tuple[str, int] | None = LOOPBACK
) -> HTTPConnection:
    said = {"host": "localhost:8400", **(headers or {})}
    raw = [(name.encode(), value.encode("latin-1")) for name, value in said.items()]
    return HTTPConnection({"type": "http", "method": method, "headers": raw, "client": client, "path": "/runs"})


def access_by(facts: list[Fact] | None = None, **options: Any) -> Access:
    return Access(report=[].append if facts is None else facts.append, **options)


async def by_header(connection: HTTPConnection) -> str | None:
    return connection.headers.get("x-user")


# ---- with nobody asking who they are ------------------------------------------------------------


async def test_a_program_on_this_machine_is_answered() -> None:
    assert (await access_by().identify(request())).owner == ANONYMOUS


@pytest.mark.attack("Z16")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
async def test_every_loopback_address_is_this_machine(host: str) -> None:
    assert (await access_by().identify(request(client=(host, 1)))).owner == ANONYMOUS


@pytest.mark.attack("Z16")
@pytest.mark.parametrize(
    "client",
    [("10.0.0.7", 1), ("192.168.1.2", 1), ("0.0.0.0", 1), ("::ffff:10.0.0.7", 1), ("localhost", 1), ("", 0), None],
)
async def test_what_is_not_provably_this_machine_is_refused(client: tuple[str, int] | None) -> None:
    with pytest.raises(PeerRefused, match=r"`authenticate=…` .* `allow_anonymous=True`"):
        await access_by().identify(request(client=client))


@pytest.mark.attack("Z16")
@pytest.mark.parametrize("name", ["forwarded", "x-forwarded-for", "x-forwarded-host", "X-Forwarded-Proto", "x-real-ip"])
async def test_what_came_by_a_proxy_is_refused(name: str) -> None:
    with pytest.raises(PeerRefused, match="proxy"):
        await access_by().identify(request({name: "127.0.0.1"}))


@pytest.mark.attack("Z7")
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8400", "[::1]:8400", "[::1]"])
async def test_its_own_names_are_answered_at_any_port(host: str) -> None:
    assert (await access_by().identify(request({"host": host}))).owner == ANONYMOUS


@pytest.mark.attack("Z7")
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8400",
        "localhost.evil.example",
        "localhost:8400.evil.example",
        "evil.example@localhost",
        "localhost,evil.example",
        "127.0.0.1.nip.io:80",
        "localhost:²",
        "",
    ],
)
async def test_a_name_that_a_foreign_page_can_have_is_refused(host: str) -> None:
    with pytest.raises(PeerRefused, match="hosts="):
        await access_by().identify(request({"host": host}))


@pytest.mark.attack("Z7")
async def test_a_request_without_a_host_or_with_two_is_refused() -> None:
    scope: dict[str, Any] = {"type": "http", "method": "GET", "client": LOOPBACK, "path": "/"}
    for headers in ([], [(b"host", b"localhost"), (b"host", b"evil.example")]):
        with pytest.raises(PeerRefused):
            await access_by().identify(HTTPConnection({**scope, "headers": headers}))


async def test_further_names_are_those_that_were_given() -> None:
    access = access_by(hosts=["Desk.Local"])
    assert (await access.identify(request({"host": "desk.local:8400"}))).owner == ANONYMOUS
    with pytest.raises(PeerRefused):
        await access.identify(request({"host": "other.local"}))


async def test_a_refusal_repeats_nothing_of_the_request() -> None:
    with pytest.raises(PeerRefused) as refused:
        await access_by().identify(request({"host": "marker.example"}))
    assert "marker" not in str(refused.value)


@pytest.mark.attack("Z16")
async def test_who_means_to_answer_everybody_does() -> None:
    open_to_all = access_by(allow_anonymous=True)
    far = request({"host": "example.com", "x-forwarded-for": "10.0.0.7"}, client=("10.0.0.7", 1))
    assert (await open_to_all.identify(far)).owner == ANONYMOUS


# ---- with authenticate --------------------------------------------------------------------------


async def test_the_owner_is_whom_authenticate_names() -> None:
    far = request({"host": "example.com", "x-forwarded-for": "10.0.0.7", "x-user": "ann"}, client=("10.0.0.7", 1))
    assert (await access_by(authenticate=by_header).identify(far)).owner == "ann"


@pytest.mark.parametrize("headers", [{}, {"x-user": ""}])
async def test_nobody_is_refused_and_never_becomes_anonymous(headers: dict[str, str]) -> None:
    with pytest.raises(Unauthenticated):
        await access_by(authenticate=by_header).identify(request(headers))
    with pytest.raises(Unauthenticated):
        await access_by(authenticate=by_header, allow_anonymous=True).identify(request(headers))


@pytest.mark.attack("Z13")
@pytest.mark.parametrize(("ended_for", "good"), [(-1.0, True), (EXPIRY_GRACE - 1, True), (EXPIRY_GRACE + 1, False)])
async def test_an_identity_that_has_ended_is_nobody_once_the_grace_is_over(*, ended_for: float, good: bool) -> None:
    async def authenticate(_connection: HTTPConnection) -> Identity:
        return Identity(owner="ann", expires_at=1_800_000_000.0 - ended_for)

    access = access_by(authenticate=authenticate, clock=lambda: 1_800_000_000.0)
    if good:
        assert (await access.identify(request())).owner == "ann"
    else:
        with pytest.raises(Unauthenticated):
            await access.identify(request())


@pytest.mark.attack("Z3")
async def test_an_authenticate_that_fails_lets_nobody_in_and_its_words_go_nowhere() -> None:
    facts: list[Fact] = []

    async def authenticate(_connection: HTTPConnection) -> str:
        raise KeyError("marker")

    with pytest.raises(HookFailed) as failed:
        await access_by(facts, authenticate=authenticate).identify(request())
    assert "marker" not in str(failed.value)
    assert facts == [HookTroubled(hook="authenticate", error="KeyError")]


async def test_without_authorize_ones_own_runs_are_allowed_and_no_others() -> None:
    access, ann = access_by(authenticate=by_header), Identity(owner="ann")
    for action in Action:
        assert await access.allows(ann, action, owner="ann", run=None)
        assert not await access.allows(ann, action, owner="bob", run=None)


# ---- pages of other origins ---------------------------------------------------------------------


@pytest.mark.attack("Z7")
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://localhost:3000", "null", "http://localhost", "http://[", "localhost:8400"]
)
@pytest.mark.parametrize(
    "access",
    [access_by(), access_by(authenticate=by_header), access_by(allow_anonymous=True)],
    ids=["local", "asked", "open"],
)
async def test_a_page_of_another_origin_may_change_nothing(access: Access, origin: str) -> None:
    foreign = {"origin": origin, "x-user": "ann"}
    for method in ("POST", "DELETE"):
        with pytest.raises(PeerRefused, match="origin"):
            await access.identify(request(foreign, method=method))
    await access.identify(request(foreign))  # it cannot read the answer


@pytest.mark.parametrize("headers", [{}, {"origin": "http://localhost:8400"}, {"origin": "HTTP://LOCALHOST:8400"}])
async def test_programs_and_our_own_page_may(headers: dict[str, str]) -> None:
    assert (await access_by().identify(request(headers, method="POST"))).owner == ANONYMOUS
