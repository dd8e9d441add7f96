"""The settings loader: who wins, what is refused and how it is told, and that no secret ever shows."""

import hashlib
import os
import re
import string
import sys
import tomllib
import traceback
import types
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bus.settings import (
    Loaded,
    Problem,
    SecretReference,
    SecretUnavailableError,
    SecretValue,
    SettingsError,
    StateFolderError,
    find_root,
    load,
    make_state_folder,
    project_name,
    redact_url,
    resolve,
    state_folder,
)
from bus.settings.catalogue import SETTINGS, Setting, build, list_settings
from bus.settings.folders import PROJECT_PATTERN
from bus.settings.model import Section, Settings
from bus.settings.page import render_page
from bus.settings.servers import parse_servers
from bus.settings.toml_file import FILE_BYTES_MAX
from bus.settings.values import Given, read_value

REPOSITORY = Path(__file__).parents[2]
PLANTED = "hunter2-planted"
EACH_SETTING = pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.key)


def a_project(folder: Path, toml: str | bytes | None = "") -> Path:
    """A project folder called demo; None leaves callboard.toml out, and .git marks it instead."""
    root = folder / "demo"
    root.mkdir()
    if toml is None:
        (root / ".git").mkdir()
    else:
        (root / "callboard.toml").write_bytes(toml.encode() if isinstance(toml, str) else toml)
    return root


def problems_of(
    start: Path, environ: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> tuple[Problem, ...]:
    with pytest.raises(SettingsError) as caught:
        load(flags or {}, environ or {}, start)
    return caught.value.problems


def refused(
    start: Path, environ: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> list[str]:
    """Every problem that loading tells, as text."""
    return [str(problem) for problem in problems_of(start, environ, flags)]


# --- who wins


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
    "bus.lease_seconds": ("30", "40"),
    "bus.ack_wait_seconds": ("90.5", "120.5"),
    "bus.message_bytes_max": ("5000", "6000"),
    "bus.tls.ca": ("/one.pem", "/two.pem"),
    "bus.tls.cert": ("/one.pem", "/two.pem"),
    "bus.tls.key": ("/one.pem", "/two.pem"),
    "bus.tls.hostname": ("one.example", "two.example"),
    "server.port": ("4222", "4333"),
    "server.sync": ("default", "always"),
    "server.store_bytes_max": ("1000", "2000"),
    "server.binary": ("/one", "/two"),
    "server.start_seconds": ("1.5", "2.5"),
    "server.stop_seconds": ("1.5", "2.5"),
}
COMPANIONS: dict[str, dict[str, str]] = {
    "bus.user": {"CALLBOARD_BUS_PASSWORD": "env:P"},
    "bus.password": {"CALLBOARD_BUS_USER": "somebody"},
    "bus.replicas": {"CALLBOARD_BUS_URL": "nats://cluster"},
    "bus.buffered_bytes_max": {"CALLBOARD_BUS_MESSAGE_BYTES_MAX": "4096"},
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


# --- names


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
        return st.floats(0, most, exclude_min=True)
    assert kind is str
    return st.from_regex(PROJECT_PATTERN) if setting.key == "project" else NAMES


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


# --- what is refused


PORT = "server.port must be a whole number from 0 up to 65535"
PROJECT = "project must be at most 32 of a-z, 0-9, - and _, the first a letter or digit"
URL = "bus.url must be nats://HOST:PORT or tls://HOST:PORT (several with commas between)"
UNPRINTABLE = "bus.user has control characters in it, or is not UTF-8; write it again without them"
WHOLE_PATH = "write the whole path"
EDITION = "edition must be standard or classic"
LEVEL = "log_level must be debug, info, warning or error"
CIRCLE = "bus.token refers to CALLBOARD_BUS_TOKEN, which is a setting itself; give the secret its own variable"


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("[bus]\nrelicas = 3", "2: bus.relicas is not a setting; did you mean bus.replicas?"),
        ("url = 'x'", "1: url is not a setting; did you mean bus.url?"),
        ("[buss]\nurl = 'x'", "1: buss is not a setting; did you mean bus?"),
        ("state-folder = '/x'", "1: state-folder is not a setting; did you mean state_folder?"),
        ("zzz = 1", "1: zzz is not a setting"),
        ("bus = 1", "1: bus is a section, not a setting; write its settings below a line [bus]"),
        ('"\\u001b[2J" = 1', '1: "\\u001b[2J" is not a setting'),
        ("bus.replicas = 2", "1: bus.replicas must be 1, 3 or 5, not 2"),
        ("bus.replicas = true", "1: bus.replicas must be 1, 3 or 5, not true"),
        ("[server]\nport = '4222'", f'2: {PORT}, not "4222"'),
        ("server.port = [1]", f"1: {PORT}, not an array"),
        ("bus.user = {a = 1}", "1: bus.user must be text, not a table"),
        ('bus.user = "a\\nb"', f"1: {UNPRINTABLE}"),
        ("server.sync = 'Always'", '1: server.sync must be always or default, not "Always"; did you mean always?'),
        ("project = 'My App!'", f'1: {PROJECT}, not "My App!"; try my-app'),
        ("server.binary = '~/x'", f"1: server.binary begins with ~, and HOME is not set; {WHOLE_PATH}"),
        ("server.binary = '~b/x'", f'1: server.binary is "~b/x", and only ~ itself is expanded; {WHOLE_PATH}'),
        ("bus.url = 'http://h'", f'1: {URL}; "http://h" is not a server URL'),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_line_what_is_wrong_and_what_to_do(
    tmp_path: Path, toml: str, expected: str
) -> None:
    root = a_project(tmp_path, toml)

    assert refused(root) == [f"{root}/callboard.toml:{expected}"]


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("CALLBOARD_EDITION", "Clasic", f'{EDITION}, not "Clasic"; did you mean classic?'),
        ("CALLBOARD_LOG_LEVEL", "WARN", f'{LEVEL}, not "WARN"; did you mean warning?'),
        ("CALLBOARD_SERVER_PORT", "soon", f'{PORT}, not "soon"'),
        ("CALLBOARD_SERVER_PORT", "", f'{PORT}, not ""'),
        ("CALLBOARD_BUS_USER", "\udcff", UNPRINTABLE),
        ("CALLBOARD_PROJECT", "demo\n", f'{PROJECT}, not "demo\\n"; try demo'),
        ("CALLBOARD_BUS_TOKEN", "env:CALLBOARD_BUS_TOKEN", CIRCLE),
    ],
)
def test_a_mistake_in_a_variable_is_told_with_its_name(tmp_path: Path, variable: str, text: str, expected: str) -> None:
    assert refused(a_project(tmp_path), {variable: text}) == [f"{variable}: {expected}"]


