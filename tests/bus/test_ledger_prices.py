"""The table of prices: each row of the list, what is not on it, and a person's own."""

import re
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.ledger import Room, Usage, load_prices
from bus.ledger.prices import Priced
from bus.settings import SettingsError

TODAY = date(2026, 11, 19)
MILLION = 1_000_000
PRICES = load_prices()

# Model, day, and dollars for a million tokens: input, 5 minutes' write, one hour's write, read, output.
LIST = [
    ("claude-opus-5-5", TODAY, (4, 5, 8, 0.20, 20)),
    ("claude-sonnet-5-5", TODAY, (2, 2.5, 4, 0.10, 10)),
    ("claude-sonnet-5-5", date(2026, 10, 7), (2, 2.5, 4, 0.10, 10)),
    ("claude-sonnet-5-5", date(2026, 10, 6), (2, 2.5, 4, 0.20, 10)),
    ("claude-fable-5-2", TODAY, (8, 10, 16, 0.20, 40)),
    ("claude-fable-5-1", TODAY, (10, 12.5, 20, 0.25, 50)),
    *((f"claude-opus-{version}", TODAY, (5, 6.25, 10, 0.50, 25)) for version in ("5", "4-8", "4-7", "4-6", "4-5")),
    ("claude-sonnet-5", TODAY, (2, 2.5, 4, 0.20, 10)),
    ("claude-haiku-4-5", TODAY, (1, 1.25, 2, 0.10, 5)),
    ("claude-haiku-5-5", TODAY, (0.50, 0.625, 1.00, 0.05, 2.50)),  # a million is a large prompt
]
EACH = ("input_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "cache_read_tokens")


def microdollars(model: str, day: date = TODAY, **tokens: int) -> int:
    priced = PRICES.price_of(model, Usage(**tokens), day)
    assert priced.priced
    return priced.microdollars


@pytest.mark.parametrize(("model", "day", "dollars"), LIST)
def test_each_row_of_the_list(model: str, day: date, dollars: tuple[float, ...]) -> None:
    found = [microdollars(model, day, **{kind: MILLION}) for kind in EACH]
    with_output = microdollars(model, day, input_tokens=MILLION, output_tokens=MILLION)

    assert [*found, with_output - found[0]] == [round(each * MILLION) for each in dollars]


def test_a_small_prompt_of_haiku_is_cheaper_and_what_is_cached_makes_it_large() -> None:
    small = dict.fromkeys(EACH, 25_000)

    assert microdollars("claude-haiku-5-5", TODAY, **small, output_tokens=1000) == 2500 + 3125 + 5000 + 250 + 500
    large = {**small, "cache_read_tokens": 25_001}
    assert (
        microdollars("claude-haiku-5-5", TODAY, **large, output_tokens=1000) == 12_500 + 15_625 + 25_000 + 1251 + 2500
    )


@pytest.mark.parametrize("model", ["claude-sonnet-5-5-20261007", "claude-sonnet-5-5-latest", "claude-sonnet-5-5"])
def test_a_dated_id_is_its_familys(model: str) -> None:
    assert microdollars(model, output_tokens=MILLION) == 10 * MILLION


@pytest.mark.parametrize("model", ["", "gpt-5", "claude-sonnet-5-5-fast", "claude-sonnet", "claude-mythos-5-2"])
def test_an_unknown_model_is_unpriced_and_counts_as_the_dearest(model: str) -> None:
    usage = Usage(cache_read_tokens=MILLION, output_tokens=MILLION)

    assert PRICES.price_of(model, usage, TODAY) == Priced(microdollars=50_250_000, version=PRICES.version, priced=False)


def test_before_its_first_day_a_model_has_no_price() -> None:
    assert not PRICES.price_of("claude-fable-5-2", Usage(input_tokens=1), date(2026, 11, 8)).priced


def test_less_than_the_smallest_unit_is_one_and_nothing_is_nothing() -> None:
    assert microdollars("claude-haiku-5-5", cache_read_tokens=1) == 1
    assert microdollars("claude-haiku-5-5", cache_read_tokens=100) == 1
    assert microdollars("claude-haiku-5-5", cache_read_tokens=101) == 2
    assert microdollars("claude-haiku-5-5") == 0


TOKENS = st.integers(0, 300_000)
MODELS = st.sampled_from([row[0] for row in LIST] + ["unknown"])


@given(MODELS, st.tuples(TOKENS, TOKENS, TOKENS, TOKENS), TOKENS)
def test_a_hold_covers_whatever_the_call_becomes(model: str, prompt: tuple[int, ...], output: int) -> None:
    usage = Usage(**dict(zip(EACH, prompt, strict=True)), output_tokens=output)

    hold = PRICES.hold_for(model, usage.prompt_tokens + 7, output + 3, TODAY)

    assert hold.microdollars >= PRICES.price_of(model, usage, TODAY).microdollars


@given(MODELS, TOKENS, st.integers(0, 3 * MILLION), st.integers(0, 400_000))
def test_what_may_be_said_within_a_room_fits_it_and_one_token_more_does_not(
    model: str, prompt_tokens: int, most: int, tokens: int
) -> None:
    room = Room(microdollars=most, tokens=tokens)

    allowed = PRICES.max_tokens_within(room, model, prompt_tokens, TODAY)

    def fits(said: int) -> bool:
        return (
            PRICES.hold_for(model, prompt_tokens, said, TODAY).microdollars <= most and prompt_tokens + said <= tokens
        )

    assert allowed is not None
    assert fits(allowed) or allowed == 0
    assert not fits(allowed + 1)


def test_without_a_ceiling_anything_may_be_said() -> None:
    assert PRICES.max_tokens_within(Room(), "claude-opus-5-5", 1000, TODAY) is None


ROW = "input = 1\ncache_write_5m = 1\ncache_write_1h = 1\ncache_read = 0.1\noutput = 3\n"
OWN = f'version = "mine"\n[[model]]\nname = "local-7b"\n{ROW}'


def written(folder: Path, text: str) -> str:
    path = folder / "prices.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_persons_own_prices_stand_beside_the_others_and_before_them(tmp_path: Path) -> None:
    table = load_prices(written(tmp_path, f'{OWN}[[model]]\nname = "claude-opus-5-5"\n{ROW}'))

    assert table.version == f"{PRICES.version}+mine"
    assert table.price_of("local-7b", Usage(output_tokens=MILLION), TODAY).microdollars == 3 * MILLION
    assert table.price_of("claude-opus-5-5", Usage(output_tokens=MILLION), TODAY).microdollars == 3 * MILLION
    assert table.price_of("claude-sonnet-5-5", Usage(output_tokens=MILLION), TODAY).microdollars == 10 * MILLION


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OWN.replace("input = 1", "input = -1"), ":4: model[0].input expected `float` >= 0.0"),
        (OWN.replace("input = 1", "input = nan"), ":4: model[0].input expected `float` >= 0.0"),
        (OWN.replace("output = 3", "outptu = 3"), "model[0] object contains unknown field `outptu`"),
        (OWN.replace("output = 3\n", ""), "object missing required field `output`"),
        (OWN.replace('version = "mine"\n', ""), "object missing required field `version`"),
        (OWN + OWN.partition("\n")[2], "has two rows of local-7b from the same day (the beginning) on"),
        ("version = ", ":1 is not valid TOML"),
    ],
)
def test_a_file_that_is_wrong_says_where_and_what(tmp_path: Path, text: str, expected: str) -> None:
    path = written(tmp_path, text)

    with pytest.raises(SettingsError) as caught:
        load_prices(path)

    assert expected in str(caught.value)
    assert str(caught.value).startswith(path)


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml"):
        load_prices(str(tmp_path / "none.toml"))


def test_the_sample_in_the_documentation_can_be_used(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "budgets.md").read_text(encoding="utf-8")
    (sample,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)

    table = load_prices(written(tmp_path, sample))

    usage = Usage(input_tokens=MILLION, output_tokens=MILLION)
    assert table.price_of("local-7b", usage, TODAY) == Priced(microdollars=0, version=table.version, priced=True)
