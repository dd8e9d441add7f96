"""Errors of asking the model that trying again does not help with, by what to do.

EffectError
├── MissingKeyError, KeyRefusedError, PermissionRefusedError   a person gives a key that is accepted
├── BillingError, SpendLimitError                              a person sees to the account at the provider
├── ModelGoneError                                             a person names another model
├── SpecBudgetError, DayBudgetError                            a person raises the budget, or does not
├── StoryBudgetError                                           the documents' way for a budget that is used up
├── OutputLimitError                                           a person sets a smaller limit of an answer
├── ContextFullError, ModelChangedError                        the conversation begins anew with what matters
├── ContentRefusedError                                        a person decides; asking the same again seldom helps
└── BadRequestError                                            ours: the session comes to ERROR
"""

from actors.errors import EffectError


class MissingKeyError(EffectError):
    """There is no key for the provider."""


class KeyRefusedError(EffectError):
    """The provider does not know the key."""


class PermissionRefusedError(EffectError):
    """The key may not do this."""


class BillingError(EffectError):
    """The account at the provider has no credit, or cannot be charged."""


class SpendLimitError(EffectError):
    """A limit of what may be spent is reached that was set at the provider."""


class ModelGoneError(EffectError):
    """The provider has no such model, or no longer."""


class StoryBudgetError(EffectError):
    """The ceiling of a story is reached."""


class SpecBudgetError(EffectError):
    """The ceiling of a spec is reached."""


class DayBudgetError(EffectError):
    """The ceiling of a day is reached."""


class ContextFullError(EffectError):
    """The conversation is too long for the model."""


class ModelChangedError(EffectError):
    """The settings name another model by now, and none goes on with the conversation of another."""


class OutputLimitError(EffectError):
    """The model gives no answers as long as it was asked for."""


class ContentRefusedError(EffectError):
    """The model refuses what it was asked."""


class BadRequestError(EffectError):
    """The provider does not understand what we ask."""
