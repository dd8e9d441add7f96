"""A rehearsal: a local server that speaks the Messages API strictly, plays scripted parts, and fails on demand."""

from actors.rehearsal.faults import Fault, Latency
from actors.rehearsal.journal import CallRecord
from actors.rehearsal.parts import Answer, Call, Cue, Part, Returned
from actors.rehearsal.playbook import read_parts
from actors.rehearsal.scene import Scene, ToolResult
from actors.rehearsal.server import Rehearsal

__all__ = [
    "Answer",
    "Call",
    "CallRecord",
    "Cue",
    "Fault",
    "Latency",
    "Part",
    "Rehearsal",
    "Returned",
    "Scene",
    "ToolResult",
    "read_parts",
]