def test_a_mistake_in_a_flag_is_told_with_its_name(tmp_path: Path) -> None:
    problems = refused(a_project(tmp_path), flags={"server.port": -1, "bus.ulr": "x"})

    assert problems == [
        f"flag --server-port: {PORT}, not -1",
        "flag --bus-ulr: bus.ulr is not a setting; did you mean bus.url?",
    ]


def test_an_unknown_variable_of_ours_is_told_and_others_are_not_looked_at(tmp_path: Path) -> None:
    problems = refused(a_project(tmp_path), {"CALLBOARD_BUS_URI": "x", "BUS_URL": "x", "callboard_x": "x"})

    assert problems == ["environment: CALLBOARD_BUS_URI is not a setting; did you mean CALLBOARD_BUS_URL?"]


@pytest.mark.parametrize("written_number", ["nan", "inf", "-inf", "0", "-1", "3601"])
@pytest.mark.parametrize("key", [key for key, setting in SETTINGS.items() if isinstance(setting.default, float)])
def test_no_duration_is_endless_or_nothing(tmp_path: Path, key: str, written_number: str) -> None:
    root = a_project(tmp_path, f"{key} = {written_number}")

    [in_file, in_variable] = refused(root, {SETTINGS[key].variable: written_number})

    assert "must be a number over 0 up to 3600" in in_file
    assert "must be a number over 0 up to 3600" in in_variable


