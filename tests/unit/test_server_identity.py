import pytest

from outlast.server.identity import Action, Identity


def test_an_identity_is_for_ever_unless_it_says_when_it_ends() -> None:
    assert Identity(owner="ann").expires_at is None
    assert Identity(owner="ann", expires_at=1.5).expires_at == 1.5


@pytest.mark.parametrize("never", [float("nan"), float("inf"), float("-inf")])
def test_an_end_that_is_no_time_is_refused(never: float) -> None:
    with pytest.raises(ValueError, match="Unix seconds"):
        Identity(owner="ann", expires_at=never)


def test_actions_are_words_that_an_application_can_keep_in_a_table() -> None:
    assert sorted(Action) == ["erase", "list", "read", "start", "stop"]
