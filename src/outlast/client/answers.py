"""What a node's answer, or the lack of one, means to a client."""

import re
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

import httpx2

from outlast.client import problem
from outlast.client.transport import Lost
from outlast.errors import Refusal, Unanswered
from outlast.supervision.phase import Trouble

RETRIED: Final = frozenset({408, 425, 429})
"""Statuses below 500 that ask for another try."""
ANSWER_WITHIN: Final = 60.0
"""Seconds for the answer to a request, the wait for a link included: a server may be busy, and a person waits."""
UNTRUSTED: Final = (
    "This server's certificate cannot be trusted. Let SSL_CERT_FILE name a file with the authority that issued it, and "
    "connect by the name that it was issued for."
)
"""What is said where nobody vouches for whoever answers."""
MAX_ANSWER: Final = 4 * 1024 * 1024
"""Bytes of an answer that are read: whatever a server of ours answers is far smaller."""


@contextmanager
def told() -> Generator[None, None, None]:
    """Tell what the network did as `Lost`."""
    try:
        yield
    except httpx2.ConnectError as error:
        if is_about_certificates(error):
            raise Lost(Trouble.CERTIFICATE, error=Unanswered(UNTRUSTED)) from error
        raise Lost(Trouble.UNREACHABLE) from error
    except httpx2.ConnectTimeout as error:
        raise Lost(Trouble.UNREACHABLE) from error
    except httpx2.TimeoutException as error:
        raise Lost(Trouble.SILENT) from error
    except httpx2.RequestError as error:
        raise Lost(Trouble.BROKEN) from error
    except ssl.SSLError as error:  # httpx2 hands on what TLS says of a record that nobody could have meant
        raise Lost(Trouble.BROKEN) from error


async def verdict(response: httpx2.Response, *, known: bool = False) -> Lost | Refusal:
    """Return what an answer means that is not the one hoped for: to be tried again, to be changed, or a refusal.

    Where a server of ours is `known` to answer, a page that is none of its own is something else that passes.
    """
    status = response.status_code
    if status in RETRIED or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        await response.aclose()
        return Lost(Trouble.BUSY, pause=pause(response))
    said = await body(response, most=problem.MAX_PROBLEM)
    refusal = problem.refusal(status, said)
    if status == HTTPStatus.UNAUTHORIZED:
        return Lost(Trouble.CREDENTIALS, error=refusal)
    return Lost(Trouble.FOREIGN, error=refusal) if known and not problem.is_ours(said) else refusal


def pause(response: httpx2.Response) -> float:
    """Return for how many seconds the server asked us to stay away; 0 when it did not."""
    # The other form, a date, would compare two machines' clocks.
    asked = response.headers.get("retry-after", "")
    return float(asked) if re.fullmatch(r"[0-9]{1,9}", asked) else 0.0


async def body(response: httpx2.Response, *, most: int = MAX_ANSWER) -> bytes:
    """Return what an answer says, up to `most` bytes and one read more, and let go of it."""
    said = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            said += chunk
            if len(said) > most:
                break
    finally:
        await response.aclose()
    return bytes(said)


def is_about_certificates(error: BaseException | None) -> bool:
    """Say whether this came of a certificate that cannot be trusted."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