@pytest.mark.parametrize(
    ("toml", "keys"),
    [
        ('bus.user = "u"', "bus.user and bus.password"),
        ('bus.password = "env:P"', "bus.user and bus.password"),
        ('bus.credentials = "c"\nbus.token = "env:T"', "bus.credentials and bus.token"),
        ('bus.tls.cert = "c"', "bus.tls.cert and bus.tls.key"),
        ("bus.replicas = 3", "bus.replicas and bus.url"),
        ('bus = {replicas = 3, url = "nats://c", lease_seconds = 11}', "bus.replicas and bus.lease_seconds"),
        ("bus.buffered_bytes_max = 65536", "bus.buffered_bytes_max and bus.message_bytes_max"),
        ('state_folder = "state"', "state_folder"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_by_their_names(tmp_path: Path, toml: str, keys: str) -> None:
    root = a_project(tmp_path, toml)

    [problem] = refused(root)

    assert problem.startswith(f"{root}/callboard.toml:1")
    assert f": {keys} " in problem


def test_a_contradiction_names_every_source_and_is_not_guessed_from_a_refused_value(tmp_path: Path) -> None:
    root = a_project(tmp_path, 'bus.token = "env:T"\nbus.url = 3')
    file = root / "callboard.toml"

    problems = refused(root, {"CALLBOARD_BUS_CREDENTIALS": "/c", "CALLBOARD_BUS_REPLICAS": "3"})

    assert len(problems) == 2
    assert problems[0].startswith(f"{file}:2: bus.url must be")
    assert problems[1].startswith(
        f"CALLBOARD_BUS_CREDENTIALS and {file}:1: bus.credentials and bus.token are different"
    )


def test_all_problems_of_all_sources_are_told_at_once(tmp_path: Path) -> None:
    root = a_project(tmp_path, 'project = "X"\nedition = "both"\n[bus]\nreplicas = 4\nnonsense = 1')
    environ = {"CALLBOARD_LOG_LEVEL": "loud", "CALLBOARD_NONSENSE": "1", "NATS_URL": "ftp://h"}

    with pytest.raises(SettingsError) as caught:
        load({"server.port": "http", "nonsense": 1}, environ, root)

    in_file = {"project", "edition", "bus.replicas", "bus.nonsense"}
    in_environment = {"log_level", "bus.url", "CALLBOARD_NONSENSE"}
    in_flags = {"server.port", "nonsense"}
    assert {problem.key for problem in caught.value.problems} == in_file | in_environment | in_flags
    assert str(caught.value).startswith("9 problems in the settings:\n  - ")
    assert all(str(problem) in str(caught.value) for problem in caught.value.problems)


def test_a_broken_file_does_not_hide_what_is_wrong_elsewhere(tmp_path: Path) -> None:
    root = a_project(tmp_path, 'bus.url = "nats://cluster\n')

    problems = refused(root, {"CALLBOARD_EDITION": "both", "CALLBOARD_BUS_REPLICAS": "3"})

    assert [problem.partition(" ")[0] for problem in problems] == [f"{root}/callboard.toml:1", "CALLBOARD_EDITION:"]


def test_a_value_is_checked_even_where_another_source_overrides_it(tmp_path: Path) -> None:
    root = a_project(tmp_path, "server.port = 70000")

    [problem] = refused(root, flags={"server.port": 4222})

    assert "not 70000" in problem


def test_the_line_is_right_whatever_stands_before_it(tmp_path: Path) -> None:
    lines = [
        "# [server]",
        'state_folder = """',
        "port = 1",
        "[server]",
        '""""',
        "edition = 'x' # ''' [",
        "[ 'server' ] # port = 2",
        "ports = [ # ]",
        "  { port = 3 }, ']',",
        "]",
        'sync = "\\"["',
        "'port' = 'four'",
        "[bus.tls]",
        "ca = 1",
    ]
    root = a_project(tmp_path, "\r\n".join(lines))

    places = {problem.key: problem.place.rpartition(":")[2] for problem in problems_of(root)}

    assert places == {
        "state_folder": "2",
        "edition": "6",
        "server.ports": "8",
        "server.sync": "11",
        "server.port": "12",
        "bus.tls.ca": "14",
    }


def test_a_file_of_nothing_but_mistakes_is_told_briefly(tmp_path: Path) -> None:
    root = a_project(tmp_path, "".join(f"k{number} = 1\n" for number in range(5000)))

    problems = refused(root)

    assert len(problems) == 101
    assert problems[-1] == f"{root}/callboard.toml: 4900 more keys are not settings"


# --- the file itself


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        (b"a = 1\nb = = 2\n", ":2", "is not valid TOML: Invalid value"),
        (b"a = 1\na = 2\n", ":2", "is not valid TOML: Cannot overwrite a value"),
        (b"a = 1\n\nb = [\n\n", ":3", "is not valid TOML: "),
        (b"a = 1\n# caf\xe9\n", ":2", "is not UTF-8 text"),
        (bytes(range(256)), ":2", "is not UTF-8 text"),
        (b"a = " + b"[" * 100_000, "", "is nested too deeply"),
        (b"a = " + b"9" * 5_000, "", "is not valid TOML"),
    ],
)
def test_a_file_that_is_no_toml_is_told_with_its_line(tmp_path: Path, content: bytes, line: str, what: str) -> None:
    root = a_project(tmp_path, content)

    [problem] = refused(root)

    assert problem.startswith(f"{root}/callboard.toml{line} ")
    assert what in problem


def test_a_file_over_the_limit_is_not_read_whole(tmp_path: Path) -> None:
    root = a_project(tmp_path)
    os.truncate(root / "callboard.toml", 50_000_000)

    assert refused(root) == [f"{root}/callboard.toml is over {FILE_BYTES_MAX} bytes; keep only settings in it"]


def test_a_file_of_just_the_limit_is_read(tmp_path: Path) -> None:
    root = a_project(tmp_path, "# " + "x" * (FILE_BYTES_MAX - 2))

    assert load({}, {}, root).settings.project == "demo"


def test_a_folder_called_like_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "callboard.toml").mkdir()

    [problem] = refused(tmp_path)

    assert problem.startswith(f"{tmp_path}/callboard.toml is ")


