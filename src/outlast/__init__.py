"""Agent and chat streams that outlive the tab, the network, the deploy, the crash and the busy backend.

The client is loaded when it is first asked for: a server needs no HTTP client, a sixth of all that it would import.
"""

from typing import TYPE_CHECKING

from outlast.assembly.outlast import Outlast
from outlast.client.received import ReceivedEvent, ReceivedGap
from outlast.errors import (
    CallMisused,
    Capacity,
    ClaimLost,
    ClientClosed,
    CursorInvalid,
    Draining,
    EventTooLarge,
    Fenced,
    Forbidden,
    HeadConflict,
    HookFailed,
    IdConflict,
    InputInvalid,
    LogFull,
    LogRefused,
    NotAdmitted,
    NotStarted,
    OutboxFull,
    OutlastError,
    OwnershipError,
    PeerRefused,
    PortTaken,
    Refusal,
    Retry,
    RunGone,
    RunLive,
    RunNotFound,
    SchemaNewer,
    SettingsError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    ThreadBusy,
    TooLarge,
    TooMany,
    Unanswered,
    Unauthenticated,
    UnknownWorker,
    WireError,
    WorkerError,
    WorkerRaised,
    WrongServer,
)
from outlast.log.cursor import Cursor
from outlast.log.event import Event
from outlast.log.limits import LogLimits
from outlast.recovery import RecoveryPolicy
from outlast.retention import Retention
from outlast.run import Run, Status
from outlast.server.identity import Action, Identity
from outlast.stores.base import StopAnswer, Stopped
from outlast.workers.base import ActiveRun, EarlierRun

if TYPE_CHECKING:
    from outlast.client.client import Client
    from outlast.client.connect import connect, follow
    from outlast.client.record import ClientRecord
    from outlast.client.registry import Registry
    from outlast.client.sync import SyncClient, connect_sync
    from outlast.send import Send
    from outlast.stores.sqlite.keep import Keep
else:

    def __getattr__(name: str) -> object:
        if name == "Keep":
            from outlast.stores.sqlite.keep import Keep  # noqa: PLC0415 - see above

            return Keep
        from outlast.client import client, connect, outbox, registry, sync  # noqa: PLC0415

        for room in (client, connect, outbox, registry, sync):
            if name in __all__ and hasattr(room, name):
                return getattr(room, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Action",
    "ActiveRun",
    "CallMisused",
    "Capacity",
    "ClaimLost",
    "Client",
    "ClientClosed",
    "ClientRecord",
    "Cursor",
    "CursorInvalid",
    "Draining",
    "EarlierRun",
    "Event",
    "EventTooLarge",
    "Fenced",
    "Forbidden",
    "HeadConflict",
    "HookFailed",
    "IdConflict",
    "Identity",
    "InputInvalid",
    "Keep",
    "LogFull",
    "LogLimits",
    "LogRefused",
    "NotAdmitted",
    "NotStarted",
    "OutboxFull",
    "Outlast",
    "OutlastError",
    "OwnershipError",
    "PeerRefused",
    "PortTaken",
    "ReceivedEvent",
    "ReceivedGap",
    "RecoveryPolicy",
    "Refusal",
    "Registry",
    "Retention",
    "Retry",
    "Run",
    "RunGone",
    "RunLive",
    "RunNotFound",
    "SchemaNewer",
    "Send",
    "SettingsError",
    "Status",
    "StopAnswer",
    "Stopped",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreUnavailable",
    "SyncClient",
    "ThreadBusy",
    "TooLarge",
    "TooMany",
    "Unanswered",
    "Unauthenticated",
    "UnknownWorker",
    "WireError",
    "WorkerError",
    "WorkerRaised",
    "WrongServer",
    "connect",
    "connect_sync",
    "follow",
]
