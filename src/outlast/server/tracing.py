"""What a node is to whoever traces it: where runs come in, and each attempt to drive one, are spans of one trace.

The trace is named by a `traceparent` on the run's row, so that it goes on where another process takes over.
"""

from contextlib import AbstractContextManager
from contextvars import Context
from typing import Protocol

from outlast.run import Cause, Run


class Span(Protocol):
    """One attempt to drive a run. `context` is what its worker works in, `traceparent` what it may pass on."""

    @property
    def traceparent(self) -> str | None:
        """The name of this span, None where nothing is traced."""
        ...

    @property
    def context(self) -> Context:
        """The context in which this span is the current one."""
        ...

    def end(self) -> None:
        """End it."""
        ...


class Tracing(Protocol):
    """Makes the spans; what happens meanwhile it learns from the facts."""

    def starting(self, given: str | None) -> AbstractContextManager[str | None]:
        """Return the span of a start, entered as the `traceparent` for the run's row.

        It belongs to the caller's own trace where there is one, otherwise to the one that the request `given` named.
        """
        ...

    def begin(self, run: Run, cause: Cause | None) -> Span:
        """Begin the span of a claimed run's attempt, in the trace that its row names."""
        ...
