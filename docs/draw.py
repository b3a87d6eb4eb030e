"""Draws the parts of these pages that are decided elsewhere, between `<!-- drawn: name -->` and `<!-- end -->`.

The code decides most of them, the results of the bench the table of measurements. `python -m docs.draw` writes them,
`--check` only says whether they are current.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import report
from outlast import errors, lease, recovery
from outlast.log import limits
from outlast.run import TRANSITIONS, FailureCode

PAGES = Path(__file__).parent
BLOCK = re.compile(r"(<!-- drawn: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def transitions() -> str:
    """Return the table of legal transitions as a state diagram."""
    arrows = [
        f"    {status} --> {after}: {move}" for status, moves in TRANSITIONS.items() for move, after in moves.items()
    ]
    ends = [f"    {status} --> [*]" for status, moves in TRANSITIONS.items() if not moves]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> queued: start", *arrows, *ends, "```"])


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
    """Return every error with its stable code."""
    rows = ["| code | error | what it says |", "|---|---|---|"]
    rows += [
        f"| `{error.code}` | `{error.__name__}` | {(error.__doc__ or '').splitlines()[0]} |"
        for error in _subclasses(errors.OutlastError)
    ]
    return "\n".join(rows)


def failures() -> str:
    """Return every code a failed run may carry."""
    return ", ".join(f"`{code}`" for code in FailureCode) + "."


def measurements() -> str:
    """Return what the bench found when it was last run, and on what."""
    documents = list(report.read())
    return f"{report.markdown(documents)}\n\n{report.circumstances(documents)}"


def _subclasses(error: type[errors.OutlastError]) -> Iterator[type[errors.OutlastError]]:
    for each in error.__subclasses__():
        if each.__module__ == errors.__name__:  # a shell's own kinds carry the codes of these
            yield each
        yield from _subclasses(each)


def _constants(module: object) -> str:
    source = inspect.getsource(module)  # type: ignore[arg-type]
    found = re.findall(r'^([A-Z_]+): Final = ([^\n#]+)\n"""(.+?)"""', source, re.MULTILINE | re.DOTALL)
    rows = ["| constant | value | why |", "|---|---|---|"]
    rows += [f"| `{name}` | `{value.strip()}` | {' '.join(why.split())} |" for name, value, why in found]
    return "\n".join(rows)


DRAWINGS: dict[str, Callable[[], str]] = {
    each.__name__: each for each in (transitions, policy, leases, log_limits, codes, failures, measurements)
}


def drawn(text: str) -> str:
    """Return a page with its drawn parts as the code has them now."""
    return BLOCK.sub(lambda block: f"{block[1]}{DRAWINGS[block[2]]()}\n{block[3]}", text)


def main(arguments: list[str]) -> int:
    """Draw all pages, or check them."""
    stale = [page for page in sorted(PAGES.glob("*.md")) if drawn(page.read_text()) != page.read_text()]
    for page in stale:
        if "--check" not in arguments:
            page.write_text(drawn(page.read_text()))
        print(f"{page.name}: {'is stale' if '--check' in arguments else 'drawn'}")
    if not stale:
        print("All drawings are current.")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
