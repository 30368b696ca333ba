"""The command line of `manyhands worker`."""

import argparse

from manyhands.shared.settings.options import settings_parser
from manyhands.worker.commands.config import add_config_command
from manyhands.worker.commands.size import add_size_command
from manyhands.worker.service.settings import SECTIONS

SIGNALS = """
Signals: SIGTERM finishes or puts back every job and exits; a second one waits
for no handler. SIGTSTP stops fetching and finishes the jobs in hand. SIGHUP
replaces the processes one by one, without a pause. SIGUSR1 logs what they are
doing.
"""


def make_parser() -> argparse.ArgumentParser:
    parser = settings_parser(
        "worker",
        "Run jobs from a Faktory server, thousands at a time over a few sockets.",
        SECTIONS,
        commands="size|config",
        more=SIGNALS,
    )
    commands = parser.add_subparsers(dest="command", prog=parser.prog)
    add_size_command(commands)
    add_config_command(commands)
    return parser
