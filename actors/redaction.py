"""Keeping secrets out of logs and journals, whoever puts them into a text.

Known are the values that this process was told of, in every form in which programs print a text. What merely looks
like a key of a known make is hidden too. All of it is one regular expression, made when a secret is learned: looking
for secrets is part of what every line of the log costs.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

HIDDEN = "[secret]"
SECRET_LENGTH_MIN = 6
DEPTH_MAX = 6
"""Of a structure, what lies deeper is taken as text."""

_LOOKS_LIKE_A_KEY = "|".join(
    (
        r"sk-ant-[A-Za-z0-9_-]{8,}",
        r"gh[pousr]_[A-Za-z0-9]{20,}",
        r"github_pat_[A-Za-z0-9_]{20,}",
        r"S[ACNOUX][A-Z2-7]{56}",  # a seed of NATS
        r"Bearer [A-Za-z0-9._~+/=-]{8,}",
        r"Basic [A-Za-z0-9+/]{8,}={0,2}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[A-Za-z0-9+/=\s]|\\[nr])*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    )
)

_known: set[str] = set()
_in_text = re.compile(_LOOKS_LIKE_A_KEY)
_in_json = re.compile(_LOOKS_LIKE_A_KEY.encode())


def remember_secrets(values: Iterable[str]) -> None:
    """Hide these from now on, everywhere in this process; what is too short to be a secret would hide too much.

    Of a file each line is hidden on its own as well, unless it is a sentence.
    """
    global _in_text, _in_json  # noqa: PLW0603 -- a process has one set of secrets, as it has one environment
    new = {part for value in values for part in _parts(value) if len(part) >= SECRET_LENGTH_MIN} - _known
    if not new:
        return
    _known.update(new)
    forms = {printed for secret in _known for form in _forms(secret) for printed in _forms(form)}
    _in_text = re.compile("|".join([*_longest_first(forms), _LOOKS_LIKE_A_KEY]))
    rendered = {json.dumps(form, ensure_ascii=False)[1:-1] for form in forms}
    _in_json = re.compile("|".join([*_longest_first(rendered), _LOOKS_LIKE_A_KEY]).encode(errors="surrogatepass"))


def has_secret(line: bytes) -> bool:
    """Whether there is a secret in JSON of UTF-8."""
    return _in_json.search(line) is not None


def redact(text: str) -> str:
    """The text without secrets."""
    return _in_text.sub(HIDDEN, text)


def clean(text: str) -> str:
    """The text without secrets, and as UTF-8 can have it: half a character, as of a file's name, is spelled out."""
    return redact(text).encode(errors="backslashreplace").decode()


def redact_all(value: Any, depth: int = 0) -> Any:
    """As `clean`, for every text in a structure; all that comes out of it are texts, numbers, lists and dicts."""
    match value:
        case None | bool():
            return value
        case int() | float():
            return value if redact(str(value)) == str(value) else HIDDEN
        case Mapping() if depth < DEPTH_MAX:
            return {clean(printable(key)): redact_all(each, depth + 1) for key, each in value.items()}
        case list() | tuple() if depth < DEPTH_MAX:
            return [redact_all(each, depth + 1) for each in value]
        case _:
            return clean(printable(value))


def printable(value: object) -> str:
    """Its text, even where it has none."""
    try:
        return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    except Exception:
        return f"an {type(value).__name__} that cannot be printed"


def _parts(value: str) -> Iterator[str]:
    yield value.strip()
    lines = value.split("\n")
    if len(lines) > 1:
        yield from (line.strip() for line in lines if " " not in line.strip())


def _forms(secret: str) -> Iterator[str]:
    """The text as it stands in a message, in `repr`, in JSON and in a URL."""
    data = _bytes(secret)
    yield secret
    # The quote at the end makes `repr` escape the apostrophe; beside other characters it may not.
    for printed in (repr(secret + '"')[1:-2], ascii(secret + '"')[1:-2], repr(data + b'"')[2:-2]):
        yield printed
        yield printed.replace("\\'", "'")
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield quote(data)
    yield quote(data, safe="")
    yield quote_plus(data)


def _bytes(text: str) -> bytes:
    try:
        return text.encode(errors="surrogateescape")  # as the environment has it
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")


def _longest_first(texts: Iterable[str]) -> list[str]:
    """So that of two that begin alike the longer one is hidden."""
    return [re.escape(text) for text in sorted(texts, key=lambda text: (-len(text), text))]
