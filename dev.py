"""Set this checkout up and run one of its commands, with nothing but a Python at hand.

Rules of this file: the standard library alone, and no syntax newer than Python 3.7, so that an
old Python gets a sentence and not a SyntaxError. Everything the commands need is installed into
`.venv` from `requirements.lock`, by hash; a stamp remembers from what, so that a warm start does
no more than hash two files.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

OLDEST_PYTHON = (3, 11)  # TaskGroup, asyncio.timeout and StrEnum came with it

ROOT = Path(__file__).resolve().parent
LOCK = ROOT / "requirements.lock"
PROJECT = ROOT / "pyproject.toml"
VENV = ROOT / ".venv"
SITE = ROOT / "site"
STAMP = VENV / "outlast.stamp"
PROGRAMS = VENV / ("Scripts" if os.name == "nt" else "bin")
SUFFIX = ".exe" if os.name == "nt" else ""
PYTHON = PROGRAMS / f"python{SUFFIX}"
UV = PROGRAMS / f"uv{SUFFIX}"

CHECKS = {
    "format": ["ruff", "format", "--check", "."],
    "lint": ["ruff", "check", "."],
    "mypy": ["mypy"],
    "pyright": ["pyright"],
    "imports": ["lint-imports", "--no-logo", "--no-cache"],
    "docs": ["python", "-m", "docs.draw", "--check"],
    "site": ["zensical", "build", "--strict"],
}


OFFLINE = ". Is the package index reachable from here?"
HINTS = {"drawing": ".", "building": ": the page and the link are named there."}


class Refusal(Exception):
    """What stands in the way, in a sentence for the person at the terminal."""


# ---- the commands ----------------------------------------------------------------------------


def demo(arguments: list[str]) -> int:
    """Show a run that outlives the server it started on."""
    prepare()
    return become("outlast", "demo", *arguments)


def test(arguments: list[str]) -> int:
    """Run the tests, one process per core: any pytest arguments, and --all for the long forms."""
    prepare()
    spread = [] if any(argument.startswith("-n") for argument in arguments) else ["-n", "auto", "--dist", "worksteal"]
    return become("pytest", *spread, *arguments)


def check(arguments: list[str]) -> int:
    """Check format, lint, types, imports and drawn pages; all of them, even when one fails."""
    if arguments:
        raise Refusal("check takes no arguments")
    prepare()
    failed = [name for name, command in CHECKS.items() if not passes(name, command)]
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def bench(arguments: list[str]) -> int:
    """Measure the named rows, or all: ours and a reference alternately."""
    prepare()
    return become("python", "-m", "bench", *arguments)


def docs(arguments: list[str]) -> int:
    """Draw anew what the pages take from the code, and build their site."""
    if arguments:
        raise Refusal("docs takes no arguments")
    prepare()
    steps = {"drawing": ["python", "-m", "docs.draw"], "building": ["zensical", "build", "--strict"]}
    for purpose, command in steps.items():
        run([PROGRAMS / f"{command[0]}{SUFFIX}", *command[1:]], purpose)
    say(f"the site is in {SITE}; open index.html, or for its search too:")
    say(f"  {PYTHON} -m http.server --bind 127.0.0.1 --directory {SITE}")
    return 0


def lock(arguments: list[str]) -> int:
    """Write requirements.lock anew from pyproject.toml; --upgrade raises versions."""
    furnish()
    say("resolving for every platform …")
    everything = ["--all-extras", "--group", "dev", "--group", "examples", "--group", "bench"]
    portable = ["--universal", "--generate-hashes", "--no-header", "--no-emit-index-url"]
    target = ["--quiet", "--output-file", LOCK.name, PROJECT.name]
    run([UV, "pip", "compile", *portable, *everything, *arguments, *target], "resolving")
    if "://" in LOCK.read_text(encoding="utf-8"):
        raise Refusal(f"{LOCK.name} names a host: it must hold names, versions and hashes only")
    return 0


COMMANDS = {"demo": demo, "test": test, "check": check, "bench": bench, "docs": docs, "lock": lock}


# ---- the set-up ------------------------------------------------------------------------------


def prepare() -> None:
    """Bring .venv to what the lock says; do nothing when the stamp says that it is there."""
    stamp = fingerprint()
    if STAMP.is_file() and STAMP.read_text(encoding="utf-8") == stamp:
        return
    furnish()
    STAMP.unlink(missing_ok=True)  # what is interrupted from here on counts for nothing
    say("installing what the lock file names …")
    into = ["--quiet", "--python", str(PYTHON)]
    run([UV, "pip", "sync", "--require-hashes", *into, LOCK.name], "installing the packages")
    # The build backend is in the lock too: an isolated build would fetch one that is not.
    editable = ["--no-deps", "--no-build-isolation", "--editable", "."]
    run([UV, "pip", "install", *into, *editable], "installing outlast itself")
    STAMP.write_text(stamp, encoding="utf-8")


def fingerprint() -> str:
    """Hash everything that the set-up depends on, this folder's place included."""
    digest = hashlib.sha256(f"{platform.python_version()} {ROOT}\n".encode())
    for path in (LOCK, PROJECT):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def furnish() -> None:
    """Make .venv for this Python and put uv inside it, as the lock file pins it."""
    if not fits():
        say(f"making .venv with Python {platform.python_version()} …")
        if importlib.util.find_spec("ensurepip") is None:
            raise Refusal(
                "this Python comes without pip: install its venv package "
                "(`apt install python3-venv` on Debian and Ubuntu)"
            )
        venv.create(VENV, clear=True, with_pip=True, symlinks=os.name != "nt")
    if not UV.exists():
        install_uv()


