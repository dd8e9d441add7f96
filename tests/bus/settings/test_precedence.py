"""Who wins: flags, then variables, then callboard.toml, then defaults; and how settings are named."""

import re
import string
from itertools import product
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.settings import (
    Loaded,
    SecretReference,
    load,
)
from bus.settings.catalogue import SETTINGS, Setting, build, list_settings
from bus.settings.section import Section
from bus.settings.values import Given, read_value
from tests.bus.settings.projects import EACH_SETTING, a_project


@pytest.mark.parametrize(("flag", "variable", "nats", "file"), list(product([True, False], repeat=4)))
def test_the_strongest_source_that_gives_a_url_wins(
    tmp_path: Path, flag: bool, variable: bool, nats: bool, file: bool
) -> None:
    root = a_project(tmp_path, '[bus]\nurl = "nats://file"' if file else "")
    flags = {"bus.url": "nats://flag" if flag else None}
    environ = {"CALLBOARD_BUS_URL": "nats://variable"} if variable else {}
    environ |= {"NATS_URL": "nats://nats"} if nats else {}

    loaded = load(flags, environ, root)

    ranked = [
        (flag, "nats://flag", "flag --bus-url"),
        (variable, "nats://variable", "CALLBOARD_BUS_URL"),
        (nats, "nats://nats", "NATS_URL"),
        (file, "nats://file", "callboard.toml"),
        (True, "", "default"),
    ]
    expected = next((url, source) for given_there, url, source in ranked if given_there)
    assert (loaded.settings.bus.url, loaded.sources["bus.url"]) == expected