def test_a_named_pipe_and_links_to_nowhere_are_told_and_not_waited_for(tmp_path: Path) -> None:
    pipe, dangling, circle = tmp_path / "pipe", tmp_path / "dangling", tmp_path / "circle"
    for folder in (pipe, dangling, circle):
        folder.mkdir()
    os.mkfifo(pipe / "callboard.toml")
    (dangling / "callboard.toml").symlink_to("nowhere")
    (circle / "callboard.toml").symlink_to("callboard.toml")

    assert "is not a file" in refused(pipe)[0]
    assert "cannot be read (No such file or directory)" in refused(dangling)[0]
    assert "cannot be read (Too many levels of symbolic links)" in refused(circle)[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    root = a_project(tmp_path)
    (root / "callboard.toml").chmod(0)

    assert "cannot be read (Permission denied)" in refused(root)[0]


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    root = a_project(tmp_path, b"\xef\xbb\xbfproject = 'marked'")

    assert load({}, {}, root).settings.project == "marked"


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(content=b"a.b.c=1\n[a.d]\n[[x]]\n[[x]]\ny={}")
@example(content=b"'' = 1")
@example(content=b"bus=[{url=1}]")
@example(content=b".".join([b"a"] * 5000) + b" = 1")
@example(content=b"bus.url = '''\n''''' \n[ server ]\nport = 1979-05-27")
def test_no_file_whatever_makes_the_loader_raise_anything_but_its_own_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "callboard.toml").write_bytes(content)

    try:
        settled = load({}, {}, tmp_path).settings
    except SettingsError:
        return
    assert re.search(PROJECT_PATTERN, settled.project)


# --- paths


def test_paths_start_at_the_file_or_at_the_working_folder_and_know_home(tmp_path: Path) -> None:
    root = a_project(tmp_path, '[bus]\ntls.ca = "ca.pem"\ncredentials = "~/me.creds"')
    below = root / "below"
    below.mkdir()

    bus = load(
        {"bus.tls.cert": "../cert.pem"}, {"HOME": "/home/me", "CALLBOARD_BUS_TLS_KEY": "key.pem"}, below
    ).settings.bus

    assert bus.credentials == "/home/me/me.creds"
    assert (bus.tls.ca, bus.tls.cert, bus.tls.key) == (
        f"{root}/ca.pem",
        f"{below}/../cert.pem",
        f"{below}/key.pem",
    )


