# One image for all of our services; compose and Kubernetes choose one by command:
#   manyhands broker     manyhands api        manyhands worker
# `make image` and `docker compose build` make it. Health checks are the deployment's: each service
# has its own.

# Another one with Python 3.11 where no registry has this: --build-arg BASE=…
ARG BASE=python:3.11.13-slim-bookworm@sha256:86adf8dbadc3d6e82ee5dd2c74bec2e1c2467cdad47886280501df722372d2e1

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
RUN python -m venv --without-pip /opt/venv
COPY requirements/runtime.lock /tmp/runtime.lock
# Exactly what the lock names, by hash; wheels only, so there is no compiler to carry or to trust.
RUN pip --python /opt/venv install \
    --require-hashes --no-deps --only-binary :all: -r /tmp/runtime.lock
# What is in it, for scanners: CycloneDX.
COPY requirements/sbom.py /tmp/sbom.py
RUN python /tmp/sbom.py /tmp/runtime.lock > /opt/venv/sbom.cdx.json
# What builds our wheel stays in this stage.
COPY requirements/build.lock /tmp/build.lock
RUN pip install --require-hashes --no-deps --only-binary :all: -r /tmp/build.lock
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src/ src/
COPY shared/ shared/
COPY api/ api/
COPY broker/ broker/
COPY cli/ cli/
COPY worker/ worker/
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheel . \
    && pip --python /opt/venv install --no-deps --no-index /wheel/*.whl \
    # Compiled here, because the root file system of a running container is read-only.
    && python -m compileall -q -j 0 /opt/venv

FROM ${BASE}
LABEL org.opencontainers.image.title="manyhands" \
      org.opencontainers.image.description="A high-concurrency Faktory job consumer, and the crawl platform that runs on it" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.base.name="python:3.11.13-slim-bookworm"
# A fixed number: volumes and Kubernetes' runAsNonRoot need one. No shell, no home, no password.
RUN groupadd --gid 10001 manyhands \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /app --shell /usr/sbin/nologin manyhands \
    # Volumes that are mounted here for the first time take over this owner.
    && install -d -o 10001 -g 10001 /var/lib/manyhands /app
COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# Handler modules of your own are found in the current directory.
WORKDIR /app
USER 10001:10001
STOPSIGNAL SIGTERM
# Without a command it only says what there is.
CMD ["manyhands", "--help"]
