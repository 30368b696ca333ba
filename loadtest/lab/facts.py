"""What takes part in a drain, so that a table can be judged later."""

from loadtest.lab.lab import LABS
from loadtest.lib.machine import facts, sqlite_facts


def faktory_facts() -> dict[str, str]:
    with LABS["faktory"]() as lab:
        return {"Faktory": lab.wire.info().version}


def server_facts() -> dict[str, str]:
    """Of the machine and the two servers; the consumers are ours and those that are built."""
    found = {name: value for name, value in facts().items() if "PyPI" not in name}
    return found | faktory_facts() | sqlite_facts()
