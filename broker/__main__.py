"""`python -m broker`: the embedded Faktory server."""

import argparse
import sqlite3
import sys
from pathlib import Path

import uvloop

from broker.directory import DATABASE, backup, restore
from broker.process import BrokerProcess
from shared.errors import ManyhandsError
from shared.logs import configure_logs
from shared.settings import BrokerSettings
from shared.settings.loading import load
from shared.settings.options import add_settings, settings_parser

CLIENTS = """
Clients find it as they find any Faktory server: FAKTORY_URL=tcp://:password@host:7419
"""
SECTIONS = ("broker",)


def main() -> int:
    arguments = make_parser().parse_args()
    try:
        settings = load(SECTIONS, arguments).settings.broker
        configure_logs(settings.log_level, service="broker")
        if arguments.command == "backup":
            backup(settings.data, arguments.file)
        elif arguments.command == "restore":
            restore(settings.data, arguments.file)
        else:
            uvloop.run(_serve(settings))
    except ManyhandsError as error:
        sys.stderr.write(f"broker: {error}\n")
        return 1
    except sqlite3.DatabaseError as error:
        sys.stderr.write(f"broker: {settings.data / DATABASE} cannot be used: {error}\n")
        return 1
    return 0


def make_parser() -> argparse.ArgumentParser:
    parser = settings_parser(
        "broker",
        "A Faktory server in one process: durable, without Redis.",
        SECTIONS,
        commands="backup|restore",
        more=CLIENTS,
    )
    commands = parser.add_subparsers(dest="command", prog=parser.prog)
    for name, text in (
        ("backup", "copy the database of BROKER_DATA, also of a running broker, to FILE"),
        ("restore", "put the backup FILE into an empty BROKER_DATA"),
    ):
        usage = "%(prog)s [options] FILE"
        command = commands.add_parser(name, usage=usage, help=text, description=text)
        command.add_argument("file", type=Path, metavar="FILE")
        add_settings(command, SECTIONS)
    return parser


async def _serve(settings: BrokerSettings) -> None:
    await BrokerProcess(settings).run()


if __name__ == "__main__":
    sys.exit(main())
