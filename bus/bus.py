"""Everything a process needs of the bus, over one connection."""

from bus.asks import Asks
from bus.board import Board
from bus.broker import Broker
from bus.control import Control
from bus.dead import DeadLetters
from bus.health import HealthBoard
from bus.journal import Journal
from bus.leases import LEASE_SECONDS, Leases
from bus.ledger.ledger import Ledger
from bus.mail import ACK_WAIT_SECONDS, Mail
from bus.objects import Objects
from bus.post import Post
from bus.work import HELD_DELAY_SECONDS, WorkQueue
from protocol.subjects import Subjects


class Bus:
    """The bus of one project, as one process sees it."""

    def __init__(
        self,
        broker: Broker,
        subjects: Subjects,
        *,
        lease_seconds: int = LEASE_SECONDS,
        ack_wait_seconds: float = ACK_WAIT_SECONDS,
        held_delay_seconds: float = HELD_DELAY_SECONDS,
    ) -> None:
        self.broker = broker
        self.subjects = subjects
        self.journal = Journal(broker, subjects)
        self.board = Board(broker, subjects)
        self.ledger = Ledger(broker, subjects, self.board)
        self.asks = Asks(self.board)
        self.health = HealthBoard(self.board)
        self.objects = Objects(broker, subjects)
        self.post = Post(broker, subjects)
        self.control = Control(self.post)
        self.leases = Leases(broker, subjects, lease_seconds)
        self.dead = DeadLetters(broker, subjects, self.objects)
        self.mail = Mail(self.post, self.dead, ack_wait_seconds)
        self.work = WorkQueue(self.post, self.leases, self.dead, held_delay_seconds)

    async def close(self) -> None:
        """End the connection."""
        await self.broker.close()
