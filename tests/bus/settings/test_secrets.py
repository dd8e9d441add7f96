"""Secrets are references, and no secret ever shows, in URLs either."""

import os
import sys
import traceback
import types
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.settings import (
    SecretReference,
    SecretUnavailableError,
    SecretValue,
    SettingsError,
    load,
    redact_url,
    resolve,
)
from bus.settings.servers import parse_servers
from tests.bus.settings.projects import PLANTED, a_project, refused


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
