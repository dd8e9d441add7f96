"""The book: the fold over the ledger's entries, cell by cell, and what holds whatever happens in which order."""

import time
from datetime import date, timedelta
from itertools import pairwise
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.ledger import Amount, Book, Ceilings, Entry, Refusal, Reserved, Room, Settled, Usage
from bus.ledger.amounts import amount_of
from bus.ledger.book import UNCHANGED, Account, Change, Place
from bus.ledger.checkpoint import Checkpoint
from bus.ledger.entries import LedgerEntry, Raised
from protocol.codec import encode
from protocol.messages import BudgetWarning
from tests.contract.calls import ALLOWED, DAY, NOW, a_hold, a_raise, the_cost

PLACES: tuple[Place, ...] = (("story", "s-1"), ("spec", "todo"), ("day", "2026-01-02"))

GOLDEN: list[tuple[LedgerEntry, bytes]] = [
    (
        Reserved(
            call="s-1.1/3/0#ab#1",
            effect="s-1.1/3/0",
            session="s-1.1",
            story="s-1",
            spec="todo",
            role="coder",
            model="claude-sonnet-5-5",
            day=DAY,
            at=NOW,
            hold=Amount(microdollars=1_500_000, tokens=20_000, milliseconds=600_000),
            repeats=True,
            priced=True,
            passes=("story",),
        ),
        b'{"entry":"reserved","call":"s-1.1/3/0#ab#1","effect":"s-1.1/3/0","day":"2026-01-02",'
        b'"at":"2026-01-02T03:04:05Z","hold":{"microdollars":1500000,"tokens":20000,"milliseconds":600000},'
        b'"session":"s-1.1","story":"s-1","spec":"todo","role":"coder","model":"claude-sonnet-5-5","repeats":true,'
        b'"priced":true,"passes":["story"]}',
    ),
    (
        Settled(
            call="s-1.1/3/0#ab#1",
            at=NOW,
            usage=Usage(
                input_tokens=1,
                cache_read_tokens=2,
                cache_write_5m_tokens=3,
                cache_write_1h_tokens=4,
                output_tokens=5,
                thinking_tokens=6,
            ),
            microdollars=7,
            milliseconds=8,
            estimated=True,
            priced=False,
            price_version="2026-11-09",
            miss_reason="tools_changed",
            outcome="ok",
        ),
        b'{"entry":"settled","call":"s-1.1/3/0#ab#1","at":"2026-01-02T03:04:05Z","usage":{"input_tokens":1,'
        b'"cache_read_tokens":2,"cache_write_5m_tokens":3,"cache_write_1h_tokens":4,"output_tokens":5,'
        b'"thinking_tokens":6},"microdollars":7,"milliseconds":8,"estimated":true,"priced":false,'
        b'"price_version":"2026-11-09","miss_reason":"tools_changed","outcome":"ok"}',
    ),
    (
        Raised(id="r-1", scope="spec", name="todo", by="ada", at=NOW, amount=Amount(microdollars=5_000_000), once=True),
        b'{"entry":"raised","id":"r-1","scope":"spec","name":"todo","by":"ada","at":"2026-01-02T03:04:05Z",'
        b'"amount":{"microdollars":5000000,"tokens":0,"milliseconds":0},"once":true}',
    ),
]


@pytest.mark.parametrize(("entry", "data"), GOLDEN)
def test_the_format_of_the_entries_is_what_it_was(entry: LedgerEntry, data: bytes) -> None:
    """They are kept for ever: a difference here makes old ledgers unreadable."""
    assert encode(entry) == data
    assert msgspec.json.decode(data, type=Entry) == entry


def folded(*entries: Entry) -> Book:
    book = Book()
    for sequence, entry in enumerate(entries, 1):
        book.add(entry, sequence)
    return book


def an_account(spent: int = 0, held: int = 0) -> Account:
    return Account(spent=Amount(microdollars=spent), held=Amount(microdollars=held))


HOLD = a_hold()
OTHER = a_hold(incarnation="two")

