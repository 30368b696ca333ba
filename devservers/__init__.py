"""The real servers that tests, the demo and the benchmarks run against.

They are built from pinned sources and run on free ports of the loopback, without root and Docker.
Imports nothing from our other packages; the broker is started as a process, like the others.
"""

from devservers.api import ApiServer
from devservers.broker import BrokerServer
from devservers.build import BuildError, build
from devservers.faktory import FaktoryServer
from devservers.relay import Relay
from devservers.toxiproxy import Proxy, Toxiproxy

__all__ = [
    "ApiServer",
    "BrokerServer",
    "BuildError",
    "FaktoryServer",
    "Proxy",
    "Relay",
    "Toxiproxy",
    "build",
]
