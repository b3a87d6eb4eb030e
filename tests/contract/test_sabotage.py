"""The contract can fail: a store that breaks one promise is found out by the check of that promise."""

from typing import Any

import pytest

from outlast.run import Cause, Completed
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
from tests.contract import wrong
from tests.contract.sabotage import Broken, Check, check_found_out

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


SABOTAGE: list[tuple[Check, Broken, dict[str, Any]]] = [
    (Accepting.test_the_same_start_again_is_the_run_that_exists, {"start": wrong.start_anew}, {}),
    (Accepting.test_a_thread_with_a_live_run_is_busy_and_names_it, {"start": wrong.start_without_thread}, {}),
    (Accepting.test_another_owners_run_is_not_found_like_one_that_never_was, {"load": wrong.load_with_a_hint}, {}),
    (Accepting.test_owners_list_their_own_runs_alone, {"list": wrong.list_of_everybody}, {}),
    (Accepting.test_runs_are_listed_newest_first_in_pages_that_meet, {"list": wrong.list_oldest_first}, {"pause": 1.0}),
    (Finding.test_the_longest_due_come_first_and_no_more_than_asked_for, {"due": wrong.due_in_reverse}, {}),
    (Finding.test_the_next_time_counts_leases_that_run_out, {"due": wrong.due_without_a_next_time}, {}),
    (
        Finding.test_of_a_worker_that_is_held_back_only_what_was_taken_over_lately_is_left_out,
        {"due": wrong.due_with_what_is_held_back},
        {},
    ),
    (
        Finding.test_a_stop_a_hand_off_and_a_waking_are_never_held_back,
        {"due": wrong.due_without_the_held_back},
        {},
    ),
    (Finding.test_looking_for_due_runs_writes_nothing, {"due": wrong.due_and_marked}, {}),
    (Finding.test_a_run_is_due_when_its_holders_lease_has_run_out, {"due": wrong.due_while_held}, {}),
    (
        Finding.test_a_run_recovers_from_when_its_node_lets_go_of_it_until_another_claims_it,
        {"recovering": wrong.recovering_whoever_holds},
        {},
    ),
    (
        Finding.test_a_run_recovers_when_its_holders_lease_has_run_out,
        {"recovering": wrong.recovering_whoever_holds},
        {},
    ),
    (Finding.test_of_many_runs_those_that_recover_are_told_at_once, {"recovering": wrong.recovering_of_all}, {}),
    (Finding.test_a_refusal_leaves_the_row_as_it_is, {"refuse": wrong.refuse_in_the_row}, {}),
    (Claiming.test_a_claim_of_a_row_that_was_claimed_since_is_lost, {"claim": wrong.claim_whatever_it_is_now}, {}),
    (
        Claiming.test_a_run_under_a_live_lease_is_not_claimed,
        {"claim": wrong.claim_whatever_it_is_now},
        {"node": "node-b"},
    ),
    (Claiming.test_a_claim_clears_the_cause_of_the_last_release, {"claim": wrong.claim_and_keep_the_cause}, {}),
    (Claiming.test_a_claim_is_written_and_the_row_after_it_returned, {"claim": wrong.claim_for_nothing}, {}),
    (Claiming.test_a_claim_clears_refusals, {"refuse": wrong.refuse_in_the_row}, {}),
    (Holding.test_calls_are_counted_one_by_one, {"charge": wrong.charge_always}, {}),
    (Holding.test_no_call_is_charged_after_a_stop, {"charge": wrong.charge_always}, {}),
    (
        Holding.test_a_released_run_has_no_holder_and_keeps_the_cause,
        {"release": wrong.release_as_crashed},
        {"cause": Cause.STALL},
    ),
    (Settling.test_a_failure_that_finds_a_stop_is_cancelled, {"settle": wrong.settle_as_completed}, {}),
    (Settling.test_a_claim_that_was_followed_by_another_settles_nothing, {"settle": wrong.settle_with_any_token}, {}),
    (Lineages.test_each_claim_leaves_an_entry_with_its_kind_cause_and_calls, {"lineage": wrong.lineage_uncaused}, {}),
    (Lineages.test_a_stop_that_settles_leaves_an_entry, {"lineage": wrong.lineage_of_nodes_alone}, {}),
    (Lineages.test_every_run_has_its_own_lineage, {"lineage": wrong.lineage_of_ann}, {}),
    (Stopping.test_a_stop_that_came_first_lets_its_run_be_born_cancelled, {"stop": wrong.stop_what_is_known}, {}),
    (Stopping.test_a_queued_run_is_cancelled_at_once, {"stop": wrong.stop_and_say_accepted}, {}),
    (Stopping.test_a_node_finds_the_stops_of_the_runs_it_holds, {"stops": wrong.stops_of_nobody}, {}),
    (Sweeping.test_time_in_which_nobody_asked_is_no_refusal, {"refuse": wrong.refuse_by_the_clock}, {}),
    (Sweeping.test_time_in_which_no_node_was_there_is_no_absence, {"attend": wrong.attend_by_the_clock}, {}),
    (Sweeping.test_a_run_whose_worker_no_node_has_is_forsaken_after_that_time, {"attend": wrong.nothing}, {}),
    (Sweeping.test_a_held_run_is_not_forsaken, {"forsaken": wrong.forsaken_with_everyone}, {}),
    (Fencing.test_a_fence_is_never_lowered, {"logs.fence": wrong.nothing}, {}),
    (
        Fencing.test_a_write_with_an_old_epoch_is_refused,
        {"logs.append": wrong.append_with_any_token},
        {"write": "append"},
    ),
    (
        Resuming.test_the_newest_checkpoint_is_there_for_the_next_holder_to_the_byte,
        {"checkpoint": wrong.nothing},
        {},
    ),
    (
        Resuming.test_a_checkpoint_that_is_not_behind_the_kept_one_changes_nothing,
        {"checkpoint": wrong.checkpoint_ahead},
        {},
    ),
    (Resuming.test_an_older_claim_keeps_nothing, {"checkpoint": wrong.checkpoint_in_spite}, {}),
    (Resuming.test_a_settled_run_keeps_no_checkpoint_and_takes_none, {"checkpoint": wrong.checkpoint_in_spite}, {}),
    (
        Resuming.test_runs_are_listed_by_thread_newest_first_in_pages_that_meet,
        {"list": wrong.list_whatever_thread},
        {},
    ),
    (Repeating.test_a_claim, {"claim": wrong.claim_once}, {}),
    (Repeating.test_a_charge, {"charge": wrong.charge_twice}, {}),
    (Repeating.test_an_append, {"logs.append": wrong.append_once}, {}),
    (Repeating.test_a_start, {"start": wrong.start_anew}, {}),
    (Racing.test_of_claims_of_one_row_one_wins, {"claim": wrong.claim_whatever_it_is_now}, {}),
    (Racing.test_of_starts_at_once_one_makes_the_run, {"start": wrong.start_anew}, {}),
    (Racing.test_of_those_who_take_the_outbox_each_abort_goes_to_one, {"take_aborts": wrong.take_and_show}, {}),
    (Racing.test_a_call_that_is_charged_three_times_at_once_is_one_call, {"charge": wrong.charge_twice}, {}),
    (
        Appending.test_bytes_come_back_as_they_were,
        {"logs.append": wrong.append_with_plain_line_ends},
        {"name": "line ends"},
    ),
    (Appending.test_the_start_of_another_log_is_not_the_start_of_this_one, {"logs.append": wrong.append_in_spite}, {}),
    (Reading.test_a_lost_event_is_reported, {"logs.read": wrong.read_on}, {"seq": 3}),
    (
        Reading.test_a_page_begins_behind_its_place_and_is_limited,
        {"logs.read": wrong.read_all},
        {"after": 2, "limit": 2, "seqs": [3, 4]},
    ),
    (Reading.test_the_chain_is_told_at_every_stored_place_and_nowhere_else, {"logs.chain_at": wrong.nothing}, {}),
    (Leasing.test_a_renewal_moves_the_lease_on, {"renewer": lambda store, node, ttl, workers: wrong.Idle()}, {}),
    (
        Leasing.test_a_node_that_leaves_has_no_lease_and_its_runs_are_free_at_once,
        {"leave": wrong.nothing},
        {"times": 1},
    ),
    (Leasing.test_a_lease_that_has_run_out_is_still_told, {"nodes": wrong.nodes_that_live}, {}),
    (Leasing.test_a_nodes_lag_is_that_of_its_newest_renewal, {"nodes": wrong.nodes_without_lag}, {}),
    (
        Leasing.test_a_node_is_told_with_its_workers_for_as_long_as_it_has_a_lease,
        {"nodes": wrong.nodes_without_workers},
        {},
    ),
    (
        Leasing.test_a_lease_that_is_written_anew_tells_the_workers_again,
        {"renewer": lambda store, node, ttl, workers: store.renewer(node, ttl=ttl, workers=[])},
        {},
    ),
    (
        Leasing.test_a_node_that_drains_is_told_as_such_and_keeps_its_lease_and_its_runs,
        {"drain": wrong.nothing},
        {"times": 1},
    ),
    (
        Leasing.test_a_node_that_drains_is_told_as_such_and_keeps_its_lease_and_its_runs,
        {"drain": wrong.drain_and_leave},
        {"times": 1},
    ),
    (
        Outbox.test_a_taken_abort_is_hidden_from_everybody_until_its_hold_is_over,
        {"take_aborts": wrong.take_and_show},
        {},
    ),
    (
        Outbox.test_a_taken_abort_is_hidden_from_everybody_until_its_hold_is_over,
        {"take_aborts": wrong.take_without_tries},
        {},
    ),
    (Outbox.test_a_finished_abort_is_gone_and_finishing_it_twice_is_harmless, {"finish_abort": wrong.nothing}, {}),
    (
        Outbox.test_a_delayed_abort_is_due_again_at_its_time_whatever_its_hold,
        {"delay_abort": wrong.nothing},
        {"retry_in": 60.0},
    ),
    (Outbox.test_an_abort_carries_the_settled_run_and_its_epoch, {"settle": wrong.settle_without_abort}, {}),
    (
        Absorbing.test_nothing_changes_a_run_that_its_holder_settled,
        {"stop": wrong.stop_and_say_accepted},
        {"outcome": Completed(), "attempt": "stop"},
    ),
    (
        Absorbing.test_nothing_changes_a_run_that_its_holder_settled,
        {"charge": wrong.charge_always},
        {"outcome": Completed(), "attempt": "charge"},
    ),
    (Waking.test_nodes_are_woken, {"subscribe": lambda store: wrong.Deaf()}, {"change": "a run stopped"}),
    (Waking.test_readers_are_woken, {"logs.subscribe": lambda store, log: wrong.Deaf()}, {"change": "the log grew"}),
    (Sharing.test_the_clock_never_steps_back, {"now": wrong.now_in_reverse}, {}),
    (Expiring.test_an_erased_run_is_gone_and_its_log_with_it, {"erase": wrong.nothing}, {}),
    (Expiring.test_an_erased_run_is_gone_and_its_log_with_it, {"load": wrong.load_as_never_been}, {}),
    (
        Expiring.test_an_ended_run_is_whole_for_its_retention_and_then_gone,
        {"expire": wrong.expire_too_early},
        {},
    ),
    (
        Expiring.test_who_still_drives_a_run_that_is_gone_is_refused,
        {"release": wrong.nothing},
        {"late": "release", "since": "gone"},
    ),
    (
        Corrupting.test_due_runs_are_found_behind_those_that_cannot_be_read,
        {"corrupt": wrong.due_without_naming},
        {},
    ),
    (
        Corrupting.test_one_is_settled_with_its_terminal_event_and_can_be_read,
        {"settle_corrupt": wrong.nothing},
        {},
    ),
]


@pytest.mark.parametrize(("check", "broken", "arguments"), SABOTAGE, ids=lambda value: getattr(value, "__name__", ""))
async def test_a_broken_promise_is_found_out(check: Check, broken: Broken, arguments: dict[str, Any]) -> None:
    await check_found_out(check, broken, **arguments)
