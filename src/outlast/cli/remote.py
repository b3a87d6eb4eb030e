"""Asks a server one question and gets its answer, or the sentence that says why not."""

import random
import secrets
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, Self, cast
from urllib.parse import quote, urlencode

import httpx2

from outlast.backoff import delay
from outlast.cli import options
from outlast.client import answers, problem
from outlast.client.http import LOCAL
from outlast.errors import InputInvalid, Unanswered
from outlast.log.event import JSON, JSON_TYPE, encode_json

TIMEOUT: Final = 15.0
"""Seconds for one answer: a server may wait that long for its store."""
TRIES: Final = 6
"""Times a question is asked, over some ten seconds: a server that is being restarted is back by then."""
BASE: Final = 0.5
"""Seconds before the second time."""
CAP: Final = 4.0
"""Seconds between two times at most."""
BUSY: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE})
"""Answers that ask to be asked again."""

UNFINISHED: Final = ("active", "queued", "parked")
"""Statuses of runs that have no outcome yet."""
PAGE: Final = 200
"""Runs asked for at once: as many as a server gives."""

_JSON: Final = {"content-type": JSON_TYPE, "accept": JSON_TYPE}


class Remote:
    """One server, spoken to synchronously."""

    def __init__(self, url: str, token: str | None, *, pause: Callable[[float], None] = time.sleep) -> None:
        self._url = url.rstrip("/")
        self._pause = pause
        self._client = httpx2.Client(timeout=TIMEOUT, headers=options.headers(token), mounts=dict.fromkeys(LOCAL))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def start(self, worker: str, input: JSON, *, id: str | None, thread: str | None) -> dict[str, Any]:
        """Start a run and return its status document.

        The id is chosen here unless given, so that a start whose answer was lost is asked for again and stays one
        run (A3).
        """
        asked = {"worker": worker, "input": input, "id": id or secrets.token_hex(8), "thread": thread}
        return self._ask("POST", "/runs", asked)

    def status(self, run: str) -> dict[str, Any]:
        """Return a run's status document."""
        return self._ask("GET", f"/runs/{quote(run, safe='')}")

    def lineage(self, run: str) -> dict[str, Any]:
        """Return who held a run, and the identity of its log."""
        return self._ask("GET", f"/runs/{quote(run, safe='')}/lineage")

    def runs(self, *, limit: int, after: str | None = None, **filters: str | None) -> dict[str, Any]:
        """Return a page of runs, newest first; filters that are None are none."""
        given = {"limit": str(limit), "after": after, **filters}
        return self._ask("GET", f"/runs?{urlencode({name: said for name, said in given.items() if said is not None})}")

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes that use the server's store, live or not."""
        return list(self._ask("GET", "/nodes")["nodes"])

    def stop(self, run: str, *, reason: str | None) -> dict[str, Any]:
        """Stop a run and return what is true now."""
        return self._ask("POST", f"/runs/{quote(run, safe='')}/stop", {"reason": reason})

    def erase(self, run: str) -> None:
        """Delete a run that has ended, and its log. Raises `RunGone` for one that is deleted already, `RunLive`."""
        self._ask("DELETE", f"/runs/{quote(run, safe='')}")

    def unfinished(self) -> list[dict[str, Any]]:
        """Return the runs that have no outcome yet, the newest first."""
        return [run for status in UNFINISHED for run in self._all(status)]

    def _all(self, status: str) -> Iterator[dict[str, Any]]:
        after = None
        while True:
            page = self.runs(limit=PAGE, after=after, status=status)
            yield from page["runs"]
            after = page.get("next")
            if after is None:
                return

    def _ask(self, method: str, path: str, body: Mapping[str, JSON] | None = None) -> dict[str, Any]:
        """Ask until there is an answer; every question may be asked twice. Raises `Unanswered` and `Refusal`s."""
        content = None if body is None else encode_json(body)
        for attempt in range(1, TRIES + 1):
            if attempt > 1:
                self._pause(delay(attempt - 1, base=BASE, cap=CAP, jitter=random.random()))
            try:
                response = self._client.request(method, self._url + path, content=content, headers=_JSON)
            except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
                raise InputInvalid(f"The url cannot be used; one looks like {options.URL}.") from error
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                if answers.is_about_certificates(error):
                    raise Unanswered(answers.UNTRUSTED) from error
                if attempt == 1:
                    raise Unanswered(f"Nothing answers at {self._url}: does `outlast serve` run there?") from error
            except (httpx2.RequestError, ssl.SSLError):
                pass  # it may have been heard all the same: asked again, it is the same question
            else:
                if response.status_code not in BUSY:
                    return _answer(response)
        raise Unanswered(f"{self._url} did not answer {TRIES} times; what was asked may have happened all the same.")


def _answer(response: httpx2.Response) -> dict[str, Any]:
    if not response.is_success:
        raise problem.refusal(response.status_code, response.content[: problem.MAX_PROBLEM])
    if response.status_code == HTTPStatus.NO_CONTENT:
        return {}
    try:
        said = response.json()
    except ValueError as error:
        raise Unanswered("Something answers at this address, but not as Outlast does.") from error
    if not isinstance(said, dict):
        raise Unanswered("Something answers at this address, but not as Outlast does.")
    return cast("dict[str, Any]", said)
