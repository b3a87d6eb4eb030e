"""What is made of the facts: lines always; numbers and spans where asked for, each with the extra that it needs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from outlast.assembly.lines import record
from outlast.assembly.settings import Settings
from outlast.errors import SettingsError
from outlast.facts import Fact, Report

if TYPE_CHECKING:  # the extra may not be there, and who does without shall not wait for its import
    from outlast.assembly.metrics import Metrics
    from outlast.assembly.tracing import Tracing

_MISSING: Final = "{setting}=True needs the package {package}: install outlast[{extra}], or leave it out."


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruments:
    """The observers of one `Outlast`."""

    metrics: "Metrics | None" = None
    tracing: "Tracing | None" = None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return what the settings ask for. Raises `SettingsError` naming the extra that is not installed."""
        return cls(
            metrics=_metrics() if settings.metrics else None,
            tracing=_tracing() if settings.tracing else None,
        )

    def report(self, fact: Fact) -> None:
        """Tell all of them; from any thread."""
        record(fact)
        if self.metrics is not None:
            self.metrics.observe(fact)
        if self.tracing is not None:
            self.tracing.observe(fact)

    @property
    def measure(self) -> Report | None:
        """Who is told of every batch of events, if anybody."""
        return None if self.metrics is None else self.metrics.observe


def _metrics() -> "Metrics":
    try:
        from outlast.assembly.metrics import Metrics  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        raise SettingsError(_MISSING.format(setting="metrics", package="prometheus-client", extra="metrics")) from error
    return Metrics()


def _tracing() -> "Tracing":
    try:
        from outlast.assembly.tracing import Tracing  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        raise SettingsError(_MISSING.format(setting="tracing", package="opentelemetry-api", extra="otel")) from error
    return Tracing()
