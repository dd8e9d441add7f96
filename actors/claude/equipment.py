"""What an actor's process needs to think, made from the settings: its part names this as its equipment."""

from collections.abc import Mapping

from actors.claude.asking import Asking, Reach
from actors.claude.client import CallLimits, Claude
from actors.claude.providers import profile_of, provider_of
from actors.claude.purse import Purse
from actors.runtime.executors import Executors
from actors.runtime.world import World
from actors.thinking.effects import AskModel, RaiseBudget
from actors.thinking.troubles import Patience
from bus.ledger import ceilings_of, load_prices
from bus.settings import Loaded
from protocol.subjects import Role


def thinking(role: Role, world: World, loaded: Loaded, environ: Mapping[str, str]) -> Executors:
    """Executors of AskModel and RaiseBudget. The first argument is for the part to fill in, by `partial`."""
    settings = loaded.settings
    purse = Purse(world, role, ceilings_of(settings.budget), load_prices(settings.budget.prices))
    reach = Reach(lambda whose: provider_of(whose, loaded, environ), lambda whose: profile_of(whose, loaded))
    claude = Claude(CallLimits(settings.model.connect_seconds, settings.model.stall_seconds))
    patience = Patience(
        attempts_max=settings.model.attempts_max,
        total_seconds=settings.model.total_seconds,
        retry_after_seconds_max=settings.model.retry_after_seconds_max,
    )
    asking = Asking(world, reach, claude, purse, patience)
    return {AskModel: asking.ask, RaiseBudget: purse.raise_ceiling}