FOLDS: list[tuple[str, list[Entry], Account]] = [
    ("nothing", [], an_account()),
    ("a hold", [HOLD], an_account(held=10)),
    ("a hold twice", [HOLD, HOLD], an_account(held=10)),
    ("two holds", [HOLD, a_hold("s-1.1/2/0", 5)], an_account(held=15)),
    ("settled for less", [HOLD, the_cost(HOLD, 4)], an_account(spent=4)),
    ("settled for more", [HOLD, the_cost(HOLD, 40)], an_account(spent=40)),
    ("settled for nothing", [HOLD, the_cost(HOLD, 0)], an_account()),
    ("settled twice", [HOLD, the_cost(HOLD, 4), the_cost(HOLD, 5)], an_account(spent=4)),
    ("settled unknown", [the_cost(HOLD, 4)], an_account()),
    ("settled before it was held", [the_cost(HOLD, 4), HOLD], an_account(held=10)),
    ("tried again by another", [HOLD, OTHER], an_account(spent=10, held=10)),
    ("tried again, the first is late", [HOLD, OTHER, the_cost(HOLD, 1)], an_account(spent=10, held=10)),
    ("tried again and settled", [HOLD, OTHER, the_cost(OTHER, 3)], an_account(spent=13)),
    ("tried again after it was settled", [HOLD, the_cost(HOLD, 3), OTHER], an_account(spent=3, held=10)),
    ("the next attempt", [HOLD, the_cost(HOLD, 3), a_hold(attempt=1)], an_account(spent=3, held=10)),
    ("another story", [a_hold(story="s-2"), the_cost(a_hold(story="s-2"), 3)], an_account()),
]


@pytest.mark.parametrize(("entries", "expected"), [row[1:] for row in FOLDS], ids=[row[0] for row in FOLDS])
def test_the_fold_is_this_table(entries: list[Entry], expected: Account) -> None:
    assert folded(*entries).account("story", "s-1") == expected


def test_a_call_counts_in_its_story_its_spec_and_the_day_it_was_reserved_on() -> None:
    later = msgspec.structs.replace(the_cost(HOLD, 4), at=NOW + timedelta(days=1))

    book = folded(HOLD, later, a_hold("p-1/1/0", story="", spec="todo"), a_hold("main/1/0", story="", spec=""))

    assert [book.account(scope, name) for scope, name in PLACES] == [
        an_account(4),
        an_account(4, held=10),
        an_account(4, held=20),
    ]
    assert (book.names("story"), book.names("spec"), book.names("day")) == (("s-1",), ("todo",), ("2026-01-02",))


def test_what_changed_nothing_says_so_and_what_closed_a_call_says_how() -> None:
    book = Book()
    entries: list[Entry] = [HOLD, HOLD, OTHER, the_cost(HOLD), the_cost(OTHER, 3)]

    changes = [book.add(entry, n) for n, entry in enumerate(entries, 1)]

    assert changes[0] == Change(opened=HOLD)
    assert (changes[1], changes[3]) == (UNCHANGED, UNCHANGED)
    assert (changes[2].opened, changes[2].closed and changes[2].closed.settled) == (OTHER, None)
    assert changes[4].closed is not None
    assert changes[4].closed.reserved == OTHER
    assert [(moved.scope, moved.name) for moved in changes[4].moved] == list(PLACES)


def limited(scope: str, **most: int) -> Ceilings:
    return Ceilings(**{scope: Amount(**most)})


THREE = Amount(microdollars=30, tokens=300, milliseconds=3000)


@pytest.mark.parametrize(
    ("ceilings", "kind"),
    [
        (limited("story", microdollars=59), "dollars"),
        (limited("story", tokens=599), "tokens"),
        (limited("story", milliseconds=5999), "minutes"),
        (limited("spec", microdollars=59), "dollars"),
        (limited("spec", tokens=599), "tokens"),
        (limited("day", microdollars=59), "dollars"),
        (limited("day", milliseconds=5999), "minutes"),
    ],
)
def test_a_call_over_any_ceiling_is_refused_with_the_numbers(ceilings: Ceilings, kind: str) -> None:
    book = folded(a_hold(hold=THREE))
    (scope,) = (place for place in PLACES if ceilings.of(place[0]) != Amount())

    refusal = book.refusal(a_hold("s-1.1/2/0", hold=THREE), ceilings)

    assert refusal is not None
    assert (refusal.scope, refusal.name, refusal.kind) == (*scope, kind)
    numbers = [(THREE.microdollars, "dollars"), (THREE.tokens, "tokens"), (THREE.milliseconds, "minutes")]
    (each,) = (number for number, name in numbers if name == kind)
    assert (refusal.spent, refusal.held, refusal.wanted, refusal.ceiling) == (0, each, each, 2 * each - 1)


