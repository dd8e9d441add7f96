"""What the model's calls cost, and the ceilings that no number of processes together goes over."""

from bus.errors import HoldOpenError
from bus.ledger.amounts import Amount, Usage
from bus.ledger.book import Book
from bus.ledger.ceilings import Ceilings, Crossed, Refusal, Room, ceilings_of
from bus.ledger.entries import Entry, Raised, Reserved, Scope, Settled, call_id
from bus.ledger.ledger import Ledger, Reservation, StoredEntry
from bus.ledger.prices import PriceTable, load_prices

__all__ = [
    "Amount",
    "Book",
    "Ceilings",
    "Crossed",
    "Entry",
    "HoldOpenError",
    "Ledger",
    "PriceTable",
    "Raised",
    "Refusal",
    "Reservation",
    "Reserved",
    "Room",
    "Scope",
    "Settled",
    "StoredEntry",
    "Usage",
    "call_id",
    "ceilings_of",
    "load_prices",
]
