"""Writes into the ledger when the server has answered a job's ACK; named in WORKER_HANDLERS beside
the handlers, because only the worker's inside knows it."""

import os

from manyhands.shared.errors import FaktoryError
from manyhands.shared.faktory.codec import OK, Reply
from manyhands.shared.faktory.lanes import Command
from manyhands.worker.source.results import Results
from tests.support.ledger import ANSWERED, LEDGER_VARIABLE, write_entry

_product = Results._answered


def _answered(self: Results, command: Command, reply: Reply | FaktoryError) -> None:
    if reply == OK:
        write_entry(os.environ[LEDGER_VARIABLE], command.jid, command.jid, 0, ANSWERED)
    _product(self, command, reply)


Results._answered = _answered  # type: ignore[method-assign]
