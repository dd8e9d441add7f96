"""The spec: what a person wants built, as markdown with YAML front matter (docs/spec.md describes the format).

`parse_spec` is the one validator: it returns a Spec, or raises SpecError with every problem it found.
`render_spec` writes a Spec in its one canonical form; parsing that gives the same Spec again.
"""

from protocol.spec.model import FRONT_MATTER_BYTES_MAX, SPEC_BYTES_MAX, SPEC_LINES_MAX, Requirement, Spec, SpecProblem
from protocol.spec.parsing import parse_spec
from protocol.spec.rendering import render_spec

__all__ = [
    "FRONT_MATTER_BYTES_MAX",
    "SPEC_BYTES_MAX",
    "SPEC_LINES_MAX",
    "Requirement",
    "Spec",
    "SpecProblem",
    "parse_spec",
    "render_spec",
]
