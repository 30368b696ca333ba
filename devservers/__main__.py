"""`python -m devservers`: build the servers, or run a Faktory by hand."""

import argparse
import signal
import sys

from devservers import (
    BuildError,
    FaktoryServer,
    build,
    documentation,
    java_servers,
    kustomize,
    missing_for_debian,
    missing_for_java,
)
from devservers.processes import StartError


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m devservers",
        description="The real servers that tests, demo and benchmarks run against.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build and fetch all servers, unless they are there")
    faktory = commands.add_parser("faktory", help="run a fresh Faktory until Ctrl-C")
    faktory.add_argument("--password", help="the password that clients must know (default: none)")
    faktory.add_argument("--tls", action="store_true", help="serve TLS, with a new certificate")
    options = parser.parse_args()
    try:
        if options.command == "build":
            build_all()
        else:
            run_faktory(options.password, options.tls)
    except (BuildError, StartError, ValueError) as error:
        print(f"devservers: {error}", file=sys.stderr)
        return 1
    return 0


def build_all() -> None:
    print(f"devservers: ready in {build()}")
    print(f"devservers: ready: {kustomize()}")
    missing = missing_for_java()
    if missing:
        print(f"devservers: no Kafka and Elasticsearch: not on PATH: {', '.join(missing)}")
    else:
        print(f"devservers: ready in {java_servers()}")
    missing = missing_for_debian()
    if missing:
        print(f"devservers: no documentation of Debian: not on PATH: {', '.join(missing)}")
    else:
        print(f"devservers: ready in {documentation()}")


def run_faktory(password: str | None, tls: bool) -> None:
    # Both end the wait below; the signals are blocked so that none gets lost before it.
    ends = {signal.SIGINT, signal.SIGTERM}
    with FaktoryServer(password=password, tls=tls) as server:
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        print(f"Faktory: {server.url}")
        print(f"web UI:  {server.web_url}")
        if server.ca_file:
            print(f"CA file: {server.ca_file}")
        print("Ctrl-C ends it; its jobs are not kept.", flush=True)
        signal.sigwait(ends)


if __name__ == "__main__":
    sys.exit(main())
