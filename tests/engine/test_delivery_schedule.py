"""Whose webhook is called next: fair between owners, within its bounds, and ever less where nothing answers."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from parley.engine.webhooks import schedule as delivery_schedule
from parley.engine.webhooks.backlog import PendingWebhook
from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.engine.webhooks.schedule import DeliverySchedule, DeliveryTurn, HostOutcome
from parley.stores.interface import Owner, TaskKey

LIMITS = DeliveryLimits(max_calls=8, max_calls_per_host=4, attempts=3, longest_pause=60.0)
ANSWERED, UNANSWERED, NOT_CALLED = HostOutcome.ANSWERED, HostOutcome.UNANSWERED, HostOutcome.NOT_CALLED


def pending(owner: str, host: str, number: int = 0) -> PendingWebhook:
    return PendingWebhook(TaskKey(Owner("", owner), f"t-{number}"), "hook", host, 0)


def turns_of(*webhooks: PendingWebhook, limits: DeliveryLimits = LIMITS) -> DeliverySchedule:
    turns = DeliverySchedule(limits, lambda: 1.0)
    for webhook in webhooks:
        turns.add(webhook)
    return turns


def take_all(turns: DeliverySchedule, now: float = 0.0) -> list[DeliveryTurn]:
    taken: list[DeliveryTurn] = []
    while (turn := turns.take(now)) is not None:
        taken.append(turn)
    return taken


def end(turns: DeliverySchedule, turn: DeliveryTurn, outcome: HostOutcome, now: float = 0.0) -> None:
    turn.outcome = outcome
    turns.end(turn, now)


def owner_of(turn: DeliveryTurn) -> str:
    return turn.pending.key.owner.name


# --- shares -----------------------------------------------------------------------------------------------------------


def test_one_owner_takes_half_of_all_calls_and_the_next_half_of_the_rest() -> None:
    turns = turns_of(*(pending("ada", f"host-{number}", number) for number in range(20)))
    assert len(take_all(turns)) == 4
    for owner in ("grace", "alan"):
        for number in range(20):
            turns.add(pending(owner, f"{owner}-{number}", number))
    assert Counter(map(owner_of, take_all(turns))) == {"grace": 2, "alan": 1}
    turns.add(pending("edsger", "quick"))
    assert [owner_of(turn) for turn in take_all(turns)] == ["edsger"]


def test_owners_that_want_everything_end_with_equal_shares() -> None:
    turns = turns_of(limits=DeliveryLimits(max_calls=40))
    taken: list[DeliveryTurn] = []
    for number in range(1_000):
        turns.add(pending("ada", f"ada-{number}", number))
    taken += take_all(turns)
    for owner in ("grace", "alan"):
        for number in range(1_000):
            turns.add(pending(owner, f"{owner}-{number}", number))
    for _ in range(200):
        taken += take_all(turns)
        end(turns, taken.pop(0), ANSWERED)
    taken += take_all(turns)
    assert Counter(map(owner_of, taken)) == {"ada": 10, "grace": 10, "alan": 10}


def test_owners_that_share_a_host_share_its_calls() -> None:
    turns = turns_of(*(pending("ada", "shared", number) for number in range(9)))
    assert len(take_all(turns)) == 2
    turns.add(pending("grace", "shared"))
    assert [owner_of(turn) for turn in take_all(turns)] == ["grace"]


def test_the_hosts_of_an_owner_take_turns() -> None:
    many = [pending("ada", "many", number) for number in range(5)]
    turns = turns_of(*many, pending("ada", "few", 9), limits=DeliveryLimits(max_calls=2))
    hosts: list[str] = []
    while (turn := turns.take(0.0)) is not None:
        hosts.append(turn.route.host)
        end(turns, turn, ANSWERED)
    assert hosts == ["many", "few", "many", "many", "many", "many"]
    assert turns.is_empty


# --- hosts that give no answer ----------------------------------------------------------------------------------------


def test_a_host_without_answers_is_probed_by_one_call_after_longer_and_longer_pauses() -> None:
    """Until it answers; then all of its webhooks may be called again."""
    turns = turns_of(*(pending("ada", "dead", number) for number in range(9)))
    first = take_all(turns)
    assert len(first) == 2
    for turn in first:  # calls that began together fail once
        end(turns, turn, UNANSWERED, 15.0)
        turns.add(turn.pending)
    now = 15.0
    for pause in (1.0, 2.0, 4.0):
        assert (turns.next_pause_end(), turns.unanswered_routes) == (now + pause, 1)
        assert take_all(turns, now + pause - 0.5) == []
        (probe,) = take_all(turns, now + pause)
        assert probe.is_probe
        now += pause + 15.0
        end(turns, probe, UNANSWERED if pause < 4 else ANSWERED, now)
    assert turns.unanswered_routes == 0
    assert len(take_all(turns, now)) == 2


def test_an_owner_whose_calls_get_no_answer_slows_down_only_its_own_calls_of_the_host() -> None:
    turns = turns_of(*(pending("ada", "shared", number) for number in range(9)))
    for turn in take_all(turns):
        end(turns, turn, UNANSWERED, 15.0)
    for number in range(9):
        turns.add(pending("grace", "shared", number))
    assert [(owner_of(turn), turn.is_probe) for turn in take_all(turns, 15.0)] == [("grace", False)] * 2


def test_probes_have_a_quarter_of_all_calls_and_leave_an_owners_other_hosts_alone() -> None:
    limits = DeliveryLimits(max_calls=16)
    dead = [pending("ada", f"dead-{number}", number) for number in range(50)]
    turns = turns_of(*dead, limits=limits)
    now = 0.0
    while turns.unanswered_routes < 50:
        for turn in take_all(turns, now):
            end(turns, turn, UNANSWERED, now + 15.0)
            turns.add(turn.pending)
        now += 15.0
    probes = take_all(turns, now + 600.0)
    assert [turn.is_probe for turn in probes] == [True, True]  # of four, half for one owner
    turns.add(pending("ada", "quick"))
    assert [turn.route.host for turn in take_all(turns, now + 600.0)] == ["quick"]


def test_what_waited_through_all_attempts_of_its_host_is_over() -> None:
    """But not what came later."""
    old, young = (pending("ada", "dead", number) for number in range(2))
    turns = turns_of(*(pending("ada", "dead", 9) for _ in range(3)), old, limits=DeliveryLimits(attempts=3))
    now = 0.0
    for number in range(3):
        turn = turns.take(now)
        assert turn is not None
        assert not turn.is_expired
        end(turns, turn, UNANSWERED, now + 15.0)
        now += 100.0
        if number == 0:
            turns.add(young)
    found: dict[PendingWebhook, bool] = {}
    for _ in range(2):
        (turn,) = take_all(turns, now)
        found[turn.pending] = turn.is_expired
        end(turns, turn, NOT_CALLED, now)
    assert found == {old: True, young: False}


def test_what_is_wanted_now_is_called_although_its_host_has_used_up_its_attempts() -> None:
    """Otherwise it would be over without a call, because somebody has asked for one."""
    wanted = pending("ada", "dead")
    turns = turns_of(*(pending("ada", "dead", number) for number in (1, 2)), wanted, limits=DeliveryLimits(attempts=2))
    for now in (0.0, 100.0):
        turn = turns.take(now)
        assert turn is not None
        end(turns, turn, UNANSWERED, now + 15.0)
    turns.hurry(wanted)
    (turn,) = take_all(turns, 115.0)
    assert (turn.pending, turn.is_expired) == (wanted, False)


def test_what_waited_too_long_for_its_host_is_over_however_few_the_calls() -> None:
    """But not what came after the host had begun to fail."""
    first, old, young = (pending("ada", "dead", number) for number in range(3))
    turns = turns_of(first, old, limits=DeliveryLimits(retry_for=100.0, max_calls=2))
    (turn,) = take_all(turns, 0.0)
    end(turns, turn, UNANSWERED, 15.0)
    turns.add(young)
    (turn,) = take_all(turns, 114.0)
    assert (turn.pending, turn.is_expired) == (old, False)
    end(turns, turn, NOT_CALLED, 114.0)
    turns.add(old)
    (turn,) = take_all(turns, 115.0)
    assert (turn.pending, turn.is_expired) == (young, False)
    end(turns, turn, NOT_CALLED, 115.0)
    (turn,) = take_all(turns, 115.0)
    assert (turn.pending, turn.is_expired) == (old, True)


def test_a_host_without_answers_is_remembered_for_its_next_webhook_within_a_bound() -> None:
    turns = turns_of(pending("ada", "dead"))
    end(turns, take_all(turns)[0], UNANSWERED, 15.0)
    assert not turns.is_empty
    turns.add(pending("ada", "dead", 1))
    turns.add(pending("ada", "dead", 2))
    (probe,) = take_all(turns, 20.0)
    assert probe.is_probe
    end(turns, probe, UNANSWERED, 20.0)
    for number in range(delivery_schedule.FAILING_ROUTES_REMEMBERED + 5):
        turns.add(pending("grace", f"dead-{number}"))
        end(turns, take_all(turns, 20.0)[0], UNANSWERED, 20.0)
    assert turns.unanswered_routes == delivery_schedule.FAILING_ROUTES_REMEMBERED + 1  # one has something to tell


# --- corrections ------------------------------------------------------------------------------------------------------


def test_a_corrected_webhook_leaves_its_host_and_its_pause() -> None:
    waiting, paused, quiet = (pending("ada", "dead", number) for number in range(3))
    turns = turns_of(waiting, limits=DeliveryLimits(max_calls=1))
    turns.pause(paused, 100.0)
    for webhook in (waiting, paused, quiet):
        turns.change_host(webhook, "alive")
    found: list[PendingWebhook] = []
    while (turn := turns.take(0.0)) is not None:
        assert turn.route.host == "alive"
        found.append(turn.pending)
        end(turns, turn, ANSWERED)
    assert found == [waiting, paused]
    assert (turns.next_pause_end(), turns.is_empty) == (None, True)


def test_pauses_that_were_ended_early_do_not_pile_up() -> None:
    turns = turns_of()
    for _ in range(5_000):
        webhook = pending("ada", "host")
        turns.pause(webhook, 600.0)
        turns.change_host(webhook, "host")
        end(turns, take_all(turns)[0], ANSWERED)
    assert len(turns._pauses) <= 1_000


# --- whatever happens -------------------------------------------------------------------------------------------------

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 4), st.integers(0, 3)),
        st.tuples(st.just("end"), st.integers(0, 9), st.sampled_from(list(HostOutcome))),
        st.tuples(st.just("wait"), st.integers(0, 40), st.none()),
    ),
    max_size=120,
)


@settings(max_examples=200, deadline=None)
@given(EVENTS)
def test_bounds_hold_and_each_owner_gets_its_turn_whatever_happens(events: list[tuple[str, int, object]]) -> None:
    """No owner begins twice while another that has nothing under way waits for a host that is free."""
    turns, now, under_way = turns_of(), 0.0, list[DeliveryTurn]()
    waiting: Counter[str] = Counter()
    begun_since: dict[str, Counter[str]] = {}

    def check() -> None:
        owners, hosts = Counter(map(owner_of, under_way)), Counter(turn.route.host for turn in under_way)
        probes = Counter((owner_of(turn), turn.route.host) for turn in under_way if turn.is_probe)
        assert len(under_way) == turns.under_way <= LIMITS.max_calls
        assert max(owners.values(), default=0) <= LIMITS.max_calls // 2
        assert max(hosts.values(), default=0) <= LIMITS.max_calls_per_host
        assert probes.total() <= LIMITS.probes
        assert max(probes.values(), default=0) <= 1

    def take() -> None:
        while (turn := turns.take(now)) is not None:
            name = owner_of(turn)
            under_way.append(turn)
            waiting[name] -= 1
            begun_since.pop(name, None)
            for other in begun_since.values():
                other[name] += 1
                assert other[name] <= 1
            check()

    for number, (kind, value, other) in enumerate(events):
        if kind == "add":
            # Half of the owners have a host of their own and are never failed, so that nothing but turns delays them.
            name = f"owner-{value}"
            turns.add(pending(name, f"shared-{other}" if value < 2 else name, number))
            waiting[name] += 1
            if value >= 2 and not any(owner_of(turn) == name for turn in under_way):
                begun_since.setdefault(name, Counter())
        elif kind == "end" and under_way:
            turn = under_way.pop(value % len(under_way))
            fails = isinstance(other, HostOutcome) and owner_of(turn) in ("owner-0", "owner-1")
            end(turns, turn, other if fails and isinstance(other, HostOutcome) else ANSWERED, now)
        elif kind == "wait":
            now += value
        take()
    for _ in range(10_000):
        if not (+waiting or under_way):
            break
        now += 100.0
        if under_way:
            end(turns, under_way.pop(), ANSWERED, now)
        take()
    assert (+waiting, under_way) == (Counter(), [])
    assert sum(len(owner.routes) for owner in turns._owners.values()) == turns.unanswered_routes
