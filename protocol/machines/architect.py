"""The standard edition's architect: everything reaches it as a request, and a merge leads on to DISPATCHING."""

from protocol.machine import Machine

ARCHITECT = Machine(
    name="architect",
    purpose="Reviews the PM's specs, splits them into stories, answers and reviews the coders, and merges their work.",
    initial="WAITING",
    states={
        "WAITING": "Has nothing to do until a request comes in, from the PM or a coder.",
        "SETUP": "Brings its own workspace up to date with the mirror; doing so twice does no harm.",
        "DISPATCHING": "Puts every story whose dependencies are met where a coder can take it.",
        "MONITORING": "The coders are at work; waits for someone to ask for something.",
        "REQUEST": "Deals with one request: a spec, a question, a review or a merge.",
        "ESCALATED": "Has put a question to the person and waits for the answer.",
        "DONE": "Every story is merged; rests until the next request.",
        "ERROR": "Gave up, or was told to; waits to be recovered.",
    },
    edges={
        "WAITING": {
            "SETUP": "any request (question, spec review, approval)",
            "ERROR": "channel closed · abnormal shutdown",
        },
        "SETUP": {"REQUEST": "workspace ready", "ERROR": "workspace setup failed"},
        "DISPATCHING": {"MONITORING": "ready stories on the work queue", "DONE": "no stories left"},
        "MONITORING": {
            "REQUEST": "coder request (question, plan, iterations or tokens, code review, merge)",
            "ERROR": "channel closed · abnormal shutdown",
        },
        "REQUEST": {
            "WAITING": "no spec work",
            "MONITORING": "approved (non-code) · changes requested",
            "DISPATCHING": "spec approved, stories loaded · merge succeeded, dependent stories released",
            "ESCALATED": "cannot answer, person asked",
            "ERROR": "abandon · unrecoverable error",
        },
        "ESCALATED": {"REQUEST": "person answered", "ERROR": "time-out without an answer"},
        "DONE": {"WAITING": "new spec"},
        "ERROR": {"WAITING": "recovery · restart"},
    },
)
