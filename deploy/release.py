"""What a release is made of, in dist/: wheel and sdist, the image as an archive, what the changelog
says of it, and the checksums of all.

`make release`, which builds the image first. Nothing is published.
"""

import argparse
import gzip
import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
IMAGE = "manyhands"
NOTES = "CHANGES.md"
CHECKSUMS = "SHA256SUMS"
UNRELEASED = "Unreleased"


def version_of(project: str) -> str:
    return str(tomllib.loads(project)["project"]["version"])


def section(changelog: str, name: str) -> str:
    """What stands below a heading of the second level; empty if there is no such heading."""
    parts = re.split(r"^## (.+)$", changelog, flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    return found.get(name, "").strip()


def notes_of(changelog: str, version: str) -> str:
    """Raises ValueError where it says nothing."""
    text = section(changelog, version)
    if not text:
        text = section(changelog, UNRELEASED)
        print(f"CHANGELOG.md has no section {version}: {UNRELEASED} is taken")
    if not text:
        raise ValueError(f"CHANGELOG.md says nothing of {version}")
    return f"# Manyhands {version}\n\n{text}\n"


def checksums(files: list[Path]) -> str:
    """As `sha256sum --check` reads them."""
    lines = []
    for path in sorted(files):
        with path.open("rb") as content:
            lines.append(f"{hashlib.file_digest(content, 'sha256').hexdigest()}  {path.name}\n")
    return "".join(lines)


def save_image(engine: str, version: str) -> None:
    tag = f"{IMAGE}:{version}"
    subprocess.run([engine, "tag", IMAGE, tag], check=True)
    target = DIST / f"{IMAGE}-{version}-image.tar"
    subprocess.run([engine, "save", "--output", target, tag], check=True)
    # The same image gives the same archive: no name and no time in its head.
    with (
        target.open("rb") as plain,
        Path(f"{target}.gz").open("wb") as packed,
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=0) as writer,
    ):
        shutil.copyfileobj(plain, writer)
    target.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", help="docker or podman, which has built the image")
    engine = parser.parse_args().engine
    version = version_of((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    try:
        notes = notes_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    except ValueError as error:
        print(f"make release: {error}", file=sys.stderr)
        return 1
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST, ROOT]
    try:
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        save_image(engine, version)
    except subprocess.CalledProcessError as error:
        print(f"make release: {error}", file=sys.stderr)
        return 1
    (DIST / NOTES).write_text(notes, encoding="utf-8")
    files = sorted(DIST.iterdir())
    (DIST / CHECKSUMS).write_text(checksums(files), encoding="ascii")
    for path in files:
        print(f"dist/{path.name}: {path.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
