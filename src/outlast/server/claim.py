"""From a run that is due to a run that is claimed: ask the plan, the fleet, the prerequisites, then the store.

Rules:
1. The claim is the last step before work starts. Whatever fails before it leaves the row untouched (B17).
2. A prerequisite that refuses is asked again after a cool-down, which is kept outside the run row (B18). A run that
   has been refused for an hour is settled: it can never start (B19).
3. Losing the race starts nothing and changes nothing (H1).
4. A claim whose answer nobody can read may hold the run for this node; it is told of, to be released (O1). Whether it
   was made shows only then, and then it is reported like any other (B16).
5. The fleet is asked about the row as the look read it, before anything is read or asked for this run alone, and what
   it holds back is not read at every look: that must cost next to nothing. Who has its turn keeps it while it waits for
   a slot, and gives it back when nothing was claimed (B24).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, assert_never

from starlette.exceptions import HTTPException

from outlast.errors import ClaimLost, OwnershipError, Refusal
from outlast.facts import ClaimMissed, PrerequisiteFailed, RunClaimed, RunSettled
from outlast.fleet import Fleet
from outlast.recovery import Cancel, Claim, Exhaust, Leave, Plan, Wait, exhausted, plan
from outlast.run import Cancelled, Cause, Failed, FailureCode, Outcome, Run
from outlast.server.conditions import Conditions
from outlast.server.hook import Hook, ask
from outlast.server.patience import insist
from outlast.stores.base import NewClaim, RunStore

COOL_DOWN: Final = 30.0
"""Seconds between two questions to a prerequisite that refused: it is a bill or a quota, not a hiccup."""
HELD_BACK_FOR: Final = 5.0
"""Seconds for which a worker's later takeovers are not read again once the fleet held one back: its minute goes by in
a dozen portions, and hundreds of waiting runs cost a node next to nothing."""
REFUSED_FOR: Final = 3600.0
"""Seconds of refusals after which a run is given up: a person who pays their bill in this hour keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A run to be driven; `cause` is why its last controller let go, None for a first claim."""

    run: Run
    cause: Cause | None


@dataclass(slots=True, kw_only=True)
class Turn:
    """A due run that may be claimed: the fleet counted it `at` this time, `later` as a second or later takeover.

    `spent` when there is nothing to give back: a claim was made, or may have been, or none is to be expected.
    """

    run: Run
    at: float
    later: bool
    spent: bool


class Claimant:
    """Claims due runs for one node.

    `on_doubt` is told of a claim that may have been made: the run as if it had been, and what is then to be reported.
    """

    def __init__(
        self,
        runs: RunStore,
        node: str,
        conditions: Conditions,
        fleet: Fleet,
        *,
        on_doubt: Callable[[Run, RunClaimed], None],
    ) -> None:
        self._runs = runs
        self._node = node
        self._conditions = conditions
        self._fleet = fleet
        self._held_back: dict[str, float] = {}
        self._on_doubt = on_doubt

    def held_back(self, *, now: float) -> list[str]:
        """Return the workers whose later takeovers need not be looked at now."""
        return [worker for worker, since in self._held_back.items() if now < since + HELD_BACK_FOR]

    def turn(self, run: Run, *, now: float) -> Turn | None:
        """Return the turn of `run`, as it was read at `now`, or None where the fleet holds it back.

        It is counted until `claim` has ended without one; what is only to be settled is not.
        """
        decision = plan(run, self._conditions.recovery, now=now, jitter=0.0)  # it jitters what comes after the claim
        starts, later = isinstance(decision, Claim), _is_later(decision)
        if starts and not self._fleet.lets(run.worker, now=now, later=later):
            self._held_back[run.worker] = now
            return None
        return Turn(run=run, at=now, later=later, spent=not starts)

    async def claim(self, turn: Turn) -> Claimed | None:
        """Read the run again, decide, and return it claimed, or None when there is nothing to drive.

        Raises `StoreError` from the reading; the claim itself is insisted on.
        """
        try:
            return await self._decide(turn)
        finally:
            if not turn.spent:
                self._fleet.forget(turn.run.worker, at=turn.at, later=turn.later)

    async def _decide(self, turn: Turn) -> Claimed | None:
        due = turn.run
        loaded = await self._runs.load(due.owner, due.id)  # it waited for a slot: the row and the time have moved on
        run, now = loaded.run, loaded.now
        decision = plan(run, self._conditions.recovery, now=now, jitter=self._conditions.jitter())
        try:
            match decision:
                case Leave() | Wait():
                    pass
                case Cancel(reason=reason):
                    await self._settle(run, Cancelled(reason=reason))
                case Exhaust():
                    await self._exhaust(run, decision)
                case Claim():
                    return await self._carry_out(run, decision, turn)
                case _:
                    assert_never(decision)
        except ClaimLost:
            self._conditions.report(ClaimMissed(run=run.log))
        return None

    async def _carry_out(self, run: Run, decision: Claim, turn: Turn) -> Claimed | None:
        if _is_later(decision) and not turn.later:  # taken over in between: its turn was another one
            return None
        if not await self._is_admitted(run):
            return None
        mint, budget, not_before = self._conditions.mint, decision.budget, decision.not_before
        claim = NewClaim(claim=mint(), node=self._node, budget=budget, not_before=not_before)
        try:
            claimed = await insist(lambda: self._runs.claim(run, claim), during="claim", conditions=self._conditions)
            turn.spent = True
        except OwnershipError:
            raise
        except Exception:
            turn.spent = True
            doubted = replace(run, epoch=run.epoch + 1, claim=claim.claim, holder=claim.node, budget=budget)
            self._on_doubt(doubted, _claimed(doubted, decision.cause))
            raise
        self._conditions.report(_claimed(claimed, decision.cause))
        return Claimed(run=claimed, cause=decision.cause)

    async def _is_admitted(self, run: Run) -> bool:
        admit = self._conditions.admit
        if admit is None or run.epoch == 0:  # the first claim was admitted when the run was accepted
            return True
        try:
            await ask(Hook.ADMIT, lambda: admit(run), report=self._conditions.report)
        except (Refusal, HTTPException):
            await self._refuse(run)
            return False
        return True

    async def _refuse(self, run: Run) -> None:
        self._conditions.report(PrerequisiteFailed(run=run.log, retry_in=COOL_DOWN))
        refused_for = await self._runs.refuse(run, retry_in=COOL_DOWN)
        if refused_for >= REFUSED_FOR:
            said = f"Admission refused the run for {REFUSED_FOR:g} seconds; everything it said so far is kept."
            await self._settle(run, Failed(code=FailureCode.NOT_ADMITTED, message=said))

    async def _exhaust(self, run: Run, decision: Exhaust) -> None:
        settled = await self._settle(run, exhausted(decision, run, self._conditions.recovery))
        if not isinstance(settled.outcome, Failed):  # a stop came between the reading and the settling
            return
        self._conditions.report(
            RunClaimed(
                run=run.log,
                epoch=run.epoch + 1,
                attempt=run.attempt,
                takeovers=run.budget.takeovers,
                cause=decision.cause,
                exhausted=decision.limit,
            )
        )

    async def _settle(self, run: Run, outcome: Outcome) -> Run:
        conditions = self._conditions
        claim = conditions.mint()
        settled = await insist(
            lambda: self._runs.settle_unheld(run, outcome, claim=claim), during="settle", conditions=conditions
        )
        conditions.report(settlement(settled))
        return settled


def _is_later(decision: Plan) -> bool:
    return isinstance(decision, Claim) and decision.budget.takeovers > 1 and decision.cause not in (None, Cause.HANDOFF)


def _claimed(run: Run, cause: Cause | None) -> RunClaimed:
    return RunClaimed(
        run=run.log,
        epoch=run.epoch,
        attempt=run.attempt,
        takeovers=run.budget.takeovers,
        cause=cause,
        exhausted=None,
    )


def settlement(run: Run) -> RunSettled:
    """Return the fact that `run` has its outcome."""
    code = run.outcome.code if isinstance(run.outcome, Failed) else None
    limit = run.outcome.limit if isinstance(run.outcome, Failed) else None
    return RunSettled(run=run.log, status=run.status, code=code, limit=limit)
