"""What a person can do when no connection can be made, by what went wrong."""

import re

_ADVICE = (
    (r"authorization violation|authentication", "check bus.credentials, or bus.user with bus.password, or bus.token"),
    (r"no NATS credentials|seed|nkeys", "let bus.credentials name a .creds file or a .nk file with a seed"),
    (r"hostname mismatch|doesn't match|not valid for", "set bus.tls.hostname to the name in the server's certificate"),
    (r"certificate verify failed", "let bus.tls.ca name the authority that signed the server's certificate"),
    (r"certificate required|bad certificate", "let bus.tls.cert and bus.tls.key name a certificate for this client"),
    (
        r"name or service not known|no address associated|name does not resolve",
        "correct the host in bus.url (NATS_URL)",
    ),
    (r"offers no TLS", "turn TLS on in the server, or use nats:// without bus.tls where the network is trusted"),
)
_DEFAULT = "start the server, or set bus.url (NATS_URL) to where it is"


def advise(reason: str) -> str:
    """A sentence that begins where the reason ends."""
    for pattern, advice in _ADVICE:
        if re.search(pattern, reason, re.IGNORECASE):
            return advice
    return _DEFAULT


def is_hopeless(reason: str) -> bool:
    """Whether trying again as we are will not help: the server is there and refuses us, or there is no such host."""
    return advise(reason) != _DEFAULT