def test_a_call_that_just_fits_is_not_refused_and_nothing_is_no_ceiling() -> None:
    book = folded(a_hold(hold=THREE))
    wanted = a_hold("s-1.1/2/0", hold=THREE)

    assert book.refusal(wanted, limited("story", microdollars=60, tokens=600, milliseconds=6000)) is None
    assert book.refusal(wanted, Ceilings()) is None


def test_a_refusal_speaks_to_a_person() -> None:
    wanted = a_hold("s-1.1/2/0", hold=amount_of(dollars=0.2))
    refusal = folded(a_hold(hold=amount_of(dollars=4.9))).refusal(wanted, Ceilings(story=amount_of(dollars=5)))

    assert refusal is not None
    assert refusal.sentence == "story s-1 may cost $5.00: $0.00 spent, $4.90 held, $0.20 more wanted"


def test_the_room_is_the_least_of_all_scopes() -> None:
    book = folded(a_hold(hold=THREE))
    ceilings = Ceilings(
        story=Amount(microdollars=100), spec=Amount(microdollars=50, tokens=1000), day=Amount(tokens=200)
    )

    assert book.room(PLACES, ceilings) == Room(microdollars=20, tokens=0)
    assert book.room(PLACES[:1], ceilings) == Room(microdollars=70)
    assert book.room(PLACES, Ceilings()) == Room()


def test_a_raise_adds_to_what_is_there_and_makes_no_ceiling() -> None:
    raised = msgspec.structs.replace(a_raise(), amount=THREE)
    book = folded(raised, raised, msgspec.structs.replace(raised, id="r-2"))

    assert book.ceiling("story", "s-1", limited("story", microdollars=100)) == Amount(microdollars=160)
    assert book.ceiling("story", "s-2", limited("story", microdollars=100)) == Amount(microdollars=100)


def test_continue_once_opens_the_room_of_its_scope_and_is_used_up_by_the_call_that_needed_it() -> None:
    once, ceilings = a_raise(once=True), Ceilings(story=Amount(microdollars=100), day=Amount(microdollars=300))
    book = folded(a_hold(microdollars=95), once)
    wanted = a_hold("s-1.1/2/0", 150)

    assert book.room(PLACES, ceilings) == Room(microdollars=205)
    assert book.refusal(wanted, ceilings) is None
    assert book.passes(wanted, ceilings) == ("story",)
    book.add(msgspec.structs.replace(wanted, passes=("story",)), 3)
    assert isinstance(book.refusal(a_hold("s-1.1/3/0", 1), ceilings), Refusal)
    assert book.account("story", "s-1").passes == 0


@pytest.mark.parametrize(
    ("costs", "percents"),
    [
        ([79, 1], [[], [80]]),
        ([80], [[80]]),
        ([94, 1, 4, 1], [[80], [95], [], [100]]),
        ([100], [[80, 95, 100]]),
        ([200, 10], [[80, 95, 100], []]),
        ([79, 0], [[], []]),
    ],
)
def test_a_threshold_is_crossed_by_one_entry(costs: list[int], percents: list[list[int]]) -> None:
    book, told = Book(), []
    for n, cost in enumerate(costs):
        hold = a_hold(f"s-1.1/{n}/0", cost)
        book.add(hold, 2 * n + 1)
        told.append([each.percent for each in book.add(the_cost(hold, cost), 2 * n + 2).crossed(ALLOWED)])

    assert told == percents


def test_a_raised_ceiling_is_crossed_at_its_own_thresholds() -> None:
    first, second = a_hold("s-1.1/1/0", 90), a_hold("s-1.1/2/0", 70)
    book = folded(first, the_cost(first, 90), a_raise(100), second)

    crossed = book.add(the_cost(second, 70), 5).crossed(ALLOWED)

    assert [(each.percent, each.spent, each.ceiling) for each in crossed] == [(80, 160, 200)]
    assert crossed[0].sentence == "story s-1 has spent $0.0002 of $0.0002: 80 % or more"
    assert crossed[0].warning == BudgetWarning(
        scope="story", name="s-1", kind="dollars", percent=80, spent=0.00016, ceiling=0.0002
    )


# What holds whatever happens.

EFFECTS = [f"s-{story}.1/{n}/0" for story in (1, 2) for n in range(4)]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "reserve", "settle", "crash", "more", "once"]),
        st.sampled_from(EFFECTS),
        st.integers(1, 60),
        st.integers(0, 100),
    ),
    max_size=60,
)
ROOMY = Ceilings(story=Amount(microdollars=100), spec=Amount(microdollars=150), day=Amount(microdollars=170))


