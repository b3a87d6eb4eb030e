"""Nodes and their leases, as rows: written at joining, ended when the node is provably dead, cleared away at last."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, cast

from outlast.stores.base import Node
from outlast.stores.sqlite.statement import load
from outlast.stores.sqlite.transaction import Query, Transaction

WRITE_LEASE: Final = load("write_lease")

LONG_AGO: Final = 3600.0
"""Seconds after which the row of an ended lease is cleared away: until then it may tell why its runs were left."""
UNREADABLE_FOR: Final = 60.0
"""Seconds that a lease whose end cannot be read is taken to live: a holder that lives renews it long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """Other nodes that a burial is about.

    Those with live leases, on this boot or on an earlier one, those long gone, and those whose lease cannot be read.
    """

    live: Sequence[str]
    unbooted: Sequence[str]
    gone: Sequence[str]
    unreadable: Sequence[str]


def join(transaction: Transaction, node: str, *, ttl: float, boot_id: str, workers: str) -> None:
    """Write the node's first lease."""
    write_lease(transaction, node, until=transaction.now + ttl, boot_id=boot_id, workers=workers)


def write_lease(
    query: Query,
    node: str,
    *,
    until: float,
    boot_id: str,
    workers: str,
    stalled: bool = False,
    lag: float = 0.0,
) -> None:
    """Write the node's lease; `workers` is their column. Whether the node drains stays as it was."""
    lease = {"node": node, "boot_id": boot_id, "until": until, "stalled": stalled, "lag": lag, "workers": workers}
    query.execute(WRITE_LEASE, {**lease, "now": query.now})


def workers_column(workers: Collection[str]) -> str:
    """Return names of workers as they are stored."""
    return json.dumps(sorted(workers))


def drain(transaction: Transaction, node: str) -> None:
    """Note that the node is leaving."""
    transaction.execute("UPDATE nodes SET draining = 1 WHERE id = ?", (node,))


def leave(transaction: Transaction, node: str) -> None:
    """Delete the node's lease."""
    if transaction.execute("DELETE FROM nodes WHERE id = ?", (node,)).rowcount:
        transaction.stir()


def others(query: Query, node: str, *, boot_id: str) -> Others:
    """Return the nodes that `node` may bury or clear away, if there is proof."""
    found = query.execute(
        "SELECT id, boot_id, until, typeof(until) = 'real' AS readable FROM nodes WHERE id <> ?", (node,)
    ).fetchall()
    rows = [row for row in found if row["readable"]]
    live = [row for row in rows if row["until"] > query.now]
    return Others(
        live=[row["id"] for row in live if row["boot_id"] == boot_id],
        unbooted=[row["id"] for row in live if row["boot_id"] != boot_id],
        gone=[row["id"] for row in rows if row["until"] <= query.now - LONG_AGO],
        unreadable=[row["id"] for row in found if not row["readable"]],
    )


def bury(transaction: Transaction, dead: Collection[str], others: Others) -> Sequence[str]:
    """End the leases of the `dead` and return those that were live; clear away what is long gone or unreadable."""
    ended = [
        node
        for node in dead
        if transaction.execute(
            "UPDATE nodes SET until = :now WHERE id = :node AND until > :now", {"node": node, "now": transaction.now}
        ).rowcount
    ]
    for node in others.unreadable:
        transaction.execute("UPDATE nodes SET until = ? WHERE id = ?", (transaction.now + UNREADABLE_FOR, node))
    for node in others.gone:
        transaction.execute("DELETE FROM nodes WHERE id = ? AND until <= ?", (node, transaction.now - LONG_AGO))
    if ended:
        transaction.stir()
    return ended


def everyone(query: Query) -> Sequence[Node]:
    """Return every node that has a lease, live or not."""
    rows = query.execute(
        "SELECT id, until, stalled, lag, workers, draining FROM nodes WHERE typeof(until) = 'real' ORDER BY id"
    )
    return [
        Node(
            id=row["id"],
            until=row["until"],
            stalled=bool(row["stalled"]),
            lag=row["lag"],
            workers=_workers(row["workers"]),
            draining=bool(row["draining"]),
        )
        for row in rows
    ]


def _workers(column: object) -> frozenset[str] | None:
    """Return the names in a node's column, None where there are none that can be read."""
    try:
        names: object = json.loads(column) if isinstance(column, str) else None
    except ValueError:
        return None
    return frozenset(map(str, cast("list[object]", names))) if isinstance(names, list) else None
