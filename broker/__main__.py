"""`manyhands broker`: the embedded Faktory server."""

import argparse
import sqlite3
import sys
from pathlib import Path

import uvloop

from manyhands.broker.checking import check_all
from manyhands.broker.damage import WHAT_TO_DO
from manyhands.broker.directory import DATABASE, backup, restore
from manyhands.broker.process import BrokerProcess
from manyhands.broker.progress import Progress
from manyhands.broker.recovery import recover
from manyhands.shared.errors import ManyhandsError
from manyhands.shared.logs import configure_logs, refused
from manyhands.shared.private_files import keep_files_private
from manyhands.shared.settings import BrokerSettings
from manyhands.shared.settings.loading import load
from manyhands.shared.settings.options import add_settings, settings_parser
from manyhands.shared.taken_output import take_in_output

CLIENTS = """
Clients connect as to any Faktory server:
  FAKTORY_URL=tcp://:password@host:7419
"""
SECTIONS = ("broker",)


def main() -> int:
    keep_files_private()
    arguments = make_parser().parse_args()
    try:
        settings = load(SECTIONS, arguments).settings.broker
        configure_logs(settings.log_level, service="broker")
        if arguments.command == "backup":
            backup(settings.data, arguments.file)
        elif arguments.command == "restore":
            restore(settings.data, arguments.file)
        elif arguments.command == "check":
            return _check(settings)
        elif arguments.command == "recover":
            _say(recover(settings.data, arguments.directory, Progress()))
        else:
            take_in_output()
            uvloop.run(_serve(settings))
    except ManyhandsError as error:
        return refused("broker", arguments.command, error)
    except sqlite3.DatabaseError as error:
        path = settings.data / DATABASE
        problem = ManyhandsError(f"{path} cannot be used: {error}")
        return refused("broker", arguments.command, problem)
    return 0


def make_parser() -> argparse.ArgumentParser:
    parser = settings_parser(
        "broker",
        "A Faktory server in one process: durable, without Redis.",
        SECTIONS,
        commands="backup|restore|check|recover",
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
    text = "look at every page and every job of BROKER_DATA; ends with 1 when something is damaged"
    command = commands.add_parser("check", help=text, description=text)
    add_settings(command, SECTIONS)
    text = "copy all that can be read of a damaged BROKER_DATA into the new directory DIRECTORY"
    usage = "%(prog)s [options] DIRECTORY"
    command = commands.add_parser("recover", usage=usage, help=text, description=text)
    command.add_argument("directory", type=Path, metavar="DIRECTORY")
    add_settings(command, SECTIONS)
    return parser


def _check(settings: BrokerSettings) -> int:
    problems = check_all(settings.data, Progress())
    if not problems:
        _say([f"{settings.data / DATABASE} is sound"])
        return 0
    _say([*problems, f"to mend it, {WHAT_TO_DO}"])
    return 1


def _say(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


async def _serve(settings: BrokerSettings) -> None:
    await BrokerProcess(settings).run()


if __name__ == "__main__":
    sys.exit(main())
