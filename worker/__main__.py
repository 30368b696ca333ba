"""`manyhands worker`: runs jobs, or one of its commands."""

import asyncio
import sys

from manyhands.shared.errors import ManyhandsError
from manyhands.shared.logs import configure_logs, refused
from manyhands.shared.private_files import keep_files_private
from manyhands.shared.settings.loading import load
from manyhands.shared.taken_output import take_in_output
from manyhands.worker.commands.config import config_text
from manyhands.worker.commands.parser import make_parser
from manyhands.worker.commands.size import size_command
from manyhands.worker.service.settings import SECTIONS
from manyhands.worker.supervision.service import run_service


def main() -> int:
    keep_files_private()
    arguments = make_parser().parse_args()
    try:
        loaded = load(SECTIONS, arguments)
        match arguments.command:
            case "size":
                sys.stdout.write(size_command(arguments, loaded.settings.faktory))
            case "config":
                sys.stdout.write(config_text(loaded, with_origin=arguments.origin))
            case _:
                configure_logs(
                    loaded.settings.worker.log_level,
                    service="worker",
                    process_type="supervisor",
                    process_id="supervisor",
                )
                take_in_output()
                # Not uvloop: a process that has one must not fork, and this one has little to do.
                return asyncio.run(run_service(loaded.settings))
    except ManyhandsError as error:
        return refused("worker", arguments.command, error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
