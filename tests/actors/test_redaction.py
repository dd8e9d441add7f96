"""Secrets are hidden in whatever form a program prints them."""

import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import msgspec
import pytest

from actors.redaction import HIDDEN, has_secret, redact, redact_all, remember_secrets
from tests.actors.secret_samples import AWKWARD

PRINTED: dict[str, Callable[[str], str]] = {
    "raw": str,
    "repr": repr,
    "ascii": ascii,
    "repr of bytes": lambda text: repr(text.encode(errors="surrogateescape")),
    "beside a quote": lambda text: repr(f"it's {text}"),
    "JSON": lambda text: json.dumps(text, ensure_ascii=False),
    "ASCII JSON": json.dumps,
    "in a URL": lambda text: quote(text, safe="", errors="surrogateescape"),
    "in a path": lambda text: quote(text, errors="surrogateescape"),
    "in a form": lambda text: quote_plus(text, errors="surrogateescape"),
    "JSON in repr": lambda text: repr(json.dumps({"key": text})),
    "repr in JSON": lambda text: json.dumps(repr(text)),
    "repr of an error in repr": lambda text: repr(repr(ValueError(text))),
}


@pytest.fixture(autouse=True)
def planted() -> None:
    remember_secrets(AWKWARD)


@pytest.mark.parametrize("secret", AWKWARD)
@pytest.mark.parametrize("printed", PRINTED)
def test_a_secret_is_hidden_however_it_is_printed(secret: str, printed: str) -> None:
    text = PRINTED[printed](secret)

    assert HIDDEN in redact(text)
    assert "planted" not in redact(text)


@pytest.mark.parametrize("secret", [each for each in AWKWARD if "\udce9" not in each])
def test_a_secret_is_found_in_rendered_json(secret: str) -> None:
    for text in (secret, repr(secret), json.dumps(secret), repr({"key": [secret]})):
        assert has_secret(msgspec.json.encode({"at": 1, "text": f"so it is: {text}."}))
    assert not has_secret(msgspec.json.encode({"at": 1, "text": "nothing to see"}))


@pytest.mark.parametrize(
    "key",
    [
        "sk-ant-api03-abcdefgh",
        "ghp_" + "a1" * 12,
        "github_pat_" + "a1_" * 10,
        "SU" + "A2" * 28,
        "SA" + "A2" * 28,
        "Bearer abcdefgh.ijklmnop",
        "Basic dXNlcjpwYXNzd29yZA==",
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0==\n-----END PRIVATE KEY-----",
        "-----BEGIN EC PRIVATE KEY-----\\nMIIEvQIBADANBg",
    ],
)
def test_what_looks_like_a_key_is_hidden_though_nobody_knows_it(key: str) -> None:
    assert redact(f"it is {key}, they say") == f"it is {HIDDEN}, they say"
    assert has_secret(msgspec.json.encode(f"it is {key}, they say"))


def test_of_a_file_each_line_is_a_secret() -> None:
    remember_secrets(["-----BEGIN THING-----\nMIIEvQ-line-one-of-it\nkqhkiG-line-two-of-it\n-----END THING-----\n"])

    assert redact("it broke at kqhkiG-line-two-of-it!") == f"it broke at {HIDDEN}!"


def test_the_space_around_a_secret_is_no_part_of_it() -> None:
    remember_secrets(["  planted-with-newline\n"])

    assert redact("planted-with-newline") == HIDDEN


def test_of_two_secrets_that_begin_alike_the_longer_is_hidden_whole() -> None:
    remember_secrets(["alike-alike", "alike-alike-and-longer"])

    assert redact("alike-alike-and-longer, alike-alike") == f"{HIDDEN}, {HIDDEN}"


def test_what_is_too_short_to_be_a_secret_is_left() -> None:
    remember_secrets(["", "short", "    \n"])

    assert redact("short and    \n sweet") == "short and    \n sweet"


class Odd:
    """Prints a secret, or nothing."""

    def __init__(self, text: str | None) -> None:
        self._text = text

    def __str__(self) -> str:
        if self._text is None:
            raise RuntimeError("no words")
        return self._text


def test_a_structure_is_cleaned_to_its_leaves_keys_too() -> None:
    secret = AWKWARD[0]
    remember_secrets(["123456"])

    cleaned = redact_all(
        {
            "text": f"a {secret}",
            secret: 1,
            "list": [secret, (secret, 2)],
            "bytes": secret.encode(),
            "odd": Odd(secret),
            "silent": Odd(None),
            "number": 123456,
            "other": 1234,
            "nothing": None,
            "true": True,
        }
    )

    assert cleaned == {
        "text": f"a {HIDDEN}",
        HIDDEN: 1,
        "list": [HIDDEN, [HIDDEN, 2]],
        "bytes": HIDDEN,
        "odd": HIDDEN,
        "silent": "an Odd that cannot be printed",
        "number": HIDDEN,
        "other": 1234,
        "nothing": None,
        "true": True,
    }


def test_a_structure_that_contains_itself_has_an_end() -> None:
    endless: list[object] = [AWKWARD[0]]
    endless.append(endless)

    assert "planted" not in json.dumps(redact_all(endless))
