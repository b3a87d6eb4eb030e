"""The program `outlast`: its commands, and how what goes wrong in them is told.

What is expected to go wrong takes one sentence on standard error and exit code 2; Ctrl-C ends with 130. Anything else
is a mistake of ours and shows its traceback.
"""

import difflib
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import click

from outlast.errors import OutlastError

REFUSED: Final = 2
INTERRUPTED: Final = 130
EXAMPLES: Final = (
    "\b\n"
    "See it:\n"
    "  outlast demo                             a run that survives kill -9\n"
    "\n"
    "\b\n"
    "Use it:\n"
    "  outlast serve app:outlast                serve the Outlast object in app.py\n"
    "  outlast start chat '\"hello\"' --follow    start a run and read it\n"
    "  outlast tail RUN                         read a run from its first event on\n"
    "  outlast runs --status active             what is going on\n"
    "  outlast show RUN                         status, recovery budget, outcome\n"
    "  outlast stop RUN --reason 'enough'       end it\n"
    "  outlast erase RUN                        delete it, once it has ended\n"
    "\n"
    "\b\n"
    "Look behind it:\n"
    "  outlast top                              runs and takeovers, live\n"
    "  outlast watch URL                        is it busy, or gone?\n"
    "  outlast audit RUN                        who held it; is its log what was said?\n"
    "  outlast doctor                           is everything well, and if not, what to do\n"
)
MODULES: Final = {
    "demo": "demo",
    "serve": "serve",
    "start": "runs",
    "tail": "tail",
    "runs": "listing",
    "show": "runs",
    "stop": "runs",
    "erase": "runs",
    "audit": "audit",
    "top": "top",
    "watch": "watch",
    "doctor": "doctor",
    "migrate": "migrate",
}
"""Which module of this room each command is in, in the order in which a person meets them."""


class Commands(click.Group):
    """Imports a command when it is asked for: `tail` needs neither the web server of `serve` nor the demo's agents."""

    def list_commands(self, *_: object, **__: object) -> list[str]:
        """Name the commands."""
        return list(MODULES)

    def get_command(self, *asked: object, **_: object) -> click.Command | None:
        """Return the command of a name, which comes behind click's context; None for one that is like no other."""
        name = str(asked[-1])
        if name not in MODULES:
            close = difflib.get_close_matches(name, MODULES, n=1)
            if close:
                raise click.UsageError(f"There is no command `{name}`: did you mean `{close[0]}`?")
            return None
        command = getattr(import_module(f"outlast.cli.{MODULES[name]}"), name)
        assert isinstance(command, click.Command)
        return command


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXAMPLES,
    invoke_without_command=True,
)
@click.version_option(None, "-V", "--version", package_name="outlast", message="outlast %(version)s")
@click.pass_context
def commands(context: click.Context) -> None:
    """Let runs outlive what carries them: the tab, the network, the deploy, the crash."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, and return the exit code."""
    try:
        answered = commands.main(arguments, prog_name="outlast", standalone_mode=False)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "outlast"
        return _refuse(f"{error.format_message()} See `{command} --help`.")
    except click.ClickException as error:
        return _refuse(error.format_message())
    except OutlastError as error:
        return _refuse(str(error))
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    return answered if isinstance(answered, int) else 0


def _refuse(sentence: str) -> int:
    click.echo(f"outlast: {sentence}", err=True)
    return REFUSED
