"""What the supervisor says of itself: whoever does not read it, or has gone, holds up nobody."""

import os
import threading
from collections.abc import Iterator

import pytest

from supervisors.cli import outlet
from supervisors.cli.outlet import UNREAD_MAX, Outlet

LINES = [f"{number}".encode().rjust(1023) + b"\n" for number in range(4 * UNREAD_MAX)]
"""Far more than a pipe holds."""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Where to read and where to write."""
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue  # the test, or who was tested, has closed it


def read_all(reading: int) -> list[bytes]:
    with os.fdopen(os.dup(reading), "rb") as unread:
        return unread.readlines()


def test_all_is_written_in_order_when_it_is_closed(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    out = Outlet(writing, closes=True)
    for line in LINES[:3]:
        out.write(line)
    out.close()
    out.write(LINES[3])

    assert read_all(reading) == LINES[:3]


def test_of_what_nobody_reads_the_oldest_is_lost_and_nobody_waits(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    out = Outlet(writing, closes=True)
    for line in LINES:
        out.write(line)
    out.end()

    read = read_all(reading)

    assert UNREAD_MAX <= len(read) < len(LINES)
    assert read == [line for line in LINES if line in set(read)]
    assert read[-1] == LINES[-1]


def test_a_reader_who_has_gone_is_no_failure(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.close(reading)
    out = Outlet(writing)
    for line in LINES:
        out.write(line)
    out.close()

    os.write(writing, b"what is still said goes nowhere")


def test_who_does_not_read_at_the_end_is_not_waited_for(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = pipe
    monkeypatch.setattr(outlet, "FAREWELL_SECONDS", 0.05)
    out = Outlet(writing)
    for line in LINES:
        out.write(line)
    out.close()
    for line in LINES:
        os.write(writing, line)

    os.close(reading)
    for thread in threading.enumerate():
        if thread.name == outlet.THREAD:
            thread.join()


def test_where_there_is_no_output_nothing_is_said() -> None:
    out = Outlet(None)
    out.write(b"x")
    out.close()
