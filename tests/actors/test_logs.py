"""The log: one line an event, for people or programs, written at once, and never a secret in it."""

import io
import json
import logging
import os
import pty
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from actors.logs import configure_logs
from actors.redaction import HIDDEN, remember_secrets
from tests.actors.leaking import WAYS
from tests.actors.secret_samples import AWKWARD

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 30.0
log = structlog.get_logger()

Read = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def hooks_as_they_were(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process has one log; this one's is pytest's."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    for module, name in ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook")):
        monkeypatch.setattr(module, name, getattr(module, name))
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:], root.level = handlers, level


@contextmanager
def log_to(path: Path, level: str = "info") -> Iterator[Read]:
    with path.open("a") as file:
        with redirect_stderr(file):
            configure_logs(level, actor="coder-1")
        yield lambda: [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def lines(tmp_path: Path, hooks_as_they_were: None) -> Iterator[Read]:
    """Logs into a file; gives what stands in it."""
    with log_to(tmp_path / "log") as read:
        yield read


def test_a_line_has_what_was_said_who_said_it_and_when(lines: Read) -> None:
    before = datetime.now(UTC)

    with structlog.contextvars.bound_contextvars(session="s-1.1"):
        log.info("event.handled", n=1, effects=["s-1.1/1/0"], ratio=0.5, done=True, nothing=None)

    [line] = lines()
    at = datetime.fromisoformat(line.pop("timestamp"))
    assert before - timedelta(milliseconds=1) <= at <= datetime.now(UTC)
    assert line == {
        "event": "event.handled",
        "n": 1,
        "effects": ["s-1.1/1/0"],
        "ratio": 0.5,
        "done": True,
        "nothing": None,
        "session": "s-1.1",
        "actor": "coder-1",
        "level": "info",
    }


def test_times_are_utc_with_microseconds_and_never_go_back(lines: Read) -> None:
    for _ in range(1000):
        log.info("thing.said")

    times = [line["timestamp"] for line in lines()]
    assert times == sorted(times)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", time) for time in times)


def test_a_line_is_there_as_soon_as_it_is_said(lines: Read) -> None:
    log.info("thing.said")

    assert len(lines()) == 1


def test_what_is_less_important_than_the_level_is_left_out(tmp_path: Path, hooks_as_they_were: None) -> None:
    with log_to(tmp_path / "log", "warning") as lines:
        log.info("thing.said")
        log.warning("thing.failed")

        assert [line["event"] for line in lines()] == ["thing.failed"]


def test_an_error_comes_with_its_traceback(lines: Read) -> None:
    try:
        os.environ["THIS"]
    except KeyError as caught:
        log.exception("thing.failed")
        log.warning("thing.failed", exc_info=caught)

    for line in lines():
        assert line["exception"].startswith("Traceback (most recent call last):\n")
        assert line["exception"].endswith("KeyError: 'THIS'")


class Odd:
    """Neither text nor number."""

    def __str__(self) -> str:
        return "an odd thing"


def test_what_json_does_not_have_is_text(lines: Read) -> None:
    log.info("thing.said", odd=Odd(), raw=b"caf\xc3\xa9", path=Path("/x"), deep=({"odd": Odd()},), big=2**70)
    log.info("thing.said", half="caf\udce9")

    first, second = lines()
    assert first | {"odd": "an odd thing", "raw": "café", "path": "/x", "deep": [{"odd": "an odd thing"}]} == first
    assert second["half"] == "caf\\udce9"


def test_a_secret_is_hidden_and_the_line_is_still_json(lines: Read) -> None:
    remember_secrets([*AWKWARD, "123456", "1.1/12"])

    for secret in AWKWARD:
        log.info("thing.said", text=f"the {secret} is", number=123456, other=5, effects=[secret, "s-1.1/12/0"])

    assert len(lines()) == len(AWKWARD)
    for line in lines():
        assert line["text"] == f"the {HIDDEN} is"
        assert (line["number"], line["other"]) == (HIDDEN, 5)
        assert line["effects"] == [HIDDEN, f"s-{HIDDEN}/0"]


def test_libraries_are_heard_from_warnings_on(lines: Read) -> None:
    logging.getLogger("library").info("chatter")
    logging.getLogger("library").warning("%d troubles", 3)

    [line] = lines()
    del line["timestamp"]
    assert line == {
        "event": "library.logged",
        "logger": "library",
        "detail": "3 troubles",
        "actor": "coder-1",
        "level": "warning",
    }


def test_warnings_are_lines_too(lines: Read) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("beware", stacklevel=1)
        logging.captureWarnings(capture=False)

    [line] = lines()
    assert line["logger"] == "py.warnings"
    assert "UserWarning: beware" in line["detail"]


def test_a_log_that_nobody_can_read_any_more_harms_nobody(hooks_as_they_were: None) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as file:
        with redirect_stderr(file):
            configure_logs("info", actor="coder-1")
        os.close(reading)

        log.info("thing.said")
    log.info("thing.said")  # into a file that is closed


def test_a_line_that_does_not_fit_waits_for_its_reader(hooks_as_they_were: None) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # a child that has the same standard error may have done this
    long = "x" * 1_000_000
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "w") as file:
        with redirect_stderr(file):
            configure_logs("info", actor="coder-1")
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.append(source.readline()))
        reader.start()

        log.info("thing.said", text=long)
        reader.join(SECONDS_MAX)

    assert json.loads(found[0])["text"] == long


def test_a_stream_that_is_no_file_will_do(hooks_as_they_were: None) -> None:
    stream = io.StringIO()
    with redirect_stderr(stream):
        configure_logs("info", actor="coder-1")

    log.info("thing.said")

    assert json.loads(stream.getvalue())["event"] == "thing.said"


def leak(way: str, output: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tests.actors.leaking", way]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


@pytest.mark.parametrize("way", WAYS)
def test_no_secret_leaves_a_process_whichever_way_it_is_said(way: str, tmp_path: Path) -> None:
    output = tmp_path / "output"
    with output.open("wb") as file:
        leak(way, file.fileno()).wait(SECONDS_MAX)

    said = [json.loads(line) for line in output.read_text().splitlines()]
    assert said, "it has said nothing"
    assert all(line["actor"] == "leaky-1" for line in said)
    assert HIDDEN in str(said) or way == "logged_with_what_cannot_be_printed"
    assert "planted" not in output.read_text()


@pytest.mark.parametrize("way", WAYS)
def test_no_secret_is_shown_on_a_terminal(way: str) -> None:
    terminal, theirs = pty.openpty()
    process = leak(way, theirs)
    os.close(theirs)
    said = b"".join(iter(lambda: _read(terminal), b""))
    os.close(terminal)
    process.wait(SECONDS_MAX)

    assert b"leaky-1" in said
    assert b"planted" not in said


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that nobody is at the other end
        return b""
