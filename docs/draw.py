"""Draws the parts of these pages that are decided elsewhere, between `<!-- drawn: name -->` and `<!-- end -->`.

The code decides most of them, the results of the bench the table of measurements. `python -m docs.draw` writes them,
`--check` only says whether they are current.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

import click

from bench import report
from docs import diagram, options, phases, plans
from outlast import errors, lease, lineage, recovery, standstill
from outlast.assembly.metrics import FAMILIES, PREFIX
from outlast.cli.program import MODULES
from outlast.cli.program import commands as program
from outlast.log import limits
from outlast.run import FailureCode
from outlast.server.routes import problem
from tests.integration import comparison

PAGES = Path(__file__).parent
WIDTH = 100
"""Columns of a help text on a page."""
BLOCK = re.compile(r"(<!-- drawn: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def transitions() -> str:
    """Return every legal transition in words; the picture beside it is `diagram`'s."""
    return diagram.table()


def plan() -> str:
    """Return what a node does about a run, as the decision itself says it."""
    rows = ["| the run | what a node that finds it does |", "|---|---|"]
    return "\n".join([*rows, *(f"| {found} | {does} |" for found, does in plans.rows())])


def settings() -> str:
    """Return every setting with its variable, its default and its reason."""
    rows = ["| keyword | variable | default | unit | why |", "|---|---|---|---|---|"]
    rows += [
        f"| `{each.keyword}` | `{each.variable}` | {f'`{told}`' if told else 'none'} | {each.unit} | {each.reason} |"
        for each in options.rows()
        for told in [options.written(each.default)]
    ]
    return "\n".join(rows)


def policy() -> str:
    """Return every number of the recovery budget, with its reason."""
    return _constants(recovery)


def leases() -> str:
    """Return every number of the lease, with its reason."""
    return _constants(lease)


def log_limits() -> str:
    """Return every limit of a log, with its reason."""
    return _constants(limits)


def codes() -> str:
    """Return every error with its stable code, and the status it has over HTTP."""
    rows = ["| code | status | error | what it says |", "|---|---|---|---|"]
    rows += [
        f"| `{error.code}` | {_status(error)} | `{error.__name__}` | {(error.__doc__ or '').splitlines()[0]} |"
        for error in _subclasses(errors.OutlastError)
    ]
    return "\n".join(rows)


def bare() -> str:
    """Return what is answered where no error of ours is behind it."""
    rows = ["| code | status | what it says |", "|---|---|---|"]
    rows += [f"| `{code}` | {status.value} | {detail} |" for status, (code, detail) in problem.BARE.items()]
    return "\n".join(rows)


def failures() -> str:
    """Return every code a failed run may carry."""
    return ", ".join(f"`{code}`" for code in FailureCode) + "."


def standstills() -> str:
    """Return every code that says why a run is not moving."""
    return _members(standstill.Reason, "why the run is not moving")


def epochs() -> str:
    """Return why an epoch begins."""
    return _members(lineage.Kind, "why the epoch began")


def metrics() -> str:
    """Return every metric of `/metrics`."""
    rows = ["| metric | kind | labels | what it says |", "|---|---|---|---|"]
    rows += [
        f"| `{PREFIX}{name}` | {family.kind.__name__.lower()} | {', '.join(f'`{label}`' for label in family.labels)} | "
        f"{family.says} |"
        for name, family in FAMILIES.items()
    ]
    return "\n".join(rows)


def commands() -> str:
    """Return what each command of the program says of itself, in the order in which a person meets them."""
    names: list[str] = ["", *MODULES]
    return "\n\n".join(f"## outlast {name}".rstrip() + f"\n\n```\n{_help(name)}\n```" for name in names)


def _help(name: str) -> str:
    command = program.get_command(None, name) if name else program
    assert command is not None
    settings = {**program.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    whole = click.Context(command, info_name=f"outlast {name}".rstrip(), **settings)
    return "\n".join(line.rstrip() for line in command.get_help(whole).strip().splitlines())


def measurements() -> str:
    """Return what the bench found when it was last run, and on what."""
    documents = list(report.read())
    return f"{report.markdown(documents)}\n\n{report.circumstances(documents)}"


def standing() -> str:
    """Return what people were shown while servers stood still, when that was last measured."""
    return comparison.read()


def _status(error: type[errors.OutlastError]) -> str:
    status = next((problem.STATUSES[kind] for kind in error.__mro__ if kind in problem.STATUSES), None)
    if status is None:
        return "500" if issubclass(error, errors.StoreError) else "–"
    return str(status.value)


def _subclasses(error: type[errors.OutlastError]) -> Iterator[type[errors.OutlastError]]:
    for each in error.__subclasses__():
        if each.__module__ == errors.__name__:  # a shell's own kinds carry the codes of these
            yield each
        yield from _subclasses(each)


def _members(kind: type[StrEnum], heading: str) -> str:
    source = inspect.getsource(kind)
    found = re.findall(r'^    [A-Z_]+ = "(\w+)"\n    """(.+?)"""', source, re.MULTILINE | re.DOTALL)
    rows = [f"| code | {heading} |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{code}` | {' '.join(why.split())} |" for code, why in found)])


def _constants(module: object) -> str:
    source = inspect.getsource(module)  # type: ignore[arg-type]
    found = re.findall(r'^([A-Z_]+): Final = ([^\n#]+)\n"""(.+?)"""', source, re.MULTILINE | re.DOTALL)
    rows = ["| constant | value | why |", "|---|---|---|"]
    rows += [f"| `{name}` | `{value.strip()}` | {' '.join(why.split())} |" for name, value, why in found]
    return "\n".join(rows)


DRAWINGS: dict[str, Callable[[], str]] = {
    each.__name__: each
    for each in (
        transitions,
        plan,
        policy,
        leases,
        log_limits,
        settings,
        codes,
        bare,
        failures,
        standstills,
        epochs,
        metrics,
        commands,
        measurements,
        phases.phases,
        phases.rules,
        phases.legend,
        phases.dues,
        phases.profiles,
        phases.blocks,
        phases.grades,
        standing,
    )
}


PICTURES: dict[str, Callable[[], str]] = {"transitions.svg": diagram.picture, "phases.svg": phases.picture}


def drawn(text: str) -> str:
    """Return a page with its drawn parts as the code has them now."""
    return BLOCK.sub(lambda block: f"{block[1]}{DRAWINGS[block[2]]()}\n{block[3]}", text)


def stale() -> dict[Path, str]:
    """Return each file that does not hold what the code says now, with what it should hold."""
    fresh = {page: drawn(page.read_text()) for page in sorted(PAGES.glob("*.md"))}
    fresh |= {PAGES / name: picture() for name, picture in PICTURES.items()}
    return {path: text for path, text in fresh.items() if not path.exists() or path.read_text() != text}


def main(arguments: list[str]) -> int:
    """Draw all pages, or check them."""
    found = stale()
    for path, text in found.items():
        if "--check" not in arguments:
            path.write_text(text)
        print(f"{path.name}: {'is stale' if '--check' in arguments else 'drawn'}")
    if not found:
        print("All drawings are current.")
    return 1 if found and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
