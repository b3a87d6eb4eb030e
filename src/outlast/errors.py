"""What can go wrong, whose fault it is, and the stable `code` each error carries.

    OutlastError
    ├── SettingsError            the operator's: a setting that cannot work
    │   └── PortTaken            another program listens there
    ├── Refusal                  the caller's: the request was refused and nothing changed
    │   ├── InputInvalid · CursorInvalid · TooLarge · UnknownWorker
    │   ├── RunNotFound · RunGone · RunLive · IdConflict · ThreadBusy
    │   ├── Unauthenticated · NotAdmitted · Forbidden · PeerRefused
    │   ├── TooMany · Capacity
    │   └── NotStarted · Draining · HookFailed
    ├── StoreError               the store's
    │   ├── StoreUnavailable     it gave no answer: what was asked may or may not have happened
    │   │   └── StoreBusy · StoreFull · StoreReadOnly
    │   └── StoreCorrupt · SchemaNewer
    ├── OwnershipError           nobody's: another claim decides about this run
    │   ├── Fenced               our epoch is old, or another claim id holds the same epoch
    │   ├── ClaimLost            the run changed between reading and claiming it
    │   └── HeadConflict         the append does not continue the log
    ├── LogRefused               a limit's: the log takes no more of this
    │   └── LogFull · EventTooLarge
    ├── OutboxFull               a limit's: a client is to send no more than it already is
    ├── WorkerError              the worker's
    │   ├── WorkerRaised         it raised: a verdict
    │   ├── Retry                it asks to be called again
    │   └── CallMisused          it asked its run for what this call of it cannot have
    ├── WireError                a peer's: bytes that are not what they claim to be
    ├── WrongServer              the address's: it leads to another server than the one that was meant
    └── Unanswered               nobody's: what was asked may or may not have happened
        └── ClientClosed         the client was closed meanwhile

Codes are part of the public contract: they appear in problem documents, in outcomes and in
exit messages, and are never reused for another meaning.
"""

from typing import ClassVar, Final


class OutlastError(Exception):
    """Base of every error Outlast raises; `code` is stable, the text is for people."""

    code: ClassVar[str] = "outlast_error"


class SettingsError(OutlastError):
    """A setting cannot work; the text says what to change."""

    code = "settings_invalid"


class PortTaken(SettingsError):
    """Another program listens at this port."""

    code = "port_taken"


# ---- the caller's -------------------------------------------------------------------------------


class Refusal(OutlastError):
    """A request was refused; nothing was changed by it."""

    code = "refused"


class InputInvalid(Refusal):
    """The request is malformed: its JSON, a field, an id."""

    code = "input_invalid"


class CursorInvalid(Refusal):
    """A cursor is not of the form `seq` or `seq-chain`."""

    code = "cursor_invalid"


class TooLarge(Refusal):
    """A request exceeds a size or depth limit."""

    code = "too_large"


class UnknownWorker(Refusal):
    """No worker of this name is registered on this node."""

    code = "unknown_worker"


NO_SUCH_RUN: Final = "There is no such run."
"""What is said of a run that is another's as of one that never was: whoever asks cannot tell them apart (A5)."""


class RunNotFound(Refusal):
    """There is no such run for this owner."""

    code = "run_not_found"


class RunGone(Refusal):
    """The run was there: its retention is over, or it was erased, and its log with it."""

    code = "run_gone"


class RunLive(Refusal):
    """Only a run that has ended can be erased: stop it first."""

    code = "run_live"


class IdConflict(Refusal):
    """The id already names a run with another worker, thread or input."""

    code = "id_conflict"


class ThreadBusy(Refusal):
    """The thread already has a live run; `live` is its id."""

    code = "thread_busy"

    def __init__(self, message: str, *, live: str) -> None:
        super().__init__(message)
        self.live = live


class Unauthenticated(Refusal):
    """The request carries no acceptable credentials."""

    code = "unauthenticated"


class NotAdmitted(Refusal):
    """Admission refused the run, at its start or before a takeover."""

    code = "not_admitted"


