"""What is refused, and that every problem is told at once with what to do."""

from pathlib import Path

import pytest

from bus.settings import (
    SettingsError,
    load,
)
from bus.settings.catalogue import SETTINGS, Setting
from tests.bus.settings.projects import EACH_SETTING, a_project, problems_of, refused

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
        ("tre = 1", "1: tre is not a setting; did you mean tree?"),
        ("parts.coder = 'my_package'", '1: parts.coder must be MODULE:NAME, not "my_package"'),
        ("parts.coder = 'a-b:C'", '1: parts.coder must be MODULE:NAME, not "a-b:C"'),
        ("health.probes = 'a:B,'", '1: health.probes must be MODULE:NAME (several with commas between), not "a:B,"'),
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
        ("CALLBOARD_BUS_USER", "\udcff", UNPRINTABLE),
        ("CALLBOARD_PROJECT", "demo\n", f'{PROJECT}, not "demo\\n"; try demo'),
        ("CALLBOARD_BUS_TOKEN", "env:CALLBOARD_BUS_TOKEN", CIRCLE),
    ],
)
def test_a_mistake_in_a_variable_is_told_with_its_name(tmp_path: Path, variable: str, text: str, expected: str) -> None:
    assert refused(a_project(tmp_path), {variable: text}) == [f"{variable}: {expected}"]


@EACH_SETTING
def test_an_empty_variable_is_never_a_mistake(tmp_path: Path, setting: Setting) -> None:
    root = a_project(tmp_path)

    assert load({}, {setting.variable: ""}, root).settings == load({}, {}, root).settings


def test_a_home_that_is_no_absolute_path_is_told(tmp_path: Path) -> None:
    root = a_project(tmp_path, "server.binary = '~/x'")

    [problem] = refused(root, {"HOME": "me"})

    assert problem.endswith(f'begins with ~, and HOME is "me", which is no absolute path; {WHOLE_PATH}')


def test_problems_of_the_file_are_told_from_top_to_bottom(tmp_path: Path) -> None:
    root = a_project(tmp_path, 'nonsense = 1\nedition = "both"\n[server]\nprt = 1\n[bus]\nuser = "u"\nreplicas = 4\n')

    places = [problem.place.rpartition("/")[2] for problem in problems_of(root, {"CALLBOARD_LOG_LEVEL": "loud"})]

    assert places == [*(f"callboard.toml:{line}" for line in (1, 2, 4, 6, 7)), "CALLBOARD_LOG_LEVEL"]


def test_a_mistake_in_a_flag_is_told_with_its_name(tmp_path: Path) -> None:
    problems = refused(a_project(tmp_path), flags={"server.port": -1, "bus.ulr": "x"})

    assert problems == [
        f"flag --server-port: {PORT}, not -1",
        "flag --bus-ulr: bus.ulr is not a setting; did you mean bus.url?",
    ]


def test_an_unknown_variable_of_ours_is_told_and_others_are_not_looked_at(tmp_path: Path) -> None:
    problems = refused(a_project(tmp_path), {"CALLBOARD_BUS_URI": "x", "BUS_URL": "x", "callboard_x": "x"})

    assert problems == ["environment: CALLBOARD_BUS_URI is not a setting; did you mean CALLBOARD_BUS_URL?"]


DURATIONS = [key for key, setting in SETTINGS.items() if isinstance(setting.default, float) and "_seconds" in key]
CEILINGS = [key for key in SETTINGS if key.startswith("budget.") and key != "budget.prices"]


@pytest.mark.parametrize("written_number", ["nan", "inf", "-1", "1e18"])
@pytest.mark.parametrize("key", CEILINGS)
def test_no_ceiling_is_endless_or_below_nothing(tmp_path: Path, key: str, written_number: str) -> None:
    [in_file] = refused(a_project(tmp_path, f"{key} = {written_number}"))

    assert f"must be {SETTINGS[key].expected}" in in_file


@pytest.mark.parametrize("key", CEILINGS)
def test_a_ceiling_of_zero_is_no_ceiling(tmp_path: Path, key: str) -> None:
    assert load({}, {}, a_project(tmp_path, f"{key} = 0")).place(key).endswith("callboard.toml:1")


@pytest.mark.parametrize("written_number", ["nan", "inf", "-inf", "0", "-1", "3601"])
@pytest.mark.parametrize("key", DURATIONS)
def test_no_duration_is_endless_or_nothing(tmp_path: Path, key: str, written_number: str) -> None:
    root = a_project(tmp_path, f"{key} = {written_number}")

    [in_file, in_variable] = refused(root, {SETTINGS[key].variable: written_number})

    assert f"must be {SETTINGS[key].expected}" in in_file
    assert f"must be {SETTINGS[key].expected}" in in_variable
    assert SETTINGS[key].expected.endswith("up to 3600")


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
