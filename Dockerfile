# One image for all of our services; compose and Kubernetes choose one by command:
#   python -m api        python -m worker
# `docker compose build` makes it. Health checks are the deployment's: each service has its own.

FROM python:3.11.13-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
RUN python -m venv --without-pip /opt/venv
COPY requirements/runtime.lock /tmp/runtime.lock
# Exactly what the lock names, by hash; wheels only, so there is no compiler to carry or to trust.
RUN pip --python /opt/venv install \
    --require-hashes --no-deps --only-binary :all: -r /tmp/runtime.lock
WORKDIR /app
COPY shared/ shared/
COPY api/ api/
COPY worker/ worker/
# Compiled here, because the root file system of a running container is read-only.
RUN python -m compileall -q -j 0 /app

FROM python:3.11.13-slim-bookworm
# A fixed number: volumes and Kubernetes' runAsNonRoot need one. No shell, no home, no password.
RUN groupadd --gid 10001 manyhands \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /app --shell /usr/sbin/nologin manyhands \
    # A volume that is mounted here for the first time takes over this owner.
    && install -d -o 10001 -g 10001 /var/lib/manyhands
COPY --from=build /opt/venv /opt/venv
COPY --from=build /app /app
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# `python -m` finds our packages in the current directory, before any other of the same name.
WORKDIR /app
USER 10001:10001
STOPSIGNAL SIGTERM
# Without a command it only says what can be set.
CMD ["python", "-m", "worker", "--help"]
