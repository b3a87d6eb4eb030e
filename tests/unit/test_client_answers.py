"""What an answer, or the lack of one, means to a client."""

import ssl

import httpx2
import pytest

from outlast.client import answers
from outlast.client.transport import Lost
from outlast.errors import Refusal, RunNotFound, Unauthenticated
from outlast.supervision.phase import Trouble

pytestmark = pytest.mark.anyio


def of_a_certificate() -> httpx2.ConnectError:
    error = httpx2.ConnectError("as scripted")
    error.__cause__ = OSError()
    error.__cause__.__context__ = ssl.SSLCertVerificationError("self-signed")
    return error


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (httpx2.ConnectError("x"), Trouble.UNREACHABLE),
        (httpx2.ConnectTimeout("x"), Trouble.UNREACHABLE),
        (httpx2.ReadTimeout("x"), Trouble.SILENT),
        (httpx2.ReadError("x"), Trouble.BROKEN),
        (httpx2.RemoteProtocolError("x"), Trouble.BROKEN),
        (ssl.SSLError("a record that nobody encrypted"), Trouble.BROKEN),
        (of_a_certificate(), Trouble.CERTIFICATE),
    ],
)
def test_what_the_network_did_is_told_as_a_trouble(error: Exception, trouble: Trouble) -> None:
    with pytest.raises(Lost) as lost, answers.told():
        raise error
    assert lost.value.trouble is trouble


@pytest.mark.parametrize(
    ("status", "retry_after", "pause"), [(503, "7", 7.0), (500, None, 0.0), (429, "soon", 0.0), (408, "-1", 0.0)]
)
async def test_an_answer_that_asks_for_another_try_says_when(
    status: int, retry_after: str | None, pause: float
) -> None:
    headers = {} if retry_after is None else {"retry-after": retry_after}
    verdict = await answers.verdict(httpx2.Response(status, headers=headers))
    assert isinstance(verdict, Lost)
    assert (verdict.trouble, verdict.pause) == (Trouble.BUSY, pause)


async def test_a_refusal_is_typed_and_one_of_credentials_may_be_cured_by_others() -> None:
    missing = await answers.verdict(httpx2.Response(404, json={"code": "run_not_found", "detail": "None."}))
    assert isinstance(missing, RunNotFound)
    refused = await answers.verdict(httpx2.Response(401, json={"code": "unauthenticated", "detail": "Who?"}))
    assert isinstance(refused, Lost)
    assert refused.trouble is Trouble.CREDENTIALS
    assert isinstance(refused.error, Unauthenticated)
    assert isinstance(await answers.verdict(httpx2.Response(418)), Refusal)
