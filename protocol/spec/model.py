"""What a spec says, and what can be wrong with one: plain data that travels as JSON."""

import msgspec

SPEC_BYTES_MAX = 1024 * 1024
SPEC_LINES_MAX = 50_000  # Reading takes about 20 µs for a line of hardly any text, so this bounds the time.
FRONT_MATTER_BYTES_MAX = 16 * 1024


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that has to be true in the end, and how to tell that it is."""

    id: str
    title: str
    description: str = ""
    acceptance_criteria: tuple[str, ...]
    depends_on: tuple[str, ...] = ()


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """A valid spec. Texts are markdown as the person wrote it, without the empty lines around them.

    `metadata` has the front matter's other keys, `extra` the other sections by their headings; both in order.
    """

    id: str
    title: str
    vision: str
    scope: str
    requirements: tuple[Requirement, ...]
    metadata: dict[str, str] = {}
    extra: dict[str, str] = {}


class SpecProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong on `line` (counted from 1) of a spec, and what the person can do about it."""

    line: int
    what: str
    fix: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}; {self.fix}"
