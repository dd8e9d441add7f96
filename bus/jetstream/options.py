"""How to reach a broker, and how that may be shown."""

from collections.abc import Mapping
from typing import Any

import msgspec

from bus.settings.servers import redact_url

_ALL_SETTINGS = "bus.credentials, bus.user, bus.token or bus.tls.cert"
_LOGINS = (
    ("user", "user {}", "bus.user and bus.password"),
    ("user_credentials", "the user of {}", "bus.credentials"),
    ("nkeys_seed", "the key in {}", "bus.credentials"),
    ("token", "the bearer of this token", "bus.token"),
    # Only the embedded server's keys are given as text, and which one it is follows from the role.
    ("nkeys_seed_str", "the embedded server's key", "which role this is run as"),
)


class ConnectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a broker. `connect_seconds` limits only the first connection; later ones are tried for ever."""

    url: str
    name: str = "callboard"
    role: str = ""
    inbox_prefix: str = "_INBOX"
    connect_seconds: float = 5.0
    reconnect_wait_seconds: float = 0.1
    buffered_bytes_max: int = 8 * 1024 * 1024
    secrets: Mapping[str, Any] = {}
    """Keyword arguments of nats-py that identify us: user, password, token, nkeys_seed, user_credentials, tls …"""

    @property
    def servers(self) -> list[str]:
        """The URLs one by one."""
        return [url.strip() for url in self.url.split(",")]

    @property
    def tls_only(self) -> bool:
        """Whether anything less than TLS is to be refused."""
        return "tls" in self.secrets or any(url.startswith("tls://") for url in self.servers)

    @property
    def shown_url(self) -> str:
        """The URL as it may stand in logs and errors."""
        return redact_url(self.url)

    @property
    def identity(self) -> str:
        """Who the server takes us for, in words that hold no secret."""
        who = next((words.format(self.secrets[key]) for key, words, _ in _LOGINS if key in self.secrets), "this client")
        return f"{who} (role {self.role})" if self.role else who

    @property
    def login_settings(self) -> str:
        """The settings that say who we are."""
        return next((settings for key, _, settings in _LOGINS if key in self.secrets), _ALL_SETTINGS)

    def __repr__(self) -> str:
        return f"ConnectOptions(url={self.shown_url!r}, name={self.name!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # msgspec's own would show the secrets wherever rich prints.
        return [("url", self.shown_url), ("name", self.name)]
