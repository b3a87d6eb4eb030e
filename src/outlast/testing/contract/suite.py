"""The whole contract of a store: all of its parts in one class."""

from outlast.testing.contract.absorbing import Absorbing
from outlast.testing.contract.accepting import Accepting
from outlast.testing.contract.appending import Appending
from outlast.testing.contract.claiming import Claiming
from outlast.testing.contract.corrupting import Corrupting
from outlast.testing.contract.expiring import Expiring
from outlast.testing.contract.fencing import Fencing
from outlast.testing.contract.finding import Finding
from outlast.testing.contract.holding import Holding
from outlast.testing.contract.leasing import Leasing
from outlast.testing.contract.lineage import Lineages
from outlast.testing.contract.outbox import Outbox
from outlast.testing.contract.racing import Racing
from outlast.testing.contract.reading import Reading
from outlast.testing.contract.repeating import Repeating
from outlast.testing.contract.resuming import Resuming
from outlast.testing.contract.settling import Settling
from outlast.testing.contract.sharing import Sharing
from outlast.testing.contract.stopping import Stopping
from outlast.testing.contract.sweeping import Sweeping
from outlast.testing.contract.waking import Waking


class StoreContract(
    Accepting,
    Finding,
    Claiming,
    Holding,
    Resuming,
    Settling,
    Lineages,
    Stopping,
    Sweeping,
    Absorbing,
    Fencing,
    Repeating,
    Racing,
    Appending,
    Reading,
    Leasing,
    Outbox,
    Waking,
    Sharing,
    Expiring,
    Corrupting,
):
    """What every engine passes: inherit it in a class whose name begins with `Test`, and give it a fixture `bench`."""