class Company:
    """Processes that reserve by the rules, die, and settle for no more than they held."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.book = Book()
        self.lives = dict.fromkeys(EFFECTS, 0)
        self.attempts = dict.fromkeys(EFFECTS, 0)
        self.allowed = {"s-1": 100, "s-2": 100}

    def play(self, steps: list[tuple[str, str, int, int]]) -> "Company":
        for do, effect, number, share in steps:
            getattr(self, do)(effect, number, share)
            self.check()
        return self

    def note(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.book.add(entry, len(self.entries))

    def reserve(self, effect: str, number: int, _: int) -> None:
        held = self.book.hold_of(effect)
        if held is not None and held.incarnation == str(self.lives[effect]):
            return
        self.attempts[effect] += 1
        life, attempt = str(self.lives[effect]), self.attempts[effect]
        wanted = a_hold(effect, number, incarnation=life, attempt=attempt, story=effect.partition(".")[0])
        if self.book.refusal(wanted, ROOMY) is None:
            wanted = msgspec.structs.replace(wanted, passes=self.book.passes(wanted, ROOMY))
            self.allowed[wanted.story] += number if "story" in wanted.passes else 0
            self.note(wanted)

    def settle(self, effect: str, _: int, share: int) -> None:
        held = self.book.hold_of(effect)
        if held is not None:
            self.note(the_cost(held, held.hold.microdollars * share // 100))

    def crash(self, effect: str, *_: int) -> None:
        self.lives[effect] += 1

    def once(self, effect: str, *_: int) -> None:
        self.note(a_raise(identifier=f"r-{len(self.entries)}", name=effect.partition(".")[0], once=True))

    def more(self, effect: str, number: int, _: int) -> None:
        story = effect.partition(".")[0]
        self.allowed[story] += number
        self.note(a_raise(number, identifier=f"r-{len(self.entries)}", name=story))

    def check(self) -> None:
        for story, most in self.allowed.items():
            assert self.book.account("story", story).claimed.microdollars <= most
        assert self.book.account("spec", "todo").claimed.microdollars <= 150
        assert self.book.account("day", "2026-01-02").claimed.microdollars <= 170


@given(STEPS)
def test_no_interleaving_goes_over_a_ceiling(steps: list[tuple[str, str, int, int]]) -> None:
    Company().play(steps)


@given(STEPS, st.randoms(use_true_random=False))
def test_the_order_in_which_calls_are_settled_does_not_matter(
    steps: list[tuple[str, str, int, int]], chance: Random
) -> None:
    company = Company().play([step for step in steps if step[0] != "settle"])
    costs = [the_cost(held, n) for n, held in enumerate(company.book.holds())]
    mixed = chance.sample(costs, len(costs))

    assert folded(*company.entries, *costs).totals() == folded(*company.entries, *mixed).totals()


@given(STEPS, st.integers(0, 60))
def test_going_on_from_a_checkpoint_is_the_same_as_reading_everything(
    steps: list[tuple[str, str, int, int]], at: int
) -> None:
    entries = Company().play(steps).entries
    stored = encode(Checkpoint(version=1, digest="", totals=folded(*entries[:at]).totals()))

    book = Book.restored(msgspec.json.decode(stored, type=Checkpoint).totals)
    for sequence, entry in enumerate(entries[at:], at + 1):
        book.add(entry, sequence)

    assert book.totals() == folded(*entries).totals()


@given(STEPS)
def test_each_threshold_is_crossed_at_most_once_between_two_raises(steps: list[tuple[str, str, int, int]]) -> None:
    book, seen = Book(), list[tuple[str, int]]()
    for sequence, entry in enumerate(Company().play(steps).entries, 1):
        if isinstance(entry, Raised):
            seen.clear()
        seen += [(each.name, each.percent) for each in book.add(entry, sequence).crossed(ROOMY)]
        assert len(seen) == len(set(seen))


def test_ten_thousand_entries_are_folded_at_once() -> None:
    holds = [a_hold(f"s-{n % 100}.1/{n}/0", story=f"s-{n % 100}") for n in range(5000)]
    lines = [encode(entry) for hold in holds for entry in (hold, the_cost(hold, 3))]
    decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)

    begun = time.process_time()
    book = folded(*map(decoder.decode, lines))

    assert time.process_time() - begun < 2.0
    assert book.account("day", date(2026, 1, 2).isoformat()) == an_account(spent=15_000)
    assert all(first < second for first, second in pairwise(book.names("story")))
