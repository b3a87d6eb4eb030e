"""How much one live run may write."""

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import EventTooLarge, LogFull, LogRefused, SettingsError
from outlast.log.event import Event
from outlast.log.limits import LogLimits, Usage

LIMITS = LogLimits(events=3, bytes=10, age=100.0, event_bytes=6)
EMPTY = Usage(events=0, bytes=0, opened_at=1000.0)
OURS = Event("run.failed", b"x" * 1000)

MARK = Event("run.checkpoint", b"{}"[:0])
"""Made at the worker's own will, so it counts."""


def of(size: int) -> Event:
    return Event("bytes", b"x" * size)


def test_the_default_limits_are_the_printed_ones() -> None:
    assert asdict(LogLimits()) == {
        "events": 200_000,
        "bytes": 256 * 1024 * 1024,
        "age": 30 * 24 * 3600.0,
        "event_bytes": 8 * 1024 * 1024,
        "checkpoint_bytes": 1024 * 1024,
    }


@pytest.mark.behaviour("B23")
@pytest.mark.parametrize("name", ["events", "bytes", "age", "event_bytes", "checkpoint_bytes"])
@pytest.mark.parametrize("value", [0, -1])
def test_limits_under_which_no_run_could_say_anything_are_refused(name: str, value: int) -> None:
    with pytest.raises(SettingsError, match=r"^Every limit of LogLimits must be above 0\.$"):
        LogLimits(**{name: value})


@pytest.mark.behaviour("B23")
def test_an_event_that_may_be_larger_than_its_log_is_refused() -> None:
    with pytest.raises(SettingsError) as refused:
        LogLimits(bytes=10, event_bytes=11)
    assert str(refused.value) == (
        "LogLimits.event_bytes (11) is larger than the whole log may be (10 bytes): lower the one or raise the other."
    )


def test_limits_on_the_edge_of_what_works_are_taken() -> None:
    assert LogLimits(events=1, bytes=1, age=0.001, event_bytes=1).event_bytes == 1


FITS = None
TOO_LARGE = (EventTooLarge, "An event may have at most 6 bytes.")
TOO_MANY = (LogFull, "A run may write at most 3 events.")
TOO_LONG = (LogFull, "A run may write at most 10 bytes.")
TOO_OLD = (LogFull, "A run may write for at most 100 seconds.")


@pytest.mark.parametrize(
    ("usage", "events", "now", "refusal"),
    [
        (EMPTY, [], 2000.0, FITS),
        (EMPTY, [of(6), of(4)], 1000.0, FITS),
        (EMPTY, [of(7)], 1000.0, TOO_LARGE),
        (EMPTY, [of(1), of(7)], 1000.0, TOO_LARGE),
        (EMPTY, [of(1)] * 3, 1000.0, FITS),
        (EMPTY, [of(1)] * 4, 1000.0, TOO_MANY),
        (Usage(events=2, bytes=0, opened_at=1000.0), [of(1)], 1000.0, FITS),
        (Usage(events=3, bytes=0, opened_at=1000.0), [of(0)], 1000.0, TOO_MANY),
        (EMPTY, [of(6), of(5)], 1000.0, TOO_LONG),
        (Usage(events=0, bytes=9, opened_at=1000.0), [of(1)], 1000.0, FITS),
        (Usage(events=0, bytes=9, opened_at=1000.0), [of(2)], 1000.0, TOO_LONG),
        (EMPTY, [of(1)], 1100.0, FITS),
        (EMPTY, [of(1)], 1100.001, TOO_OLD),
        (Usage(events=9, bytes=99, opened_at=0.0), [OURS], 5000.0, FITS),
        (EMPTY, [OURS, of(6), of(4), OURS], 1000.0, FITS),
        (EMPTY, [OURS, of(7)], 1000.0, TOO_LARGE),
        (EMPTY, [OURS, OURS, of(1), of(1)], 1000.0, FITS),
        (EMPTY, [MARK, MARK, MARK], 1000.0, FITS),
        (EMPTY, [MARK, MARK, MARK, MARK], 1000.0, TOO_MANY),
    ],
)
def test_a_batch_fits_or_is_refused_by_the_limit_it_meets(
    usage: Usage, events: list[Event], now: float, refusal: tuple[type[LogRefused], str] | None
) -> None:
    if refusal is None:
        LIMITS.check(usage, events, now=now)
        return
    with pytest.raises(refusal[0]) as refused:
        LIMITS.check(usage, events, now=now)
    assert (type(refused.value), str(refused.value)) == refusal


@given(st.lists(st.integers(0, 8), max_size=12))
def test_batches_taken_one_by_one_never_pass_a_limit(sizes: list[int]) -> None:
    usage = EMPTY
    for size in sizes:
        try:
            LIMITS.check(usage, [of(size)], now=1000.0)
        except LogRefused:
            continue
        usage = Usage(events=usage.events + 1, bytes=usage.bytes + size, opened_at=1000.0)
    assert usage.events <= LIMITS.events
    assert usage.bytes <= LIMITS.bytes
