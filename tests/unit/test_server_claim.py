"""From due to claimed: the claim is the last step, and whatever fails before it leaves no trace on the row."""

import asyncio
from itertools import pairwise

import pytest

from outlast.errors import NotAdmitted
from outlast.facts import ClaimMissed, PrerequisiteFailed, RunClaimed
from outlast.fleet import FLOOR, SHARE
from outlast.recovery import RecoveryPolicy
from outlast.run import Cancelled, Cause, Failed, FailureCode, Limit, Run, Status
from outlast.server.claim import COOL_DOWN, REFUSED_FOR
from outlast.server.hook import WITHIN
from outlast.stores.base import StopAnswer
from outlast.testing.cluster import Cluster
from outlast.testing.faults import Gate, Script
from outlast.testing.invariants import check
from outlast.testing.worker import Call, Die, Emit, Hang, Raise, Return, Say, ScriptedWorker, Step

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


def dying(times: int) -> ScriptedWorker:
    """Return a worker that takes its process along the first `times` times."""

    def script(call: Call) -> list[Step]:
        return [Emit("hello"), Die()] if call.number <= times else [Say("done"), Return(call.number)]

    return ScriptedWorker(script)


class Admission:
    """An application's admission, which can be told to refuse."""

    def __init__(self) -> None:
        self.asked_at: list[float] = []
        self.refuses: BaseException | None = None
        self.hangs = False

    async def __call__(self, run: Run) -> None:
        self.asked_at.append(asyncio.get_running_loop().time())
        if self.hangs:
            await asyncio.Event().wait()
        if self.refuses is not None:
            raise self.refuses


@pytest.mark.behaviour("B17", "B18")
@pytest.mark.parametrize(
    "refusal",
    [NotAdmitted("no"), ValueError("a bug of the application's"), BaseExceptionGroup("", [SystemExit()]), None],
)
async def test_a_prerequisite_that_fails_leaves_the_row_as_it_was_and_is_asked_again_after_a_cool_down(
    refusal: BaseException | None,
) -> None:
    admission, worker = Admission(), dying(1)
    async with Cluster({"chat": worker}, admit=admission) as cluster:
        await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        admission.refuses, admission.hangs = refusal, refusal is None
        before = await cluster.row("r1")
        survivor = await cluster.join("b")
        await asyncio.sleep(90)
        after = await cluster.row("r1")
        assert (after.epoch, after.budget, after.updated_at) == (before.epoch, before.budget, before.updated_at)
        assert after.not_before == before.not_before
        refused_at = admission.asked_at[1:]
        pauses = [later - earlier for earlier, later in pairwise(refused_at)]
        assert pauses
        assert all(COOL_DOWN <= pause <= COOL_DOWN + WITHIN + 1 for pause in pauses)
        told = [fact for fact in survivor.facts if isinstance(fact, PrerequisiteFailed)]
        assert len(told) in {len(refused_at), len(refused_at) - 1}
        admission.refuses, admission.hangs = None, False
        row = await cluster.outcome("r1", within=COOL_DOWN + 2)
        await asyncio.sleep(5)
        check(await cluster.finish())
    assert (row.status, row.budget.life, len(worker.calls)) == (Status.COMPLETED, 1, 2)


async def test_admission_is_asked_before_a_takeover_and_not_before_the_first_claim() -> None:
    admission, worker = Admission(), dying(1)
    async with Cluster({"chat": worker}, admit=admission) as cluster:
        await cluster.join("a")
        await cluster.start("chat", "r1")  # asked here, before the row exists
        await asyncio.sleep(1)
        assert len(admission.asked_at) == 1
        await cluster.join("b")
        await cluster.outcome("r1", within=30)
    assert len(admission.asked_at) == 2


@pytest.mark.behaviour("H1", "B13")
async def test_of_two_nodes_that_claim_at_once_one_starts_and_the_other_writes_nothing() -> None:
    worker = ScriptedWorker(lambda _call: [Hang()])
    gates = [Gate(), Gate()]
    async with Cluster({"chat": worker}) as cluster:
        members = []
        for name, gate in zip("ab", gates, strict=True):
            script = Script()
            script.add("claim", gate)
            members.append(await cluster.join(name, faults=script))
        await cluster.start("chat", "r1")
        for gate in gates:
            await gate.entered.wait()
        for gate in gates:
            gate.open()
        await asyncio.sleep(30)
        row = await cluster.row("r1")
        await cluster.intake.stop(owner="", id="r1")
        await cluster.outcome("r1", within=5)
        await asyncio.sleep(5)
        check(await cluster.finish())
    assert (row.epoch, row.budget.life, len(worker.calls)) == (1, 0, 1)
    facts = [fact for member in members for fact in member.facts]
    assert len([fact for fact in facts if isinstance(fact, ClaimMissed)]) == 1
    assert len([fact for fact in facts if isinstance(fact, RunClaimed)]) == 1


@pytest.mark.behaviour("B6", "B8", "B9", "B10", "B16", "B4")
async def test_a_run_whose_controllers_keep_dying_ends_after_six_calls_with_everything_kept() -> None:
    worker = dying(100)
    async with Cluster({"chat": worker}) as cluster:
        run = await cluster.start("chat", "r1")
        facts = []
        for number in range(8):
            member = await cluster.join(f"n{number}")
            facts.append(member.facts)
            if not member.process.alive:
                continue
            dead = asyncio.create_task(member.process.gone())
            done = asyncio.create_task(cluster.outcome("r1", within=300))
            await asyncio.wait({dead, done}, return_when=asyncio.FIRST_COMPLETED)
            settled = done.done()
            for task in (dead, done):
                task.cancel()
            if settled:
                break
        row = await cluster.row("r1")
        await asyncio.sleep(10)
        log = await cluster.log(run)
        check(await cluster.finish())
    assert isinstance(row.outcome, Failed)
    assert (row.outcome.code, row.outcome.limit) == (FailureCode.RECOVERY_EXHAUSTED, Limit.WINDOW)
    assert row.outcome.causes == (Cause.CRASH,) * 6
    assert "5 takeovers within 300 seconds" in row.outcome.message
    assert (len(worker.calls), row.budget.takeovers, row.budget.calls, len(worker.aborts)) == (6, 5, 6, 1)
    assert [each.event.data for each in log].count("hello") == 6
    claims = [fact for told in facts for fact in told if isinstance(fact, RunClaimed)]
    assert [(fact.attempt, fact.exhausted) for fact in claims][-1] == (6, Limit.WINDOW)
    assert len(claims) == 7


