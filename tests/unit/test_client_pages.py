"""A page in a server's place is borne for a minute, and anything else begins that anew."""

import pytest

from outlast.client.pages import BORNE_FOR, Pages
from outlast.client.transport import Lost
from outlast.errors import Refusal
from outlast.supervision.phase import Trouble

PAGE = Lost(Trouble.FOREIGN, error=Refusal("A page."))


def test_pages_are_borne_for_a_minute_and_then_are_a_refusal() -> None:
    pages = Pages()
    for moment in (0.0, 1.0, BORNE_FOR - 0.001):
        pages.judge(PAGE, now=moment)
    with pytest.raises(Refusal, match="A page"):
        pages.judge(PAGE, now=BORNE_FOR)


@pytest.mark.parametrize("other", [Lost(Trouble.BUSY), Lost(Trouble.FOREIGN), Lost(Trouble.BUSY, error=Refusal("x"))])
def test_whatever_else_is_lost_begins_the_minute_anew(other: Lost) -> None:
    pages = Pages()
    pages.judge(PAGE, now=0.0)
    pages.judge(other, now=BORNE_FOR)
    pages.judge(PAGE, now=BORNE_FOR + 1)
    pages.judge(PAGE, now=2 * BORNE_FOR)