# --- the project


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        (["callboard.toml", "a/.git/", "a/b/.git/"], "."),
        (["callboard.toml", "a/callboard.toml"], "a"),
        (["a/b/c/callboard.toml", ".git/"], "a/b/c"),
        ([".git/"], "."),
        ([".git/", "a/b/.git"], "a/b"),
        ([], "a/b/c"),
    ],
)
def test_the_root_is_the_nearest_with_settings_else_the_nearest_with_git_else_the_start(
    tmp_path: Path, marks: list[str], expected: str
) -> None:
    start = tmp_path / "a" / "b" / "c"
    start.mkdir(parents=True)
    for mark in marks:
        (tmp_path / mark).mkdir() if mark.endswith("/") else (tmp_path / mark).touch()

    assert find_root(start) == (tmp_path / expected).resolve()


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("demo", "demo"),
        ("My App!", "my-app"),
        ("_x.y_", "x-y"),
        ("Zürich Café", "zurich-cafe"),
        ("日本", "project"),
        ("", "project"),
        ("a" * 31 + "-b", "a" * 31),
    ],
)
def test_a_folders_name_becomes_the_projects(folder: str, name: str) -> None:
    assert project_name(folder) == name


@given(text=st.text())
def test_every_name_that_is_made_is_valid_and_stays_as_it_is(text: str) -> None:
    name = project_name(text)

    assert re.search(PROJECT_PATTERN, name)
    assert project_name(name) == name


def test_without_a_file_the_folder_names_the_project(tmp_path: Path) -> None:
    root = a_project(tmp_path, None)

    loaded = load({}, {}, root)

    assert loaded == Loaded(
        settings=Settings(project="demo"), sources=dict.fromkeys(SETTINGS, "default"), root=root.resolve(), file=None
    )


# --- secrets


@pytest.mark.parametrize(
    ("toml", "environ", "flags"),
    [
        (f'bus.password = "{PLANTED}"', {}, {}),
        (f'bus.token = "vault:{PLANTED}"', {}, {}),
        (f'bus.token = "env:{PLANTED}"', {}, {}),
        (f'bus.token = ["{PLANTED}"]', {}, {}),
        (f'bus.password = {{ value = "{PLANTED}" }}', {}, {}),
        (f'bus.user = {{ password = "{PLANTED}" }}', {}, {}),
        (f'bus.passwrd = "{PLANTED}"', {}, {}),
        (f'bus.url = "nats://bob:{PLANTED}@host"', {}, {}),
        (f'bus.url = "nats://{PLANTED}@host"', {}, {}),
        (f'bus.url = "http://bob:{PLANTED}@host"', {}, {}),
        (f'bus.url = ["nats://bob:{PLANTED}@host"]', {}, {}),
        (f'bus.url = "nats://h?token={PLANTED}"', {}, {}),
        (f'bus.password = "{PLANTED}', {}, {}),
        (f'bus.password = "{PLANTED}"\nbus.password = "{PLANTED}"', {}, {}),
        (f'bus.password = "{PLANTED}"\n# \x00', {}, {}),
        ("", {"CALLBOARD_BUS_PASSWORD": PLANTED}, {}),
        ("", {"CALLBOARD_BUS_PASSWRD": PLANTED}, {}),
        ("", {"CALLBOARD_BUS_URL": f"http://bob:{PLANTED}@host"}, {}),
        ("", {"CALLBOARD_BUS_URL": f"nats://bob:{PLANTED}@host:99999"}, {}),
        ("", {"NATS_URL": f"nats://bob:{PLANTED}\x07@host"}, {}),
        ("", {"NATS_URL": f"nats://bob:x,{PLANTED}@host"}, {}),
        ("", {"NATS_URL": f"nats://a:{PLANTED}@host,nats://b:{PLANTED}@host"}, {}),
        ("", {"NATS_URL": f"nats://bob:{PLANTED}@host", "CALLBOARD_BUS_TOKEN": "env:T"}, {}),
        ("", {}, {"bus.token": PLANTED}),
        ("", {}, {"bus.url": f"nats://bob:{PLANTED}@host"}),
    ],
)
def test_a_secret_in_the_wrong_place_is_refused_and_never_printed(
    tmp_path: Path, toml: str, environ: dict[str, str], flags: dict[str, object]
) -> None:
    root = a_project(tmp_path, toml)

    with pytest.raises(SettingsError) as caught:
        load(flags, environ, root)

    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(caught.value.problems)
    assert PLANTED not in told


def test_a_literal_secret_is_refused_with_what_to_do_instead(tmp_path: Path) -> None:
    root = a_project(tmp_path, f'bus.user = "u"\nbus.password = "{PLANTED}"\nbus.url = "nats://u:p@h"')

    [password, url] = sorted(refused(root), key=lambda text: "bus.url" in text)

    assert password.endswith('; put the secret in a variable of its own, and write "env:NAME" here')
    assert url.endswith("or put this URL in NATS_URL")


