"""What a wrong command line is answered with, and values that are read in our own words."""

from collections.abc import Callable
from typing import Any

import typer
from typer.exceptions import TyperException

from bus.cli.failures import tell
from bus.cli.output import plain, say
from bus.exits import Exit

NUMBER_MAX = 2**63 - 1
"""No broker counts further."""
BEFORE = ("--project", "--bus-url", "--directory", "-C", "--version")
AFTER = ("--json",)


def number_from(least: int) -> Callable[[str | int], int]:
    """A reader of whole numbers, for typer, which has it read the default too."""

    def read(given: str | int) -> int:
        text = str(given)
        if text.isascii() and text.isdecimal() and len(text) <= len(str(NUMBER_MAX)):
            number = int(text)
            if least <= number <= NUMBER_MAX:
                return number
        raise typer.BadParameter(f"must be a whole number, {least} or more, not {text!r}")

    return read


def one_of(*choices: str) -> Callable[[str], str]:
    """A reader of one of a few words, for typer."""

    def read(text: str) -> str:
        if text in choices:
            return text
        raise typer.BadParameter(f"must be {', '.join(choices[:-1])} or {choices[-1]}, not {text!r}")

    return read


def say_usage(error: TyperException, *, json: bool) -> Exit:
    """Say how the command line is wrong; all of it goes to stderr, and with `json` the sentence is data too."""
    context = getattr(error, "ctx", None)
    if context is not None and error.message == context.get_help():
        if json:
            tell(Exit.USAGE, f"{context.command_path} needs a command", {}, json=True)
        else:
            say(plain(error.message))
        return Exit.USAGE
    if context is not None and not json:
        say(plain(f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n"))
    tell(Exit.USAGE, _sentence(error, context), {}, json=json)
    return Exit.USAGE


def _sentence(error: TyperException, context: Any) -> str:
    """Typer's, unless we know better."""
    misplaced, name = _misplaced(error, context), _name(error)
    if misplaced:
        return misplaced
    if name and error.message:
        return f"{name} {error.message}"
    return error.format_message()


def _misplaced(error: TyperException, context: Any) -> str:
    """Where an option belongs that stands where nobody knows it; empty for any other error."""
    if context is None or not hasattr(error, "possibilities"):  # typer keeps the class for itself
        return ""
    option, command, program = getattr(error, "option_name", ""), context.command_path, context.find_root().info_name
    if option in AFTER and hasattr(context.command, "commands"):
        return f"{option} goes after the command: {command} COMMAND {option}"
    if option in BEFORE and command != program:
        return f"{option} goes before the command: {command.replace(program, f'{program} {option} …', 1)}"
    return ""


def _name(error: TyperException) -> str:
    """What has the wrong value: an option as it is typed, an argument as the help calls it."""
    parameter = getattr(error, "param", None)
    if parameter is None:
        return getattr(error, "param_hint", None) or ""
    name: str = max(parameter.opts, key=len)
    return name if name.startswith("-") else parameter.metavar or name
