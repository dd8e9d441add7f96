"""Errors of the supervisors, by what to do.

SupervisorError
├── StartError            the world's: the machine could not start a process; counts as a failed start
│   └── UnfitError        the person's: a part cannot be forked; the message says what to do
├── AlreadyRunningError   the person's: a project has one supervisor; the message says where it is
├── ProbeError            its author's: a probe blocks or exits; its service counts as not healthy
├── NoProbeError          the person's: a probe that the settings name is not there; the message says what to do
├── ScaleError            the person's: no pool can be scaled like that; nothing has changed
└── DeposedError          another supervisor has taken over: stop at once, leave everything to it
"""


class SupervisorError(Exception):
    """Base of everything that `supervisors` raises."""


class StartError(SupervisorError):
    """`who` could not be started."""

    def __init__(self, who: str, reason: str) -> None:
        self.who = who
        self.reason = reason
        super().__init__(f"{who} could not be started: {reason}")


class UnfitError(StartError):
    """No process can be forked from what was imported."""


class AlreadyRunningError(SupervisorError):
    """The project has a supervisor already: as process `pid` here, or on another machine, `where`."""

    def __init__(self, pid: int, where: str = "") -> None:
        self.pid = pid
        self.where = where
        place = f"on {where}" if where else f"as process {pid}"
        super().__init__(f"the company is running already, {place}: `supervisor status` shows it")


class DeposedError(SupervisorError):
    """`successor` is the supervisor now."""

    def __init__(self, successor: str) -> None:
        self.successor = successor
        super().__init__(f"another supervisor has taken over ({successor}): this one leaves everything to it")


class ScaleError(SupervisorError):
    """There cannot be `size` of `role`; the message says why."""

    def __init__(self, role: str, size: int, reason: str) -> None:
        self.role = role
        self.size = size
        super().__init__(f"{role}={size}: {reason}")


class ProbeError(SupervisorError):
    """The probe of `service` has failed in a way that says nothing of the service; the message says how."""

    def __init__(self, service: str, reason: str) -> None:
        self.service = service
        self.reason = reason
        super().__init__(reason)


class NoProbeError(SupervisorError):
    """There is no probe at `place`; the message says why."""

    def __init__(self, place: str, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"health.probes {place}: {reason}")