@pytest.mark.parametrize("variable", ["NATS_URL", "CALLBOARD_BUS_URL"])
@pytest.mark.parametrize(("login", "user", "has_password"), [(f"bob:{PLANTED}", "bob", True), (PLANTED, "", False)])
def test_a_login_in_a_url_of_the_environment_becomes_a_reference(
    tmp_path: Path, variable: str, login: str, user: str, has_password: bool
) -> None:
    root = a_project(tmp_path)
    environ = {variable: f"nats://{login}@one:4222,tls://two"}

    loaded = load({}, environ, root)

    bus = loaded.settings.bus
    reference = bus.password if has_password else bus.token
    assert (bus.url, bus.user, bus.password is not None) == ("nats://one:4222,tls://two", user, has_password)
    assert loaded.sources["bus.password" if has_password else "bus.token"] == variable
    assert reference is not None
    assert resolve(reference, environ, root).reveal() == PLANTED
    assert PLANTED not in repr(loaded) + msgspec.json.encode(loaded.settings).decode()


def test_a_login_that_is_set_outright_wins_over_the_one_in_the_url(tmp_path: Path) -> None:
    root = a_project(tmp_path, 'bus.user = "file"\nbus.password = "env:FILE"')
    environ = {"NATS_URL": "nats://url:secret@h", "CALLBOARD_BUS_PASSWORD": "env:MINE"}

    loaded = load({}, environ, root)

    assert (loaded.settings.bus.user, loaded.sources["bus.user"]) == ("url", "NATS_URL")
    assert loaded.settings.bus.password == SecretReference(kind="env", name="MINE")


def test_a_url_that_is_overridden_leaves_no_login_behind(tmp_path: Path) -> None:
    root = a_project(tmp_path)

    bus = load({"bus.url": "nats://other"}, {"NATS_URL": "nats://url:secret@h"}, root).settings.bus

    assert (bus.url, bus.user, bus.password) == ("nats://other", "", None)


def test_a_variable_that_a_secret_names_is_no_unknown_one(tmp_path: Path) -> None:
    root = a_project(tmp_path, 'bus.token = "env:CALLBOARD_SHARED_TOKEN"')

    loaded = load({}, {"CALLBOARD_SHARED_TOKEN": "t"}, root)

    assert loaded.settings.bus.token == SecretReference(kind="env", name="CALLBOARD_SHARED_TOKEN")


def test_a_secret_is_fetched_from_the_environment_and_from_a_file_beside_the_one_that_names_it(tmp_path: Path) -> None:
    root = a_project(tmp_path, 'bus.user = "u"\nbus.password = "file:keys/password"')
    (root / "keys").mkdir()
    secret_file = root / "keys" / "password"
    secret_file.write_text(f"{PLANTED}\n")
    secret_file.chmod(0o600)
    reference = load({}, {}, root).settings.bus.password
    assert reference is not None

    assert reference == SecretReference(kind="file", name=str(secret_file))
    assert resolve(reference, {}, Path("/")).reveal() == PLANTED
    assert resolve(SecretReference(kind="file", name="keys/password"), {}, root).reveal() == PLANTED
    assert resolve(SecretReference(kind="env", name="P"), {"P": PLANTED}, root).reveal() == PLANTED


def test_a_fetched_secret_never_shows_itself() -> None:
    value = SecretValue(PLANTED)

    assert PLANTED not in f"{value} {value!r} {value!s} {[value]}"
    with pytest.raises(TypeError):
        msgspec.json.encode(value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o644])
def test_a_secret_file_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    path.write_text(PLANTED)
    path.chmod(mode)

    with pytest.raises(SecretUnavailableError) as caught:
        resolve(SecretReference(kind="file", name=str(path)), {}, tmp_path)

    assert caught.value.reason == f"is open to others (mode {mode:04o})"
    assert f"chmod 600 {path}" in str(caught.value)
    assert PLANTED not in str(caught.value)


