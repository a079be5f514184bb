"""Rates, places and failed authentications, on a clock that the test moves."""

from contextlib import ExitStack

import pytest

from parley.protocol.errors import InternalError, RateLimitedError
from parley.server.security.throttle import RateLimits, Throttle, retry_after_of


class Time:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def request(throttle: Throttle, caller: str = "token:ada", address: str = "192.0.2.1") -> int | None:
    """Make one short request; how long to wait, or None if it was admitted."""
    try:
        with throttle.admit(caller, address):
            return None
    except RateLimitedError as error:
        return retry_after_of(error)


def test_a_caller_has_a_burst_and_then_a_rate() -> None:
    time = Time()
    throttle = Throttle(RateLimits(requests_per_second=0.5, request_burst=3), clock=time)
    assert [request(throttle) for _ in range(4)] == [None, None, None, 2]
    time.now += 1
    assert request(throttle) == 1
    time.now += 1
    assert [request(throttle), request(throttle)] == [None, 2]
    time.now += 3_600
    assert [request(throttle) for _ in range(4)] == [None, None, None, 2]


def test_callers_do_not_share_a_rate_and_anonymous_ones_are_told_apart_by_address() -> None:
    throttle = Throttle(RateLimits(requests_per_second=1, request_burst=1), clock=Time())
    assert request(throttle, "token:ada") is None
    assert request(throttle, "token:ada", "192.0.2.2") == 1
    assert request(throttle, "token:bob") is None
    assert request(throttle, "", "192.0.2.1") is None
    assert request(throttle, "", "192.0.2.1") == 1
    assert request(throttle, "", "192.0.2.2") is None


def test_one_network_of_ipv6_counts_as_one_address() -> None:
    throttle = Throttle(RateLimits(requests_per_second=1, request_burst=1), clock=Time())
    assert request(throttle, "", "2001:db8::1") is None
    assert request(throttle, "", "2001:db8::dead:beef") == 1
    assert request(throttle, "", "2001:db8:0:1::1") is None
    assert request(throttle, "", "::ffff:192.0.2.1") is None
    assert request(throttle, "", "192.0.2.1") == 1
    assert request(throttle, "", "unix:") is None


def test_all_callers_together_have_a_rate_and_a_refused_request_takes_nothing_of_it() -> None:
    time = Time()
    limits = RateLimits(
        requests_per_second=1, request_burst=1, total_requests_per_second=1, total_request_burst=2, remembered=100
    )
    throttle = Throttle(limits, clock=time)
    assert request(throttle, "token:ada") is None
    assert [request(throttle, "token:ada") for _ in range(5)] == [1] * 5
    assert request(throttle, "token:bob") is None
    assert request(throttle, "token:eve") == 1


def test_only_so_many_requests_are_under_way() -> None:
    throttle = Throttle(RateLimits(requests=2, total_requests=3), clock=Time())
    with ExitStack() as under_way:
        for caller in ("token:ada", "token:ada", "token:bob"):
            under_way.enter_context(throttle.admit(caller))
        assert request(throttle, "token:ada") == 1
        assert request(throttle, "token:bob") == 1
    assert request(throttle, "token:ada") is None


def test_a_request_that_fails_gives_its_place_back() -> None:
    throttle = Throttle(RateLimits(requests=1), clock=Time())
    with pytest.raises(InternalError), throttle.admit("token:ada"):
        raise InternalError
    assert request(throttle) is None


def test_streams_have_places_of_their_own_and_keep_them_while_they_live() -> None:
    throttle = Throttle(RateLimits(requests=1, streams=1, total_streams=2), clock=Time())
    with throttle.admit_stream("token:ada"):
        assert request(throttle) is None
        with pytest.raises(RateLimitedError, match=r"Too many open streams"), throttle.admit_stream("token:ada"):
            pass
        with (
            throttle.admit_stream("token:bob"),
            pytest.raises(RateLimitedError),
            throttle.admit_stream("token:eve"),
        ):
            pass
    with throttle.admit_stream("token:ada"):
        pass


def test_an_address_that_guesses_is_stopped_and_let_in_again_bit_by_bit() -> None:
    time = Time()
    throttle = Throttle(RateLimits(failures_per_minute=3), clock=time)
    throttle.check_address("192.0.2.1")
    for _ in range(3):
        throttle.check_address("192.0.2.1")
        throttle.count_refusal("192.0.2.1")
    with pytest.raises(RateLimitedError) as caught:
        throttle.check_address("192.0.2.1")
    assert retry_after_of(caught.value) == 20
    throttle.check_address("192.0.2.2")
    time.now += 20
    throttle.check_address("192.0.2.1")
    throttle.count_refusal("192.0.2.1")
    with pytest.raises(RateLimitedError):
        throttle.check_address("192.0.2.1")


def test_parallel_guesses_count_even_when_they_were_let_through_together() -> None:
    time = Time()
    throttle = Throttle(RateLimits(failures_per_minute=3), clock=time)
    throttle.count_refusal("192.0.2.1")
    time.now += 3_600
    for _ in range(5):
        throttle.count_refusal("192.0.2.1")
    with pytest.raises(RateLimitedError) as caught:
        throttle.check_address("192.0.2.1")
    assert retry_after_of(caught.value) == 60  # two more than it may have, and one for the next


def test_a_flood_of_guesses_does_not_lock_an_address_out_for_hours() -> None:
    throttle = Throttle(RateLimits(failures_per_minute=30), clock=Time())
    for _ in range(10_000):
        throttle.count_refusal("192.0.2.1")
    with pytest.raises(RateLimitedError) as caught:
        throttle.check_address("192.0.2.1")
    assert retry_after_of(caught.value) == 62


def test_the_caller_that_was_idle_longest_is_forgotten() -> None:
    throttle = Throttle(RateLimits(requests_per_second=1, request_burst=1, remembered=2), clock=Time())
    assert [request(throttle, name) for name in ("a", "b", "a", "c", "a", "b")] == [None, None, 1, None, 1, None]


def test_without_limits_a_request_costs_no_object() -> None:
    limits = RateLimits(requests=None, total_requests=None, streams=None, total_streams=None, failures_per_minute=None)
    throttle = Throttle(limits)
    assert throttle.admit("token:ada") is throttle.admit_stream("token:bob")
    for _ in range(100):
        throttle.count_refusal("192.0.2.1")
    throttle.check_address("192.0.2.1")
    assert request(throttle) is None


def test_the_usual_limits_let_an_ordinary_caller_work() -> None:
    throttle = Throttle()
    assert [request(throttle) for _ in range(500)] == [None] * 500


@pytest.mark.parametrize(("rate", "at_once"), [(2, 4), (0.1, 1)])
def test_two_seconds_worth_may_come_at_once_if_nobody_says_otherwise(rate: float, at_once: int) -> None:
    for limits in (RateLimits(requests_per_second=rate), RateLimits(total_requests_per_second=rate)):
        throttle = Throttle(limits, clock=Time())
        assert [request(throttle) for _ in range(at_once)] == [None] * at_once
        assert request(throttle) is not None


def test_a_limit_of_nothing_is_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"^requests must be more than 0, or None for no limit$"):
        RateLimits(requests=0)


def test_other_errors_have_no_time_to_retry() -> None:
    assert retry_after_of(InternalError()) is None
