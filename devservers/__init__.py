"""The real servers that tests, the demo and the benchmarks run against.

They are built from pinned sources and run on free ports of the loopback, without root and Docker.
Those of the JVM, Kafka and Elasticsearch, need the machine's Java, and Maven to be fetched.
Imports nothing from our other packages; the broker is started as a process, like the others.
"""

from devservers.api import ApiServer
from devservers.broker import BrokerServer
from devservers.build import BuildError, build
from devservers.debian import documentation, missing_for_debian, wget
from devservers.elasticsearch import ElasticsearchServer
from devservers.faketime import SettableClock, missing_for_faketime
from devservers.faktory import FaktoryServer
from devservers.kafka import KafkaServer
from devservers.kustomize import kustomize
from devservers.maven import java_servers, missing_for_java
from devservers.nginx import NginxServer
from devservers.pgbouncer import PgbouncerServer, missing_for_pgbouncer
from devservers.postgres import PostgresServer, PostgresStandby
from devservers.prometheus import PrometheusServer, missing_for_prometheus, promtool
from devservers.relay import Relay
from devservers.s3 import S3Server
from devservers.toxiproxy import Proxy, Toxiproxy

__all__ = [
    "ApiServer",
    "BrokerServer",
    "BuildError",
    "ElasticsearchServer",
    "FaktoryServer",
    "KafkaServer",
    "NginxServer",
    "PgbouncerServer",
    "PostgresServer",
    "PostgresStandby",
    "PrometheusServer",
    "Proxy",
    "Relay",
    "S3Server",
    "SettableClock",
    "Toxiproxy",
    "build",
    "documentation",
    "java_servers",
    "kustomize",
    "missing_for_debian",
    "missing_for_faketime",
    "missing_for_java",
    "missing_for_pgbouncer",
    "missing_for_prometheus",
    "promtool",
    "wget",
]
