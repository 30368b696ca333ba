"""The `add` job of the deployment tests: it leaves a line in the ledger of who ran it."""

import os

from tests.support.ledger import LEDGER_VARIABLE, write_entry
from worker import JobContext, job


@job("add")
async def add(a: int, b: int, context: JobContext) -> int:
    note = f"{os.getpid()} {a}"
    write_entry(os.environ[LEDGER_VARIABLE], context.id, context.jid, context.deliveries, note)
    return a + b
