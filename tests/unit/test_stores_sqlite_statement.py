"""Statements are files of their own, each of which SQLite understands and somebody uses."""

import ast
import re
from pathlib import Path

import pytest

from outlast.stores.sqlite import statement
from outlast.stores.sqlite.keep.file import SCHEMA
from outlast.stores.sqlite.migration import STORE
from tests.disk import migrated
from tests.house import tree

ROOM = tree.SOURCE / "stores" / "sqlite"
NAMES = sorted(path.stem for path in (ROOM / "statements").iterdir())


def loaded(folder: Path) -> set[str]:
    """List the statements that the modules in a folder load."""
    texts = (path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    return {name for text in texts for name in re.findall(r'load(?:_statement)?\("([a-z_]+)"\)', text)}


KEPT = loaded(ROOM / "keep")
"""Those over a client's file; the others are over a store."""


@pytest.mark.parametrize("name", NAMES)
def test_sqlite_understands_every_statement(name: str) -> None:
    text = statement.load(name)
    named = dict.fromkeys(re.findall(r":([a-z_]+)", text))
    placed = [None] * (len(re.findall(r"\?(?!\d)", text)) or max(map(int, re.findall(r"\?(\d+)", text)), default=0))
    with migrated(SCHEMA if name in KEPT else STORE) as connection:
        assert connection.execute(f"EXPLAIN {text}", placed or named).fetchall()


def test_every_statement_is_loaded_by_a_module() -> None:
    assert loaded(ROOM) | KEPT == set(NAMES)
    assert not loaded(ROOM) & KEPT


def test_a_statement_is_named_verb_and_noun() -> None:
    assert not [name for name in NAMES if not re.fullmatch(r"[a-z]+(_[a-z]+)+", name)]


def test_a_statement_that_is_not_there_is_not_loaded() -> None:
    with pytest.raises(FileNotFoundError):
        statement.load("drop_everything")


# ---- nothing from outside becomes SQL ----


def built(source: str) -> list[str]:
    """List the statements of a module that are put together instead of written down."""
    executed = [
        node.args[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"execute", "executemany", "executescript"}
    ]
    return sorted(ast.unparse(sql) for sql in executed if not isinstance(sql, ast.Constant) and not _is_loaded(sql))


def _is_loaded(sql: ast.expr) -> bool:
    return isinstance(sql, ast.Name) and sql.id.isupper()


@pytest.mark.attack("Z14")
@pytest.mark.parametrize("path", sorted(ROOM.rglob("*.py")), ids=lambda path: path.stem)
def test_no_statement_is_put_together_but_of_numbers_and_names_of_our_own(path: Path) -> None:
    ours = {
        "connection": ["f'PRAGMA journal_size_limit = {WAL_KIB * 1024}'", "f'PRAGMA cache_size = -{CACHE_KIB}'"],
        "migration": [
            "statement",
            "f'PRAGMA application_id = {schema.application_id}'",
            "f'PRAGMA user_version = {migration.number}'",
        ],
        "acceptance": ["statement"],
        "sends": ["statement", "statement"],
        "corruption": ["f'DELETE FROM {table} WHERE run = :number'"],
        "expiry": ["f'DELETE FROM {table} WHERE run = ?'"],
        "vacuum": ["f'PRAGMA incremental_vacuum({pages})'"],
    }
    assert built(path.read_text(encoding="utf-8")) == sorted(ours.get(path.stem, []))


def test_a_statement_that_is_put_together_is_found() -> None:
    assert built("connection.execute(f'SELECT {name}')") == ["f'SELECT {name}'"]
    assert built("execute('SELECT 1', name)\nquery.execute(LOAD_RUN, name)\nquery.execute('SELECT ' + name)") == [
        "'SELECT ' + name"
    ]
