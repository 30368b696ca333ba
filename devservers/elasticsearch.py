"""A real Elasticsearch, one node without security, for one test, demo or benchmark."""

import http
from collections.abc import Mapping, Sequence
from pathlib import Path

from devservers.http_server import HttpServer
from devservers.maven import java, java_servers
from devservers.processes import Child
from devservers.unprivileged import give, unprivileged_user, within_reach

HOME = "elasticsearch-8.15.0"
HEAP = "512m"
# In place of its own: log to our file only, write no log of the garbage collector.
JVM_OPTIONS = f"-Xms{HEAP}\n-Xmx{HEAP}\n-XX:+UseSerialGC\n-XX:TieredStopAtLevel=1\n"
LOGGING = """\
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d{ISO8601}][%-5p][%c{1.}] %m%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""


class ElasticsearchServer(HttpServer):
    """An Elasticsearch process, or rather two: a launcher, and the server in its process group.

    Started by root it runs as nobody. It keeps documents as durably as in production: a bulk is
    answered when its operations are synced.
    """

    name = "Elasticsearch"
    port_count = 2
    # A busy machine takes far longer over a JVM than an idle one, some 10 s.
    start_deadline = 120.0
    # All shards that are not copies are there, also those of before a restart.
    probe_path = "/_cluster/health?wait_for_status=yellow&timeout=1s"

    def kill(self) -> None:
        """SIGKILL the server; its launcher, which is no part of it, goes too."""
        self._require_child().kill_all()

    def _prepare(self, directory: Path) -> None:
        config = directory / "config"
        for own in (directory, config, directory / "tmp"):
            own.mkdir(parents=True, exist_ok=True)
            give(own, unprivileged_user())
        (config / "jvm.options").write_text(JVM_OPTIONS, encoding="utf-8")
        (config / "log4j2.properties").write_text(LOGGING, encoding="utf-8")

    def _start_child(self, ports: Sequence[int]) -> Child:
        settings = _settings(self.data_dir, *ports)
        (self.data_dir / "config" / "elasticsearch.yml").write_text(
            "".join(f"{name}: {value}\n" for name, value in settings.items()), encoding="utf-8"
        )
        home = within_reach(java_servers(), [HOME], unprivileged_user()) / HOME
        return Child(
            # As bin/elasticsearch does, which wants its Java in another way than from PATH.
            [
                *(java(), "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                *("-Dcli.name=server", "-Dcli.script=elasticsearch"),
                "-Dcli.libs=lib/tools/server-cli",
                *(f"-Des.path.home={home}", f"-Des.path.conf={self.data_dir / 'config'}"),
                "-Des.distribution.type=zip",
                *("-cp", "lib/*:lib/cli-launcher/*"),
                "org.elasticsearch.launcher.CliToolLauncher",
            ],
            log=self.log,
            env={"ES_TMPDIR": str(self.data_dir / "tmp")},
            directory=home,
            user=unprivileged_user(),
        )

    def _is_ready(self, child: Child, port: int) -> bool:
        del child
        return self._answer(port) == http.HTTPStatus.OK


def _settings(directory: Path, port: int, transport_port: int) -> Mapping[str, object]:
    return {
        "path.data": directory / "db",
        "path.logs": directory / "logs",
        "network.host": "127.0.0.1",
        "http.port": port,
        "transport.port": transport_port,
        "discovery.type": "single-node",
        "xpack.security.enabled": "false",
        # A disk that is nearly full for other reasons must not make indices read-only.
        "cluster.routing.allocation.disk.threshold_enabled": "false",
    }
