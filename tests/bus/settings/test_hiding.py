"""What of an environment and of the settings must not be printed."""

from pathlib import Path

import pytest

from bus.settings import load
from bus.settings.hiding import environment_secrets, settings_secrets
from tests.bus.settings.projects import PLANTED, a_project


@pytest.mark.parametrize(
    "environ",
    [
        {"ANTHROPIC_API_KEY": PLANTED},
        {"GH_TOKEN": PLANTED},
        {"db_password": PLANTED},
        {"CALLBOARD_BUS_PASSWORD": PLANTED},
        {"NATS_URL": f"nats://bob:{PLANTED}@host"},
        {"NATS_URL": f"nats://one,nats://{PLANTED}@two"},
        {"NATS_URL": f"http://bob:{PLANTED}@host no server"},
        {"CALLBOARD_BUS_URL": f"tls://bob:{PLANTED}@host:4222"},
        {"HTTPS_PROXY": f"http://bob:{PLANTED}@proxy:8080"},
        {"WEBHOOK": f"https://{PLANTED}@host/path"},
    ],
)
def test_the_environment_has_secrets_in_telling_names_and_in_urls(environ: dict[str, str]) -> None:
    assert PLANTED in environment_secrets(environ)


def test_a_login_is_known_as_it_stands_and_as_it_is_meant() -> None:
    assert environment_secrets({"NATS_URL": "nats://bob:p%40ss-word@host"}) == {"p%40ss-word", "p@ss-word"}


@pytest.mark.parametrize(
    "environ",
    [
        {"HOME": "/home/bob", "LANG": "C.UTF-8"},
        {"CALLBOARD_BUS_PASSWORD": "env:NATS_PW", "CALLBOARD_BUS_TOKEN": "file:/run/token"},
        {"CALLBOARD_BUS_CREDENTIALS": "/etc/bob.creds", "CALLBOARD_BUS_TLS_KEY": "/etc/bob.key"},
        {"NATS_URL": "nats://host:4222,tls://other"},
        {"PAGE": "https://host/path?mail=bob@example.com"},
        {"BROKEN": "http://[::1"},
    ],
)
def test_what_only_says_where_a_secret_is_may_be_printed(environ: dict[str, str]) -> None:
    assert environment_secrets(environ) == set()


def a_key_file(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_settings_lead_to_secrets_in_key_files(tmp_path: Path) -> None:
    creds, key = a_key_file(tmp_path / "bob.creds", "JWT\nSEED\n"), a_key_file(tmp_path / "bob.key", "PEM\n")
    toml = f'[bus]\nurl = "tls://host"\ncredentials = "{creds}"\n[bus.tls]\ncert = "{key}"\nkey = "{key}"\n'

    assert settings_secrets(load({}, {}, a_project(tmp_path, toml)), {}) == {"JWT\nSEED\n", "PEM\n"}


def test_settings_lead_to_secrets_in_variables(tmp_path: Path) -> None:
    toml = '[bus]\nurl = "tls://host"\nuser = "bob"\npassword = "env:WORD"\n'
    environ = {"WORD": "password-of-bob"}

    assert settings_secrets(load({}, environ, a_project(tmp_path, toml)), environ) == {"password-of-bob"}


def test_settings_lead_to_secrets_in_files(tmp_path: Path) -> None:
    token = a_key_file(tmp_path / "token", "token-from-a-file\n")
    toml = f'[bus]\nurl = "tls://host"\ntoken = "file:{token}"\n'

    assert settings_secrets(load({}, {}, a_project(tmp_path, toml)), {}) == {"token-from-a-file"}


def test_a_login_in_a_url_is_a_secret_of_the_settings(tmp_path: Path) -> None:
    environ = {"NATS_URL": f"nats://bob:{PLANTED}@host"}

    assert settings_secrets(load({}, environ, a_project(tmp_path, "")), environ) == {PLANTED}


@pytest.mark.parametrize(
    "login", ['user = "bob"\npassword = "env:NOWHERE"', 'token = "file:/nowhere"', 'credentials = "/nowhere/bob.creds"']
)
def test_what_cannot_be_fetched_is_left_to_whoever_needs_it(tmp_path: Path, login: str) -> None:
    loaded = load({}, {}, a_project(tmp_path, f'[bus]\nurl = "nats://host"\n{login}\n'))

    assert settings_secrets(loaded, {}) == set()
