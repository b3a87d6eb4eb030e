"""Every module has its place in the house, so that no new room escapes the import contracts."""

import ast
import re

from tests.house import tree

LOWEST_SHELL = "outlast.stores.base"  # below it lies the ground floor
STORES = re.compile(r"outlast\.stores\.(?!base$)\w+")
# Packages that only hold rooms, or data. Nothing may stand there but a docstring; the front door has its own test.
CORRIDORS = {"outlast", "outlast.stores", "outlast.web"}


def layers() -> list[list[str]]:
    """Read the layers contract, highest first."""
    return [re.split(r"\s*[|:]\s*", layer) for layer in tree.contract("layers")["layers"]]


def misplaced(modules: list[str], rooms: list[str]) -> list[str]:
    """Say which modules no layer names, and which layers name nothing."""
    homeless = [f"{name} belongs to no layer" for name in modules if not tree.under(name, rooms)]
    empty = [f"{room} is a layer without a module" for room in rooms if not any(tree.under(m, [room]) for m in modules)]
    return homeless + empty


def furnished(syntax: ast.Module) -> bool:
    """Tell whether a package's own file holds more than a docstring."""
    return any(not isinstance(node, ast.Expr) for node in syntax.body)


def test_every_module_belongs_to_a_layer_and_every_layer_exists() -> None:
    modules = [name for path in tree.modules() if (name := tree.dotted(path)) not in CORRIDORS]
    assert not misplaced(modules, [room for layer in layers() for room in layer])


def test_corridors_are_empty() -> None:
    found = [path for path in tree.modules() if tree.dotted(path) in CORRIDORS - {"outlast"}]
    assert not [tree.place(path) for path in found if furnished(tree.syntax(path))]


def test_all_layers_below_the_shells_are_held_to_be_pure() -> None:
    order = layers()
    ground = [room for layer in order[order.index([LOWEST_SHELL]) + 1 :] for room in layer]
    assert set(ground) == set(tree.contract("pure")["source_modules"])


def test_every_shell_but_a_store_is_kept_from_the_drivers() -> None:
    order = layers()
    shells = [room for layer in order[: order.index([LOWEST_SHELL]) + 1] for room in layer]
    assert {room for room in shells if not STORES.fullmatch(room)} == set(tree.contract("drivers")["source_modules"])


# ---- these tests can fail ----


def test_a_module_without_a_layer_and_a_layer_without_a_module_are_found() -> None:
    assert misplaced(["outlast.run", "outlast.runner"], ["outlast.run", "outlast.gone"]) == [
        "outlast.runner belongs to no layer",
        "outlast.gone is a layer without a module",
    ]


def test_a_furnished_corridor_is_found() -> None:
    assert furnished(ast.parse('"""A corridor."""\nfrom outlast.stores.base import RunStore\n'))
    assert not furnished(ast.parse('"""A corridor."""\n'))