# Two good values of each setting, as a variable has them; what else must be set for them to make sense follows below.
SAMPLES: dict[str, tuple[str, str]] = {
    "project": ("one", "two"),
    "edition": ("classic", "standard"),
    "state_folder": ("/srv/one", "/srv/two"),
    "log_level": ("debug", "error"),
    "bus.url": ("nats://one:4222", "tls://two:4222"),
    "bus.credentials": ("/one.creds", "/two.creds"),
    "bus.user": ("one", "two"),
    "bus.password": ("env:ONE", "keyring:service/two"),
    "bus.token": ("file:/one", "env:TWO"),
    "bus.replicas": ("3", "5"),
    "bus.publish_seconds": ("0.5", "2.5"),
    "bus.reconnect_wait_seconds": ("0.5", "2.5"),
    "bus.buffered_bytes_max": ("2000000", "3000000"),
    "bus.lease_seconds": ("25", "30"),
    "bus.ack_wait_seconds": ("90.5", "120.5"),
    "bus.message_bytes_max": ("70000", "80000"),
    "bus.tls.ca": ("/one.pem", "/two.pem"),
    "bus.tls.cert": ("/one.pem", "/two.pem"),
    "bus.tls.key": ("/one.pem", "/two.pem"),
    "bus.tls.hostname": ("one.example", "two.example"),
    "server.port": ("4222", "4333"),
    "server.sync": ("default", "always"),
    "server.store_bytes_max": ("1000", "2000"),
    "server.binary": ("/one", "/two"),
    "actor.suspend_seconds": ("600.5", "1200.5"),
    "actor.stop_seconds": ("1.5", "2.5"),
    "supervisor.coders": ("0", "500"),
    "supervisor.ready_seconds": ("1.5", "2.5"),
    "supervisor.hung_seconds": ("11.5", "12.5"),
    "supervisor.stuck_seconds": ("600.5", "1200.5"),
    "supervisor.recycle_seconds": ("60.5", "120.5"),
    "supervisor.attempts_max": ("1", "5"),
    "supervisor.requeue_seconds": ("1.5", "2.5"),
    "supervisor.processes": ("exec", "fork"),
    "health.interval_seconds": ("1.5", "2.5"),
    "budget.story_dollars": ("2.5", "7.5"),
    "budget.story_tokens": ("1000", "2000"),
    "budget.story_minutes": ("30.5", "60.5"),
    "budget.spec_dollars": ("2.5", "7.5"),
    "budget.spec_tokens": ("1000", "2000"),
    "budget.spec_minutes": ("30.5", "60.5"),
    "budget.day_dollars": ("2.5", "7.5"),
    "budget.day_tokens": ("1000", "2000"),
    "budget.day_minutes": ("30.5", "60.5"),
    "budget.prices": ("/etc/prices.toml", "/home/ada/prices.toml"),
    "health.timeout_seconds": ("1.5", "2.5"),
    "health.healthy_after": ("1", "3"),
    "health.unhealthy_after": ("1", "3"),
    "health.model": ("always", "never"),
    "health.probes": ("one:PROBE", "one.two:PROBES, three:_PROBE"),
    "model.base_url": ("http://one", "https://two:8080/api"),
    "model.key": ("env:ONE", "env:TWO"),
    "model.attempts_max": ("1", "3"),
    "model.total_seconds": ("1.5", "2.5"),
    "model.connect_seconds": ("1.5", "2.5"),
    "model.stall_seconds": ("1.5", "2.5"),
    "model.retry_after_seconds_max": ("1.5", "2.5"),
    "model.pm.name": ("one", "vendor/two:3"),
    "model.pm.effort": ("low", "max"),
    "model.pm.max_tokens": ("256", "1000"),
    "model.pm.base_url": ("http://one", "https://two:8080/api"),
    "model.pm.key": ("env:ONE", "env:TWO"),
    "model.architect.name": ("one", "vendor/two:3"),
    "model.architect.effort": ("low", "max"),
    "model.architect.max_tokens": ("256", "1000"),
    "model.architect.base_url": ("http://one", "https://two:8080/api"),
    "model.architect.key": ("env:ONE", "env:TWO"),
    "model.coder.name": ("one", "vendor/two:3"),
    "model.coder.effort": ("low", "max"),
    "model.coder.max_tokens": ("256", "1000"),
    "model.coder.base_url": ("http://one", "https://two:8080/api"),
    "model.coder.key": ("env:ONE", "env:TWO"),
    "parts.pm": ("one:PM", "one.two:PM"),
    "parts.architect": ("one:ARCHITECT", "one.two:ARCHITECT"),
    "parts.coder": ("one:CODER", "one.two:CODER"),
    "parts.architect_classic": ("one:ARCHITECT", "one.two:ARCHITECT"),
    "parts.coder_classic": ("one:CODER", "one.two:CODER"),
    "parts.web": ("one:WEB", "one.two:WEB"),
    "server.start_seconds": ("1.5", "2.5"),
    "server.stop_seconds": ("1.5", "2.5"),
}
COMPANIONS: dict[str, dict[str, str]] = {
    "bus.user": {"CALLBOARD_BUS_PASSWORD": "env:P"},
    "bus.password": {"CALLBOARD_BUS_USER": "somebody"},
    "bus.replicas": {"CALLBOARD_BUS_URL": "nats://cluster"},
    "bus.buffered_bytes_max": {"CALLBOARD_BUS_MESSAGE_BYTES_MAX": "65536"},
    "bus.message_bytes_max": {"CALLBOARD_BUS_BUFFERED_BYTES_MAX": str(1024**3)},
    "bus.tls.cert": {"CALLBOARD_BUS_TLS_KEY": "/key"},
    "bus.tls.key": {"CALLBOARD_BUS_TLS_CERT": "/cert"},
}


def value_at(tree: object, key: str) -> object:
    for name in key.split("."):
        tree = getattr(tree, name)
    return tree


def as_toml(setting: Setting, text: str) -> str:
    """The line in callboard.toml that says what `text` says in a variable."""
    kind = type(setting.default)
    return f"{setting.key} = {text}" if kind in (int, float) else f'{setting.key} = "{text}"'


def got(loaded: Loaded, setting: Setting) -> tuple[str, str]:
    value = value_at(loaded.settings, setting.key)
    return str(value), loaded.sources[setting.key]


@EACH_SETTING
def test_every_setting_takes_file_over_default_variable_over_file_and_flag_over_variable(
    tmp_path: Path, setting: Setting
) -> None:
    first, second = SAMPLES[setting.key]
    companions = COMPANIONS.get(setting.key, {})
    plain, with_file = tmp_path / "plain", tmp_path / "filed"
    plain.mkdir()
    with_file.mkdir()
    bare = a_project(plain)
    filed = a_project(with_file, as_toml(setting, first))

    default = load({}, {}, bare)
    from_file = load({}, companions, filed)
    from_variable = load({}, {**companions, setting.variable: second}, filed)
    from_flag = load({setting.key: first}, {**companions, setting.variable: second}, filed)

    fallback = "demo" if setting.key == "project" else str(setting.default)
    assert got(default, setting) == (fallback, "default")
    assert got(from_file, setting) == (first, "callboard.toml")
    assert got(from_variable, setting) == (second, setting.variable)
    assert got(from_flag, setting) == (first, f"flag {setting.flag}")