def test_a_secret_that_is_not_there_is_told_by_its_reference(tmp_path: Path) -> None:
    binary, large, empty = tmp_path / "binary", tmp_path / "large", tmp_path / "empty"
    binary.write_bytes(PLANTED.encode() + b"\xff")
    large.write_bytes(b"x" * 100_000)
    empty.write_bytes(b"\n")
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (binary, large, empty):
        path.chmod(0o600)

    reasons = {}
    for kind, name in [("env", "P")] + [("file", each) for each in ("gone", ".", "pipe", "binary", "large", "empty")]:
        with pytest.raises(SecretUnavailableError) as caught:
            resolve(msgspec.convert({"kind": kind, "name": name}, SecretReference), {}, tmp_path)
        assert PLANTED not in "".join(traceback.format_exception(caught.value))
        reasons[caught.value.reference] = caught.value.reason

    assert reasons == {
        "env:P": "is empty or not set",
        "file:gone": "cannot be read (No such file or directory)",
        "file:.": "cannot be read (Is a directory)",
        "file:pipe": "is not a regular file",
        "file:binary": "is not UTF-8 text",
        "file:large": "is over 65536 bytes",
        "file:empty": "is empty or not set",
    }


def test_the_keyring_is_asked_for_the_service_and_the_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ring = types.ModuleType("keyring")
    held = {("https://nats/x", "bob"): PLANTED}
    vars(ring)["get_password"] = lambda service, name: held.get((service, name))
    monkeypatch.setitem(sys.modules, "keyring", ring)

    assert resolve(SecretReference(kind="keyring", name="https://nats/x/bob"), {}, tmp_path).reveal() == PLANTED
    with pytest.raises(SecretUnavailableError, match="is empty or not set"):
        resolve(SecretReference(kind="keyring", name="other/bob"), {}, tmp_path)


def test_a_keyring_that_is_not_installed_is_told_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)

    with pytest.raises(SecretUnavailableError, match=r"needs the keyring package.*pip install keyring"):
        resolve(SecretReference(kind="keyring", name="a/b"), {}, tmp_path)


@pytest.mark.parametrize("text", ["env:", "env:A B", "env:1", "file:", "keyring:a", "keyring:/a", "keyring:a/", "x"])
def test_what_is_no_reference_is_refused(tmp_path: Path, text: str) -> None:
    root = a_project(tmp_path, f'bus.token = "{text}"')

    assert "must be a reference to a secret" in refused(root)[0]


# --- URLs


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("", ""),
        ("host", "nats://host"),
        ("host:4222", "nats://host:4222"),
        ("tls://h.example:4222/", "tls://h.example:4222"),
        ("nats://a:1, nats://b:2,c", "nats://a:1,nats://b:2,nats://c"),
        ("nats://[::1]:4222", "nats://[::1]:4222"),
    ],
)
def test_server_urls_are_written_out(text: str, url: str) -> None:
    assert parse_servers(text).url == url


