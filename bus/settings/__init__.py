"""Settings: one loader for all commands and layers.

A command calls `load` once with its flags, its environment and its working folder, and passes structs down:
nothing below reads the environment. `model` has every setting, `docs/settings.md` the same for people.
"""

from bus.settings.errors import Problem, SecretUnavailableError, SettingsError, StateFolderError
from bus.settings.folders import find_root, make_state_folder, project_name, state_folder
from bus.settings.hiding import environment_secrets, settings_secrets, without_secrets
from bus.settings.loading import Loaded, load
from bus.settings.model import Bus, Server, Settings, Tls
from bus.settings.secret import SecretReference, SecretValue, resolve
from bus.settings.servers import redact_url

__all__ = [
    "Bus",
    "Loaded",
    "Problem",
    "SecretReference",
    "SecretUnavailableError",
    "SecretValue",
    "Server",
    "Settings",
    "SettingsError",
    "StateFolderError",
    "Tls",
    "environment_secrets",
    "find_root",
    "load",
    "make_state_folder",
    "project_name",
    "redact_url",
    "resolve",
    "settings_secrets",
    "state_folder",
    "without_secrets",
]
