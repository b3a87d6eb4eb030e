"""The options that every command about a server has."""

from typing import Final

import click

from outlast.client.link import Headers
from outlast.errors import InputInvalid

URL: Final = "http://127.0.0.1:8400"
"""Where `outlast serve` and `outlast demo` answer unless told otherwise."""

url = click.option(
    "--url",
    envvar="OUTLAST_URL",
    default=URL,
    show_default=True,
    show_envvar=True,
    metavar="URL",
    help="Where Outlast's routes are.",
)
token = click.option(
    "--token",
    envvar="OUTLAST_TOKEN",
    show_envvar=True,
    metavar="TOKEN",
    help="Sent as a bearer token. Others on this machine can see a command line: the variable is safer.",
)


def headers(token: str | None) -> Headers:
    """Return what a request carries to say who asks. Raises `InputInvalid` for a token that no header can carry."""
    if token and not (token.isascii() and token.isprintable()):
        raise InputInvalid("The token cannot be sent: it holds characters that no header may hold.")
    return {"authorization": f"Bearer {token}"} if token else {}
