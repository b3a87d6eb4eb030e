"""The HTTP interface of a node, as one ASGI application that can be mounted anywhere."""

from starlette.routing import Router

from outlast.recovery import RecoveryPolicy
from outlast.run import Run
from outlast.server.access import Access
from outlast.server.intake import Intake
from outlast.server.routes.door import routes
from outlast.server.routes.entrance import Entrance
from outlast.server.routes.events import Events
from outlast.server.routes.health import CheckReady, DescribeNode, Health
from outlast.server.routes.metrics import Expose, Metrics
from outlast.server.routes.nodes import Nodes
from outlast.server.routes.page import StaticPage
from outlast.server.routes.problem import unknown
from outlast.server.routes.runs import Runs
from outlast.server.routes.session import Greet, Session
from outlast.server.seats import Seats
from outlast.server.session.sessions import Sessions
from outlast.stores.base import Store


def build(
    *,
    intake: Intake,
    store: Store,
    access: Access,
    policy: RecoveryPolicy,
    describe_node: DescribeNode,
    seats: Seats,
    check_ready: CheckReady,
    events: Events,
    greet: Greet,
    expose: Expose | None = None,
    sessions: Sessions | None = None,
) -> Router:
    """Return the application.

    It has no lifespan of its own: whoever mounts it runs the node and the hub. Until they run, calls answer 503.
    `events` are the doors to the log, which the host's handlers use as well; `greet` tells a client who speaks.
    `expose` opens `/metrics`; without it there is nothing at that path. `sessions` open a WebSocket at `/session`, in
    which everything else may be asked.
    """
    runs = Runs(intake, store, events, policy)
    health = Health(describe_node, check_ready)
    session = Session(greet, sessions)
    others = (Nodes(store.runs), session, health, StaticPage())
    doors = [*runs.doors(), *events.doors(), *(door for part in others for door in part.doors())]
    if expose is not None:
        doors += Metrics(expose).doors()

    async def load(owner: str, id: str) -> Run:
        return (await intake.load(owner=owner, id=id)).run

    entrance = Entrance(access, load, seats)
    app = Router(routes(entrance, doors), redirect_slashes=False, default=unknown)
    app.routes.extend(routes(entrance, session.session_doors(app)))
    return app