class Forbidden(Refusal):
    """`authorize` refuses what is about no single run, or `authenticate` everything that somebody asks."""

    code = "forbidden"


class PeerRefused(Refusal):
    """The request comes from where an application without `authenticate` does not answer."""

    code = "peer_refused"


class TooMany(Refusal):
    """There are as many readers, sessions or requests in a session as one owner may have; those that are there stay."""

    code = "too_many"


class Capacity(Refusal):
    """This node has as many readers or sessions as it can bear; those that are there stay."""

    code = "capacity"


class HookFailed(Refusal):
    """The application's `authenticate` or `admit` failed, so nobody decided; it may be tried again."""

    code = "hook_failed"


class NotStarted(Refusal):
    """The application's lifespan has not run, so nothing can drive a run."""

    code = "not_started"


class Draining(Refusal):
    """This node is closing and takes no new runs."""

    code = "draining"


# ---- the store's --------------------------------------------------------------------------------


class StoreError(OutlastError):
    """The store failed."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The store gave no answer: what was asked may or may not have happened."""

    code = "store_unavailable"


class StoreBusy(StoreUnavailable):
    """Other writers kept the store locked for longer than the busy limit."""

    code = "store_busy"


class StoreFull(StoreUnavailable):
    """The store has no room left on its disk."""

    code = "store_full"


class StoreReadOnly(StoreUnavailable):
    """The store cannot be written to."""

    code = "store_read_only"


class StoreCorrupt(StoreError):
    """What is stored is not what was written, or the file is not an Outlast store."""

    code = "store_corrupt"


class SchemaNewer(StoreError):
    """The store was written by a newer version of Outlast."""

    code = "schema_newer"


# ---- ownership ----------------------------------------------------------------------------------


class OwnershipError(OutlastError):
    """Another claim decides about this run."""

    code = "ownership_lost"


class Fenced(OwnershipError):
    """The fencing token is older than the fence, or its epoch belongs to another claim id."""

    code = "fenced"


class ClaimLost(OwnershipError):
    """The run changed between reading and claiming it; nothing was written."""

    code = "claim_lost"


class HeadConflict(OwnershipError):
    """The append's previous cursor is not the head, and the log does not already hold it."""

    code = "head_conflict"


# ---- limits, workers, wires ---------------------------------------------------------------------


class LogRefused(OutlastError):
    """The log takes no more of this; `code` becomes the outcome's code."""

    code = "log_refused"


class LogFull(LogRefused):
    """The run has reached its limit of events, bytes or age."""

    code = "log_full"


class EventTooLarge(LogRefused):
    """One event is larger than any event may be."""

    code = "event_too_large"


class OutboxFull(OutlastError):
    """A client's outbox holds as much as it may; nothing was added to it."""

    code = "outbox_full"


class WorkerError(OutlastError):
    """The worker failed."""

    code = "worker_error"


class WorkerRaised(WorkerError):
    """The worker raised: a verdict, told to readers by the exception's type alone."""


class Retry(WorkerError):
    """Raise this in a worker to be called again, at most three times without progress."""

    code = "worker_failed"


class CallMisused(WorkerError):
    """A worker used its run from another thread or loop, or asked for what its kind does not have."""

    code = "call_misused"


class WireError(OutlastError, ValueError):
    """Bytes from a peer are not what they claim to be."""

    code = "wire_invalid"


class WrongServer(OutlastError):
    """The address leads to another server than the one that was meant: its store is another, and so are its runs."""

    code = "wrong_server"


def code_of(error: BaseException) -> str:
    """Return an error's code, or the name of its type when it is none of ours: what a log line may say of it."""
    return error.code if isinstance(error, OutlastError) else type(error).__name__


# ---- nobody's -----------------------------------------------------------------------------------


class Unanswered(OutlastError):
    """No answer came; what was asked may have happened all the same."""

    code = "unanswered"


class ClientClosed(Unanswered):
    """The client was closed before an answer came."""

    code = "client_closed"
