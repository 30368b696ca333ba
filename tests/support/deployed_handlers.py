"""The `add` job of the deployment tests: it leaves a line in the ledger of which service ran it.

A service is known by its process group, whose number is that of its supervisor.
"""

import os

from manyhands import JobContext, job
from tests.support.ledger import LEDGER_VARIABLE, write_entry


@job("add")
async def add(a: int, b: int, context: JobContext) -> int:
    note = f"{os.getpgrp()} {a}"
    write_entry(os.environ[LEDGER_VARIABLE], context.id, context.jid, context.deliveries, note)
    return a + b
