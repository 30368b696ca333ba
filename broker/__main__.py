"""`python -m broker`: the embedded Faktory server, configured by the environment."""

import argparse
import sqlite3
import sys
from pathlib import Path

import uvloop

from broker.directory import DATABASE, backup, restore
from broker.process import BrokerProcess
from shared.errors import ManyhandsError
from shared.logs import configure_logs
from shared.settings import BrokerSettings, load

HELP = """\
Settings come from the environment:
  BROKER_BIND            host:port for Faktory clients (default 127.0.0.1:7419)
  BROKER_HTTP_BIND       host:port for /stats, /health, /metrics, /sets/{scheduled,retries,dead}
                         (default 127.0.0.1:7420)
  BROKER_DATA            directory of the database (default ./broker-data)
  BROKER_PASSWORD        needed when it does not listen on loopback only
  BROKER_TLS_CERT        PEM files; with them clients connect by tcp+tls://
  BROKER_TLS_KEY
  BROKER_SYNC            full: answered pushes and ACKs survive a power loss (default)
                         normal: they survive a kill -9, but not a power loss
  BROKER_MAX_LINE_BYTES  longest command (default 64 MiB)
  BROKER_LOG_LEVEL       debug, info, warning or error (default info)

Clients find it as they find any Faktory server: FAKTORY_URL=tcp://:password@host:7419
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m broker",
        description="A Faktory server in one process: durable, without Redis.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="{backup,restore}")
    for name, text in (
        ("backup", "copy the database of BROKER_DATA, also of a running broker, to FILE"),
        ("restore", "put the backup FILE into an empty BROKER_DATA"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("file", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    try:
        settings = load(BrokerSettings)
        configure_logs(settings.log_level)
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


async def _serve(settings: BrokerSettings) -> None:
    await BrokerProcess(settings).run()


if __name__ == "__main__":
    sys.exit(main())