def fits() -> bool:
    """Tell whether .venv was made by this Python, for this folder."""
    configuration = VENV / "pyvenv.cfg"
    if not (PYTHON.exists() and configuration.is_file()):
        return False
    lines = configuration.read_text(encoding="utf-8").splitlines()
    versions = [line for line in lines if line == f"version = {platform.python_version()}"]
    places = [line for line in lines if line.startswith("command") and line.endswith(str(VENV))]
    return bool(versions and places)


def install_uv() -> None:
    """Install the locked uv with the pip of .venv, whatever this machine tells pip to do."""
    say("putting uv into it …")
    # A machine's own constraints or --user setting must not decide here; its index and
    # certificates may, since there may be no other way out.
    settings = {"PIP_CONSTRAINT": os.devnull, "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
    with tempfile.TemporaryDirectory() as folder:
        requirement = Path(folder) / "uv.txt"
        requirement.write_text(pinned("uv", LOCK.read_text(encoding="utf-8")), encoding="utf-8")
        pip = [PYTHON, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        exact = ["--no-deps", "--require-hashes", "--requirement", requirement]
        run([*pip, *exact], "installing uv", settings)


def pinned(name: str, locked: str) -> str:
    """Cut one package, with its version and hashes, out of a lock file's text."""
    found = re.search(rf"^{re.escape(name)}==.*(?:\n +--hash=.*)+", locked, re.MULTILINE)
    if found is None:
        raise Refusal(f"{LOCK.name} does not pin {name}")
    return found.group() + "\n"


# ---- running and telling ---------------------------------------------------------------------


def become(program: str, *arguments: str) -> int:
    """Replace this process, so that signals and the exit code are the program's own."""
    path = str(PROGRAMS / f"{program}{SUFFIX}")
    if os.name != "nt":  # there exec returns to the prompt before the program has ended
        os.execv(path, [path, *arguments])  # noqa: S606 - no shell is wanted; Python finds its packages by this name
    return subprocess.call([path, *arguments])


def passes(name: str, command: list[str]) -> bool:
    """Run one check, show its time, and its words when it fails."""
    started = time.monotonic()
    program = str(PROGRAMS / f"{command[0]}{SUFFIX}")
    done = subprocess.run(
        [program, *command[1:]],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    verdict = "failed" if done.returncode else "ok"
    print(f"{name:<8} {verdict:<6} {time.monotonic() - started:5.1f} s   {' '.join(command)}")
    if done.returncode:
        print(done.stdout.rstrip(), end="\n\n")
    sys.stdout.flush()
    return not done.returncode


def run(command: list[object], purpose: str, settings: dict[str, str] | None = None) -> None:
    """Run a step of the set-up; a failure names the step and what may be missing."""
    # Where a company or a sandbox has a certificate of its own, the system knows it and uv's bundle does not.
    environment = {"UV_SYSTEM_CERTS": "1", **os.environ, **(settings or {})}
    if subprocess.call([str(part) for part in command], env=environment):
        raise Refusal(f"{purpose} failed, see above{HINTS.get(purpose, OFFLINE)}")


def say(sentence: str) -> None:
    """Tell the person what happens; stdout belongs to the commands."""
    print(f"dev: {sentence}", file=sys.stderr, flush=True)


def usage() -> str:
    """List the commands with what each does."""
    lines = ["usage: python3 dev.py COMMAND [argument …]", ""]
    lines += [f"  {name:<6} {command.__doc__}" for name, command in COMMANDS.items()]
    lines += ["", "The first call makes .venv and installs into it; nothing else is touched."]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run the command that the arguments name; answer the exit code."""
    if sys.version_info < OLDEST_PYTHON:
        raise Refusal(f"Outlast needs Python 3.11 or newer, this is {platform.python_version()}")
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(usage())
        return 0
    if arguments[0] not in COMMANDS:
        raise Refusal(f"there is no command {arguments[0]!r}; `python3 dev.py --help` lists them")
    os.chdir(ROOT)
    return COMMANDS[arguments[0]](arguments[1:])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Refusal as refusal:
        say(str(refusal))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
