"""The classic edition's architect: specs come straight to it, and a merge is settled in REQUEST."""

from protocol.machine import Machine

ARCHITECT_CLASSIC = Machine(
    name="architect-classic",
    purpose="Takes specs directly, splits them into stories, answers and reviews the coders, and merges their work.",
    initial="WAITING",
    states={
        "WAITING": "Has nothing to do until a spec comes in.",
        "SCOPING": "Reads the spec and writes its stories and what each depends on.",
        "DISPATCHING": "Puts every story whose dependencies are met where a coder can take it.",
        "MONITORING": "The coders are at work; waits for one of them to ask for something.",
        "REQUEST": "Deals with one coder's request: a question, a review or a merge.",
        "ESCALATED": "Has put a question to the person and waits for the answer.",
        "DONE": "Every story is merged; rests until the next spec.",
        "ERROR": "Gave up, or was told to; waits to be recovered.",
    },
    edges={
        "WAITING": {"SCOPING": "spec received"},
        "SCOPING": {"DISPATCHING": "first ready stories known", "ERROR": "unrecoverable scoping error"},
        "DISPATCHING": {"MONITORING": "ready stories on the work queue", "DONE": "no stories left"},
        "MONITORING": {"REQUEST": "coder request (question, plan, iterations or tokens, code review, merge)"},
        "REQUEST": {
            "MONITORING": "approved (non-code) · changes requested · merge succeeded",
            "ESCALATED": "cannot answer, person asked",
            "ERROR": "abandon · unrecoverable error",
        },
        "ESCALATED": {"REQUEST": "person answered", "ERROR": "time-out without an answer"},
        "DONE": {"WAITING": "new spec"},
        "ERROR": {"WAITING": "recovery · restart"},
    },
)