def test_an_empty_variable_of_ours_takes_back_what_the_file_says_and_an_empty_nats_url_does_not(tmp_path: Path) -> None:
    root = a_project(tmp_path, 'bus.url = "nats://file"')

    assert load({}, {"CALLBOARD_BUS_URL": ""}, root).settings.bus.url == ""
    assert load({}, {"NATS_URL": ""}, root).settings.bus.url == "nats://file"


def test_flags_may_be_typed_or_text(tmp_path: Path) -> None:
    root = a_project(tmp_path)

    assert load({"server.port": 4222}, {}, root) == load({"server.port": "4222"}, {}, root)


def test_no_two_settings_share_a_variable_or_a_flag() -> None:
    variables = [setting.variable for setting in SETTINGS.values()]
    flags = [setting.flag for setting in SETTINGS.values()]

    assert len(set(variables)) == len(variables)
    assert len(set(flags)) == len(flags)


@EACH_SETTING
def test_every_setting_has_a_variable_a_meaning_and_words_for_what_it_takes(setting: Setting) -> None:
    assert re.fullmatch(r"CALLBOARD_[A-Z][A-Z_]*[A-Z]", setting.variable)
    assert setting.variable == "CALLBOARD_" + "_".join(setting.key.upper().split("."))
    assert setting.meaning.endswith(".")
    assert setting.expected


def test_a_nested_key_has_the_documented_names() -> None:
    setting = SETTINGS["bus.tls.ca"]

    assert (setting.variable, setting.flag) == ("CALLBOARD_BUS_TLS_CA", "--bus-tls-ca")


NAMES = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=20).map(lambda text: f"x{text}")


def written(setting: Setting) -> st.SearchStrategy[tuple[str, object]]:
    """A good value as a variable has it, and what is to become of it."""
    match setting.stands_for:
        case "path":
            return NAMES.map(lambda name: (f"/elsewhere/{name}", f"/elsewhere/{name}"))
        case "url":
            return st.integers(1, 65535).map(lambda port: (f"tls://host:{port}", f"tls://host:{port}"))
        case "secret":
            variables = st.from_regex(r"\A[A-Z_][A-Z0-9_]{0,9}\Z")
            return variables.map(lambda name: (f"env:{name}", SecretReference(kind="env", name=name)))
        case "plain":
            return plain_values(setting).map(lambda value: (str(value), value))


def plain_values(setting: Setting) -> st.SearchStrategy[object]:
    kind: Any = get_args(setting.type)[0]
    least = max((meta.ge for meta in setting.type.__metadata__ if meta.ge), default=0)
    most = max((meta.le for meta in setting.type.__metadata__ if meta.le), default=0)
    if setting.choices:
        return st.sampled_from(get_args(kind))
    if kind is int:
        return st.integers(least, most)
    if kind is float:
        return st.floats(least, most, exclude_min=not least)
    assert kind is str
    patterns = [meta.pattern for meta in setting.type.__metadata__ if meta.pattern]
    return st.from_regex(patterns[0]) if patterns else NAMES


@pytest.fixture(scope="module")
def empty_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_project(tmp_path_factory.mktemp("settings"))


@EACH_SETTING
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_whatever_a_variable_may_say_arrives_as_its_value(
    empty_project: Path, setting: Setting, data: st.DataObject
) -> None:
    text, expected = data.draw(written(setting))

    loaded = load({}, {**COMPANIONS.get(setting.key, {}), setting.variable: text}, empty_project)

    assert value_at(loaded.settings, setting.key) == expected


def test_a_section_that_somebody_adds_is_described_and_built_from_its_fields_alone(tmp_path: Path) -> None:
    class Inner(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
        loud: Annotated[bool, msgspec.Meta(description="Whether.")] = False

    class Outer(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
        inner: Inner = Inner()

    [setting] = list_settings(Outer)
    value = read_value(Given(setting=setting, value="true", origin="variable", source="X", base=tmp_path, home=""))

    assert (setting.key, setting.expected, setting.default) == ("inner.loud", "true or false", False)
    assert build(Outer, {"inner.loud": value}) == Outer(inner=Inner(loud=True))
