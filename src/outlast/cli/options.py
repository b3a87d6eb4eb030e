"""The options that every command about a server has."""

from typing import Final

import click

from outlast.client.credentials import Headers
from outlast.errors import InputInvalid
from outlast.run import ID_FORM, is_id

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


def _id_of(_context: click.Context, _argument: click.Parameter, said: str) -> str:
    if not is_id(said):  # a server would say no more than that there is no such run
        raise click.BadParameter(f"{ID_FORM}; `outlast runs` lists yours.")
    return said


run = click.argument("run", callback=_id_of)


def headers(token: str | None) -> Headers:
    """Return what a request carries to say who asks. Raises `InputInvalid` for a token that no header can carry."""
    if token and not (token.isascii() and token.isprintable()):
        raise InputInvalid("The token cannot be sent: it holds characters that no header may hold.")
    return {"authorization": f"Bearer {token}"} if token else {}