@pytest.mark.parametrize(
    "text", [" ", "nats://", "nats://h:0", "nats://h:65536", "ws://h", "nats://h/x", "nats://a,,b", "a b"]
)
def test_what_is_no_server_url_is_refused(tmp_path: Path, text: str) -> None:
    root = a_project(tmp_path)

    [problem] = refused(root, {"CALLBOARD_BUS_URL": text})

    assert problem.startswith("CALLBOARD_BUS_URL: bus.url must be nats://HOST:PORT")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://host:4222", "nats://host:4222"),
        ("nats://u:p@host:4222", "nats://***@host:4222"),
        ("nats://token@host", "nats://***@host"),
        ("u:p@host", "***@host"),
        ("nats://a:1,nats://u:p@b:2", "nats://a:1,nats://***@b:2"),
        ("nats://u:p@ss/w?rd@host", "nats://***@host"),
        ("nats://host?token=t#f", "nats://host"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_its_login(url: str, shown: str) -> None:
    assert redact_url(url) == shown


@given(before=st.text(max_size=10), after=st.text(max_size=10), host=st.text("abc.:1/", max_size=10))
def test_no_password_shows_however_odd_it_is(before: str, after: str, host: str) -> None:
    password = f"{before}{PLANTED}{after}".replace(",", "")

    assert PLANTED not in redact_url(f"nats://user:{password}@{host}")
    assert PLANTED not in redact_url(f"nats://{password}@{host}")


# --- the state folder


def test_the_state_folder_is_under_xdg_by_project_and_path(tmp_path: Path) -> None:
    root = Path("/work-tree/demo")
    digest = hashlib.sha256(b"/work-tree/demo").hexdigest()[:8]

    by_home = state_folder("demo", root, "", {"HOME": "/home/me"})
    by_xdg = state_folder("demo", root, "", {"HOME": "/home/me", "XDG_STATE_HOME": "/xdg"})
    by_relative_xdg = state_folder("demo", root, "", {"HOME": "/home/me", "XDG_STATE_HOME": "xdg"})
    chosen = state_folder("demo", root, "/chosen", {})

    assert by_home == by_relative_xdg == Path(f"/home/me/.local/state/callboard/demo-{digest}")
    assert by_xdg == Path(f"/xdg/callboard/demo-{digest}")
    assert chosen == Path("/chosen")


def test_two_checkouts_of_one_project_have_two_state_folders() -> None:
    environ = {"HOME": "/home/me"}

    assert state_folder("demo", Path("/a"), "", environ) != state_folder("demo", Path("/b"), "", environ)


def test_without_a_home_there_is_no_default() -> None:
    with pytest.raises(StateFolderError, match="set CALLBOARD_STATE_FOLDER"):
        state_folder("demo", Path("/demo"), "", {})


@pytest.mark.parametrize("folder", ["/demo", "/demo/state", "/demo/a/../state", "/x/../demo/state"])
def test_a_state_folder_in_the_project_is_refused(folder: str) -> None:
    with pytest.raises(StateFolderError, match="is inside the project /demo"):
        state_folder("demo", Path("/demo"), folder, {})


def test_a_folder_beside_the_project_is_no_folder_in_it() -> None:
    assert state_folder("demo", Path("/demo"), "/demo-state", {}) == Path("/demo-state")
    assert state_folder("demo", Path("/demo"), "/demo/../state", {}) == Path("/demo/../state")


def test_a_home_that_is_itself_the_project_is_refused_with_the_way_out() -> None:
    with pytest.raises(StateFolderError, match="set state_folder"):
        state_folder("me", Path("/home/me"), "", {"HOME": "/home/me"})


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_state_folder_and_its_new_parents_are_for_their_owner_alone(tmp_path: Path, umask: int) -> None:
    root = a_project(tmp_path)
    folder = tmp_path / "new" / "callboard" / "demo"
    before = os.umask(umask)
    try:
        made = make_state_folder(folder, root)
        again = make_state_folder(folder, root)
    finally:
        os.umask(before)

    assert made == again == folder
    assert [each.stat().st_mode & 0o777 for each in (folder, folder.parent, folder.parent.parent)] == [0o700] * 3


def test_an_open_folder_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    root = a_project(tmp_path)
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o755)

    with pytest.raises(StateFolderError, match=r"is open to others \(mode 0755\); run: chmod 700"):
        make_state_folder(folder, root)

    assert folder.stat().st_mode & 0o777 == 0o755


def test_links_do_not_lead_the_state_into_the_project(tmp_path: Path) -> None:
    root = a_project(tmp_path)
    (tmp_path / "innocent").symlink_to(root)
    (tmp_path / "circle").symlink_to(tmp_path / "circle")

    with pytest.raises(StateFolderError, match="is inside the project"):
        make_state_folder(tmp_path / "innocent" / "state", root)
    with pytest.raises(StateFolderError, match="cannot be"):
        make_state_folder(tmp_path / "circle" / "state", root)
    assert list(root.iterdir()) == [root / "callboard.toml"]


def test_a_file_in_the_way_is_told(tmp_path: Path) -> None:
    root = a_project(tmp_path)
    (tmp_path / "taken").touch()

    for folder in (tmp_path / "taken", tmp_path / "taken" / "below"):
        with pytest.raises(StateFolderError, match="cannot be made"):
            make_state_folder(folder, root)


# --- the page


def test_the_page_has_every_setting_and_its_example_loads(tmp_path: Path) -> None:
    page = render_page()
    [sample] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    root = a_project(tmp_path, sample)

    loaded = load({}, {}, root)

    assert all(f"| `{setting.key}` |" in page and f"`{setting.variable}`" in page for setting in SETTINGS.values())
    assert loaded.settings.bus.replicas == tomllib.loads(sample)["bus"]["replicas"]
    assert loaded.settings.bus.tls.ca == f"{root}/certificates/ca.pem"
