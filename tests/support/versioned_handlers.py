"""A job type whose handler knows the payload version that TEST_KNOWN_VERSION says, as the code of
an older or a newer release does."""

import os

from manyhands import JobContext, job
from tests.support.ledger import LEDGER_VARIABLE, write_entry

KNOWN_VARIABLE = "TEST_KNOWN_VERSION"
KNOWN = int(os.environ.get(KNOWN_VARIABLE, "1"))


@job("versioned", version=KNOWN)
async def versioned(n: int, context: JobContext) -> None:
    note = f"{n} of version {context.version} by {KNOWN}"
    write_entry(os.environ[LEDGER_VARIABLE], context.id, context.jid, context.deliveries, note)
