# One image for all of our services; compose and Kubernetes choose one by command:
#   manyhands broker     manyhands api        manyhands worker
# `docker compose build` makes it. Health checks are the deployment's: each service has its own.

FROM python:3.11.13-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
RUN python -m venv --without-pip /opt/venv
COPY requirements/runtime.lock /tmp/runtime.lock
# Exactly what the lock names, by hash; wheels only, so there is no compiler to carry or to trust.
RUN pip --python /opt/venv install \
    --require-hashes --no-deps --only-binary :all: -r /tmp/runtime.lock
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

FROM python:3.11.13-slim-bookworm
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
