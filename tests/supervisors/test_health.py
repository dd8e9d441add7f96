"""What probes say of an API, and when those who are suspended may be restored."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.health import Health, Service
from supervisors.core.health import HealthPolicy, Outcome, is_steady, may_restore, observe, sight

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
POLICY = HealthPolicy()
EAGER = HealthPolicy(healthy_after=1, unhealthy_after=1)
policies = st.builds(HealthPolicy, healthy_after=st.integers(1, 4), unhealthy_after=st.integers(1, 4))
rounds = st.lists(st.booleans(), min_size=1, max_size=30)


def at(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


def an_outcome(*, good: bool, seconds: float = 0.0) -> Outcome:
    return Outcome(at=at(seconds), latency_ms=seconds, error="" if good else f"overloaded at {seconds:g}")


def observed(results: list[bool] | str, policy: HealthPolicy = POLICY) -> list[Service]:
    """A service after each of these probes, one every second; `+` is a good one, `-` is none."""
    service, services = None, []
    for seconds, result in enumerate(results):
        outcome = an_outcome(good=result in ("+", True), seconds=seconds)
        service = observe(service, "model", outcome, policy)
        services.append(service)
    return services


def a_health(*results: str, began: float = 100.0, policy: HealthPolicy = POLICY) -> Health:
    return Health(at=at(began), services=tuple(observed(each, policy)[-1] for each in results))


# One service.


@pytest.mark.parametrize(
    ("results", "healthy"),
    [
        ("+", "+"),
        ("-", "-"),
        ("+-", "++"),
        ("+--", "++-"),
        ("+-+-+-", "++++++"),
        ("--+", "---"),
        ("--++", "---+"),
        ("-+-+-+", "------"),
        ("-++--++", "--++--+"),
    ],
)
def test_the_first_result_decides_at_once_and_later_two_in_a_row(results: str, healthy: str) -> None:
    assert "".join("+" if service.healthy else "-" for service in observed(results)) == healthy


def test_a_service_says_since_when_it_is_so_and_why() -> None:
    services = observed("+--+++-")

    assert [service.since for service in services] == [at(0), at(0), at(2), at(2), at(4), at(4), at(4)]
    assert [service.error for service in services] == [
        "", "overloaded at 1", "overloaded at 2", "overloaded at 2", "", "", "overloaded at 6",
    ]  # fmt: skip
    assert services[-1] == Service(
        name="model", healthy=True, since=at(4), checked_at=at(6), latency_ms=6.0, error="overloaded at 6", failures=1
    )


@given(rounds, policies)
def test_it_changes_only_after_so_many_of_the_other_kind_in_a_row(results: list[bool], policy: HealthPolicy) -> None:
    services = observed(results, policy)

    for n in range(1, len(services)):
        before, after = services[n - 1], services[n]
        needed = policy.healthy_after if not before.healthy else policy.unhealthy_after
        run = results[max(0, n + 1 - needed) : n + 1]
        must_change = len(run) == needed and all(result != before.healthy for result in run)
        assert (after.healthy != before.healthy) == must_change
        assert (after.since != before.since) == must_change


@given(rounds, policies)
def test_the_runs_of_results_are_counted_whatever_is_made_of_them(results: list[bool], policy: HealthPolicy) -> None:
    last = observed(results, policy)[-1]

    same = next((n for n, result in enumerate(reversed(results)) if result != results[-1]), len(results))
    assert (last.successes, last.failures) == ((same, 0) if results[-1] else (0, same))
    assert bool(last.error) == (not last.healthy or not results[-1])


# All of them.


@pytest.mark.parametrize(
    ("results", "policy", "may"),
    [
        (("++", "++"), POLICY, True),
        (("++", "+"), POLICY, False),  # the first ever is no proof that an outage is over
        (("++", "+"), EAGER, True),
        (("++", "--+"), POLICY, False),
        (("++", "--++"), POLICY, True),
        (("++", "+++-"), POLICY, False),  # still healthy, but it flickers
        (("++", "+++-+"), POLICY, False),
        (("++", "+++-++"), POLICY, True),
        (("++", "--"), POLICY, False),
        (("++", "-+"), EAGER, True),
    ],
)
def test_restored_is_when_all_are_healthy_and_steady(results: tuple[str, ...], policy: HealthPolicy, may: bool) -> None:
    assert may_restore(a_health(*results, policy=policy), at(99), policy) is may


@pytest.mark.parametrize(("suspended", "may"), [(None, False), (99.9, True), (100.0, False), (101.0, False)])
def test_somebody_must_be_suspended_and_the_round_have_begun_since(suspended: float | None, may: bool) -> None:
    newest = None if suspended is None else at(suspended)

    assert may_restore(a_health("+++", began=100.0), newest, POLICY) is may


@given(st.lists(rounds, min_size=1, max_size=4), policies, st.integers(-2, 2))
def test_nobody_is_restored_unless_the_last_rounds_were_good_for_all(
    results: list[list[bool]], policy: HealthPolicy, suspended: int
) -> None:
    health = Health(at=at(0), services=tuple(observed(each, policy)[-1] for each in results))

    restored = may_restore(health, at(suspended), policy)

    shown = all(len(each) >= policy.healthy_after and all(each[-policy.healthy_after :]) for each in results)
    assert restored == (shown and suspended < 0)
    assert is_steady(health, policy) == shown


# Suspensions, as the monitor sees them.


def test_who_is_suspended_is_so_since_then_but_not_since_a_time_that_is_still_to_come() -> None:
    sightings = sight({}, {"coder.s-1.1": at(10), "coder.s-2.1": at(99)}, at(20))

    assert {name: sighting.at for name, sighting in sightings.items()} == {"coder.s-1.1": at(10), "coder.s-2.1": at(20)}


def test_whose_clock_is_ahead_was_there_since_it_was_first_seen() -> None:
    sightings = sight(sight({}, {"coder.s-1.1": at(99)}, at(20)), {"coder.s-1.1": at(99)}, at(50))

    assert sightings["coder.s-1.1"].at == at(20)


@pytest.mark.parametrize("ahead_seconds", [0.0, 3600.0])
def test_whoever_is_suspended_again_between_two_rounds_is_not_restored_by_one_that_began_before(
    ahead_seconds: float,
) -> None:
    """The round begins at 30, and takes until 40; by whichever clock, the session has suspended again at 35."""
    first = sight({}, {"coder.s-1.1": at(ahead_seconds)}, at(0))
    again = sight(first, {"coder.s-1.1": at(35 + ahead_seconds)}, at(40))

    newest = max(each.at for each in again.values())

    assert not may_restore(a_health("+++", began=30), newest, POLICY)
    assert may_restore(a_health("+++", began=60), newest, POLICY)


def test_who_is_restored_is_forgotten() -> None:
    assert sight(sight({}, {"coder.s-1.1": at(0)}, at(0)), {}, at(30)) == {}
