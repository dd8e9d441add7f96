"""Which model, where, and with which key: role before all roles, our variable before everybody's."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from actors.claude.providers import Provider, profile_of, provider_of
from actors.redaction import redact
from actors.thinking.errors import KeyRefusedError, MissingKeyError
from actors.thinking.request import Profile
from bus.settings import Loaded, load

OURS = {"CALLBOARD_ANTHROPIC_API_KEY": "our-own-key-1234"}
EVERYBODYS = {"ANTHROPIC_API_KEY": "everybodys-key-1"}


def settings(root: Path, text: str = "", environ: Mapping[str, str] | None = None) -> Loaded:
    (root / "callboard.toml").write_text(text)
    return load({}, environ or {}, root)


@pytest.mark.parametrize(
    ("text", "environ", "key"),
    [
        ("", OURS | EVERYBODYS, "our-own-key-1234"),
        ("", EVERYBODYS, "everybodys-key-1"),
        ("", EVERYBODYS | {"CALLBOARD_ANTHROPIC_API_KEY": " "}, "everybodys-key-1"),
        ('model.key = "env:OTHER"', OURS | {"OTHER": "the-other-key-12"}, "the-other-key-12"),
        ('model.key = "env:OTHER"\nmodel.coder.key = "env:MINE"', {"OTHER": "o" * 9, "MINE": "m" * 9}, "m" * 9),
        ('model.pm.key = "env:MINE"', OURS | {"MINE": "m" * 9}, "our-own-key-1234"),
    ],
)
def test_the_nearest_key_counts_and_is_never_printed(
    tmp_path: Path, text: str, environ: Mapping[str, str], key: str
) -> None:
    provider = provider_of("coder", settings(tmp_path, text, environ), environ)

    assert provider == Provider(url="https://api.anthropic.com", key=key)
    assert key not in redact(f"sent {key}")


@pytest.mark.parametrize("key", ["one\ntwo", "one two", "umläut", "nul-in-it\0"])
def test_what_no_header_can_have_is_no_key(tmp_path: Path, key: str) -> None:
    environ = {"CALLBOARD_ANTHROPIC_API_KEY": key}

    with pytest.raises(KeyRefusedError, match="characters that no key has"):
        provider_of("coder", settings(tmp_path, "", environ), environ)
    assert key not in redact(f"sent {key}")


def test_a_key_in_a_file_can_be_changed_while_the_company_works(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.touch(mode=0o600)
    loaded = settings(tmp_path, f'model.key = "file:{file}"')
    keys = []
    for key in ("first-key", "second-key"):
        file.write_text(f"{key}\n")
        keys.append(provider_of("coder", loaded, {}).key)

    assert keys == ["first-key", "second-key"]


@pytest.mark.parametrize(
    ("text", "words"), [("", "CALLBOARD_ANTHROPIC_API_KEY nor ANTHROPIC_API_KEY"), ('model.key = "env:GONE"', "GONE")]
)
def test_without_a_key_it_is_said_where_it_was_looked_for(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(MissingKeyError, match=words):
        provider_of("coder", settings(tmp_path, text), {})


@pytest.mark.parametrize(
    ("text", "environ", "url"),
    [
        ("", {}, "https://api.anthropic.com"),
        ("", {"ANTHROPIC_BASE_URL": "http://localhost:1/"}, "http://localhost:1"),
        ("", {"ANTHROPIC_BASE_URL": "http://one", "CALLBOARD_MODEL_BASE_URL": "http://two"}, "http://two"),
        ('model.base_url = "http://three"', {}, "http://three"),
        ('model.coder.base_url = "http://four"', {"CALLBOARD_MODEL_BASE_URL": "http://two"}, "http://four"),
    ],
)
def test_the_nearest_address_counts(tmp_path: Path, text: str, environ: Mapping[str, str], url: str) -> None:
    assert provider_of("coder", settings(tmp_path, text, environ), OURS).url == url


def test_each_role_has_its_own_model(tmp_path: Path) -> None:
    loaded = settings(tmp_path, '[model.coder]\nname = "mine"\neffort = "default"\nmax_tokens = 500')

    assert [profile_of(role, loaded) for role in ("pm", "architect", "coder")] == [
        Profile(model="claude-opus-5-5", max_tokens=16_000, effort="medium"),
        Profile(model="claude-opus-5-5", max_tokens=16_000, effort="high"),
        Profile(model="mine", max_tokens=500),
    ]
