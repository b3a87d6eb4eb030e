import pytest

from outlast.run import TERMINALS
from outlast.server.readers.view import WHOLE, View


@pytest.mark.parametrize(("view", "shown"), [(WHOLE, True), (View(types=frozenset({"text"})), False)])
def test_a_view_shows_its_types(view: View, *, shown: bool) -> None:
    assert view.shows("tool") is shown
    assert view.shows("text")


def test_the_terminal_event_is_always_shown() -> None:
    assert all(View(types=frozenset()).shows(terminal) for terminal in TERMINALS)


def test_the_same_view_is_one_key() -> None:
    assert (
        len({View(types=frozenset("ab")), View(types=frozenset("ba")), View(types=frozenset("ab"), envelope=True)}) == 2
    )
