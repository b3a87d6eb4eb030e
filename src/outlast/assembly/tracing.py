"""Runs as spans for OpenTelemetry: one where a run comes in, one per attempt to drive it, all of one trace.

Rules:
1. The trace is the one of whoever started the run; its name lies on the row, so a takeover in another process goes on
   with it. A process that dies takes the span of its attempt along: nobody is left to end it.
2. Attributes are enums, numbers and ids that Outlast minted, as in the facts that they are made of.
3. Without an SDK in the application nothing is recorded, and the caller's trace is passed on all the same.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import Context, copy_context
from dataclasses import fields
from enum import Enum
from typing import Final

from opentelemetry import context as current
from opentelemetry import trace

from outlast.facts import (
    ControllerPaused,
    ControllerResumed,
    ControllerStoodDown,
    Fact,
    RunReleased,
    RunSettled,
    WorkerCalled,
    WorkerFailed,
)
from outlast.run import Cause, Run, Status
from outlast.wire.trace import ids, is_traceparent, traceparent

START: Final = "outlast.start"
ATTEMPT: Final = "outlast.attempt"


class Attempt:
    """The span of one attempt."""

    def __init__(self, tracing: "Tracing", log: str, span: trace.Span) -> None:
        self.traceparent = _name(span)
        self.context: Context = copy_context()
        self.context.run(current.attach, trace.set_span_in_context(span, current.Context()))
        self.span = span
        self._tracing = tracing
        self._log = log

    def end(self) -> None:
        """End it."""
        self._tracing.forget(self._log, self)
        self.span.end()


class Tracing:
    """Makes spans with the application's tracer; `observe` may be called from any thread."""

    def __init__(self, tracer: trace.Tracer | None = None) -> None:
        self._tracer = tracer or trace.get_tracer("outlast")
        self._attempts: dict[str, Attempt] = {}

    @contextmanager
    def starting(self, given: str | None) -> Generator[str | None, None, None]:
        """Make the span of a start, and give its name."""
        here = trace.get_current_span().get_span_context().is_valid
        parent = None if here else _parent(given)
        with self._tracer.start_as_current_span(
            START, parent, trace.SpanKind.PRODUCER, record_exception=False, set_status_on_exception=False
        ) as span:
            yield _name(span)

    def begin(self, run: Run, cause: Cause | None) -> Attempt:
        """Begin the span of an attempt."""
        said: dict[str, str | int] = {
            "outlast.run": run.log,
            "outlast.epoch": run.epoch,
            "outlast.attempt": run.attempt,
        }
        if cause is not None:
            said["outlast.cause"] = cause.value
        parent = _parent(run.traceparent)
        span = self._tracer.start_span(ATTEMPT, parent, trace.SpanKind.CONSUMER, said)
        attempt = self._attempts[run.log] = Attempt(self, run.log, span)
        return attempt

    def observe(self, fact: Fact) -> None:
        """Write a fact down in the span of its run, where there is one."""
        match fact:
            case WorkerCalled() | WorkerFailed() | ControllerPaused() | ControllerResumed():
                attempt = self._attempts.get(fact.run)
                if attempt is not None:
                    attempt.span.add_event(type(fact).__name__, _attributes(fact))
            case RunSettled() | RunReleased() | ControllerStoodDown():
                attempt = self._attempts.get(fact.run)
                if attempt is not None:
                    attempt.span.set_attributes({"outlast.ending": type(fact).__name__, **_attributes(fact)})
                    if isinstance(fact, RunSettled) and fact.status is Status.FAILED:
                        attempt.span.set_status(trace.StatusCode.ERROR)
            case _:  # of no run, or of none that is driven here
                pass

    def forget(self, log: str, attempt: Attempt) -> None:
        """Let go of an attempt that is over."""
        if self._attempts.get(log) is attempt:
            del self._attempts[log]


def _parent(name: str | None) -> current.Context:
    """Return the context in which a span of another process is the parent; an empty one where there is none."""
    if name is None or not is_traceparent(name):
        return current.Context()
    trace_id, span_id, flags = ids(name)
    parent = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=trace.TraceFlags(flags))
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), current.Context())


def _name(span: trace.Span) -> str | None:
    context = span.get_span_context()
    return traceparent(context.trace_id, context.span_id, context.trace_flags) if context.is_valid else None


def _attributes(fact: Fact) -> dict[str, str | int | float]:
    """Return what a fact says, without the run, which the span has, and without what is no single value."""
    said: dict[str, str | int | float] = {}
    for each in fields(fact):
        value = getattr(fact, each.name)
        if isinstance(value, Enum):
            value = value.value
        if each.name != "run" and isinstance(value, str | int | float):
            said[f"outlast.{each.name}"] = value
    return said
