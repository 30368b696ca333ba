"""A real S3 server, versitygw over a directory, for one test, demo or benchmark."""

from collections.abc import Sequence
from pathlib import Path

from devservers.build import build
from devservers.http_server import HttpServer
from devservers.processes import Child


class S3Server(HttpServer):
    """An S3 server with one account. Buckets are addressed by path, not by host name."""

    name = "S3 server"
    access_key = "manyhands"
    # Both characters of base64 that a signature or a URL may get wrong.
    secret_key = "secret/key+1"
    region = "us-east-1"

    @property
    def endpoint(self) -> str:
        return self.url

    def make_bucket(self, name: str) -> None:
        """Make an empty bucket, whether or not the server is running."""
        (self._buckets / name).mkdir()

    @property
    def _buckets(self) -> Path:
        return self.data_dir / "buckets"

    def _prepare(self, directory: Path) -> None:
        for name in ("buckets", "metadata"):
            (directory / name).mkdir(parents=True, exist_ok=True)

    def _start_child(self, ports: Sequence[int]) -> Child:
        return Child(
            [
                *(build() / "versitygw", "--port", f"127.0.0.1:{ports[0]}"),
                *("--region", self.region, "--health", self.probe_path),
                "--keep-alive",  # as S3 does
                # Metadata in files: not every file system has extended attributes.
                *("posix", "--sidecar", self.data_dir / "metadata", self._buckets),
            ],
            log=self.log,
            env={"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key},
        )