@pytest.mark.behaviour("S6", "S1")
async def test_a_stop_of_a_run_whose_controller_is_dead_is_carried_out_by_whoever_finds_it() -> None:
    worker = dying(1)
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        stopped = await cluster.intake.stop(owner="", id="r1", reason="enough")
        assert stopped.answer is StopAnswer.ACCEPTED  # its lease is live: nobody can know yet
        await cluster.join("b")
        row = await cluster.outcome("r1", within=17)
        await asyncio.sleep(5)
        check(await cluster.finish())
    assert (row.outcome, len(worker.calls), row.budget.life) == (Cancelled(reason="enough"), 1, 0)


async def test_second_and_later_takeovers_of_a_broken_worker_are_a_tenth_of_its_starts_and_the_floor() -> None:
    worker = ScriptedWorker(lambda _call: [Raise(MemoryError())])  # released, not settled: each call is a takeover
    async with Cluster({"chat": worker}) as cluster:
        await cluster.join("a")
        for number in range(60):
            await cluster.start("chat", f"r{number}")
        await asyncio.sleep(55)
        starts = len(worker.calls)
        later = sum(max(0, len(worker.calls_of(f"r{number}")) - 2) for number in range(60))
    assert FLOOR <= later <= FLOOR + SHARE * starts
    assert starts - later == 120  # every run's start and first takeover were let through


# ---- what can never start -----------------------------------------------------------------------


@pytest.mark.behaviour("B19")
async def test_a_run_that_was_refused_for_an_hour_is_settled_once_and_its_worker_told() -> None:
    admission, worker = Admission(), dying(1)
    async with Cluster({"chat": worker}, admit=admission) as cluster:
        await cluster.join("a")
        run = await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        admission.refuses = NotAdmitted("no")
        await cluster.join("b")
        await asyncio.sleep(REFUSED_FOR - 60)
        assert (await cluster.row("r1")).outcome is None
        row = await cluster.outcome("r1", within=120)
        await asyncio.sleep(5)
        log = await cluster.log(run)
        check(await cluster.finish())
    assert isinstance(row.outcome, Failed)
    assert row.outcome.code is FailureCode.NOT_ADMITTED
    assert [each.event.type for each in log].count("run.failed") == 1
    assert (len(worker.calls), len(worker.aborts), row.budget.life) == (1, 1, 0)


@pytest.mark.behaviour("B19")
async def test_time_in_which_no_node_was_there_to_ask_is_no_refusal() -> None:
    admission, worker = Admission(), dying(1)
    async with Cluster({"chat": worker}, admit=admission) as cluster:
        await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        admission.refuses = NotAdmitted("no")
        second = await cluster.join("b")
        await asyncio.sleep(REFUSED_FOR / 2)
        second.process.kill()
        await asyncio.sleep(10 * REFUSED_FOR)
        await cluster.join("c")
        await asyncio.sleep(REFUSED_FOR / 4)
        assert (await cluster.row("r1")).outcome is None
        admission.refuses = None
        row = await cluster.outcome("r1", within=COOL_DOWN + 2)
        await asyncio.sleep(5)
        check(await cluster.finish())
    assert (row.status, len(worker.calls)) == (Status.COMPLETED, 2)


@pytest.mark.behaviour("B19")
@pytest.mark.parametrize("refuses", [False, True])
async def test_a_run_whose_budget_is_spent_ends_without_a_call_whatever_its_prerequisites_say(*, refuses: bool) -> None:
    admission, worker = Admission(), dying(100)
    policy = RecoveryPolicy(takeovers=1, life=1)
    async with Cluster({"chat": worker}, admit=admission, recovery=policy) as cluster:
        await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        admission.refuses = NotAdmitted("no")
        second = await cluster.join("b")
        await asyncio.sleep(10 * COOL_DOWN)
        admission.refuses = None
        await second.process.gone()
        admission.refuses = NotAdmitted("no") if refuses else None
        await cluster.join("c")
        row = await cluster.outcome("r1", within=60)
        await asyncio.sleep(5)
        check(await cluster.finish())
    assert isinstance(row.outcome, Failed)
    assert (row.outcome.code, len(worker.calls)) == (FailureCode.RECOVERY_EXHAUSTED, 2)


@pytest.mark.behaviour("B18")
async def test_a_hook_whose_own_task_was_cancelled_has_refused_and_is_asked_after_the_cool_down() -> None:
    admission, worker = Admission(), dying(1)
    async with Cluster({"chat": worker}, admit=admission) as cluster:
        await cluster.join("a")
        await cluster.start("chat", "r1")
        await asyncio.sleep(1)
        admission.refuses = asyncio.CancelledError()
        await cluster.join("b")
        await asyncio.sleep(20 + 3 * COOL_DOWN)
        assert 3 <= len(admission.asked_at) <= 5
        admission.refuses = None
        row = await cluster.outcome("r1", within=COOL_DOWN + 2)
        check(await cluster.finish())
    assert row.status is Status.COMPLETED
