"""What observes the facts: nothing but lines unless asked for, and what is missing is named."""

import subprocess
import sys

import pytest

from outlast import Outlast
from outlast.assembly.instruments import Instruments
from outlast.assembly.settings import Settings
from outlast.errors import SettingsError
from outlast.facts import ControllerPaused, EventsAppended


def test_without_being_asked_for_there_are_lines_alone_and_no_batch_is_told(caplog: pytest.LogCaptureFixture) -> None:
    instruments = Instruments.of(Settings())
    instruments.report(ControllerPaused(run="l1"))
    assert [entry.getMessage() for entry in caplog.records] == ["ControllerPaused run=l1"]
    assert instruments.metrics is None
    assert instruments.measure is None


def test_asked_for_each_fact_is_a_line_and_a_number(caplog: pytest.LogCaptureFixture) -> None:
    instruments = Instruments.of(Settings(metrics=True))
    assert instruments.metrics is not None
    instruments.report(ControllerPaused(run="l1"))
    assert instruments.measure is not None
    instruments.measure(EventsAppended(run="l1", events=2, bytes=10, seconds=0.1))
    said = instruments.metrics.expose()
    assert b"outlast_pauses_total 1.0" in said
    assert b"outlast_events_total 2.0" in said
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("setting", "module"), [("metrics", "prometheus_client"), ("tracing", "opentelemetry")])
def test_what_is_asked_for_and_not_installed_is_refused_with_the_extra_to_install(
    setting: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"outlast.assembly.{setting}", raising=False)
    with pytest.raises(SettingsError, match=rf"{setting}=True needs .* install outlast\["):
        Outlast("sqlite://", **{setting: True})  # type: ignore[arg-type]


def test_who_asks_for_nothing_imports_none_of_it() -> None:
    code = """
import sys
from outlast import Outlast
Outlast("sqlite://")
print([name for name in ("prometheus_client", "opentelemetry") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
