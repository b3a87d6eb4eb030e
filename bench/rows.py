"""Every row of the bench by its name; `share` is how much of the full load is carried, less only where it is tested."""

from collections.abc import Callable, Mapping

from bench import append, client, death, disk, fanout, idle, machine, memory, peers, replay, startup, stream
from bench.measure import Row

ROWS: Mapping[str, Callable[[float], Row]] = {
    "append-one": append.one,
    "append-many": append.many,
    "append-busy": append.busy,
    "disk-lag": disk.lag,
    "disk-power": disk.power,
    "stream-fast": stream.fast,
    "stream-slow": stream.slow,
    "fanout-one": fanout.one,
    "fanout-pending": fanout.pending,
    "fanout-lag": fanout.lag,
    "replay-many": replay.many,
    "replay-long": replay.long,
    "idle-memory": memory.row,
    "idle-cost": idle.cost,
    "renewal": idle.renewal,
    "peers-one": peers.one,
    "peers-many": peers.many,
    "client-long": client.long,
    "client-bursts": client.bursts,
    "client-live": client.live,
    "machine": machine.row,
    "start-import": startup.importing_it,
    "start-serve": startup.serving_it,
    "death-restart": death.restart,
    "death-takeover": death.takeover,
}
