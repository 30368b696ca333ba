"""A real Faktory with its own Redis, for one test, demo or benchmark."""

import os
from collections.abc import Sequence

from devservers.build import build, redis_server
from devservers.processes import Child
from devservers.protocol_server import ProtocolServer

# A Unix socket's path has at most 108 bytes with its final zero on Linux, 104 elsewhere.
MAX_SOCKET_PATH = 103


class FaktoryServer(ProtocolServer):
    """A Faktory process.

    What its Redis does after kill() is as after a real crash: on Linux Faktory has asked the kernel
    to SIGTERM it, so it saves its data and ends; elsewhere it lives on until start() or stop(). A
    Faktory that finds a Redis alive in its directory refuses to start.
    """

    name = "Faktory"

    @property
    def web_scheme(self) -> str:  # type: ignore[override]
        return "https" if self.tls else "http"

    def _start_child(self, ports: Sequence[int]) -> Child:
        port, web_port = ports
        binaries = build()
        if len(os.fsencode(self.data_dir / "db" / "redis.sock")) > MAX_SOCKET_PATH:
            raise ValueError(f"{self.data_dir} is too long a path for a Unix socket in it")
        for name in ("db", "bin"):
            (self.data_dir / name).mkdir(exist_ok=True)
        # Faktory looks for redis-server on its PATH, which is this one directory.
        link = self.data_dir / "bin" / "redis-server"
        link.unlink(missing_ok=True)
        link.symlink_to(redis_server())
        # Nothing is inherited: a FAKTORY_PASSWORD or FAKTORY_ENV of the caller's would change it.
        env = {"PATH": str(self.data_dir / "bin"), "HOME": str(self.data_dir)}
        if self.password is not None:
            # A path, because a password that starts with a slash would be taken for one.
            path = self.data_dir / "conf" / "password"
            path.write_text(self.password, encoding="utf-8")
            env["FAKTORY_PASSWORD"] = str(path)
        return Child(
            [
                *(binaries / "faktory", "-e", "development", "-l", "info"),
                *("-b", f"127.0.0.1:{port}", "-w", f"127.0.0.1:{web_port}"),
                *("-d", self.data_dir / "db", "-c", self.data_dir / "conf"),
            ],
            log=self.data_dir / "faktory.log",
            env=env,
        )

    def _ready_line(self, port: int) -> str:
        return f"listening at 127.0.0.1:{port}, press"
