# One image for API and worker. Redis runs as a separate service; only `hone serve` uses the Valkey
# that the lock file installs.
FROM python:3.13.14-slim@sha256:9662417aace5ae7b8e2609cce472b72a8958e134ba372808abe9cc1a0c0125e6 AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements-extras.lock requirements-build.lock ./
RUN python -m venv /opt/hone \
    && /opt/hone/bin/pip install --require-hashes -r requirements-extras.lock \
    && python -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY app app
COPY workers workers
COPY extras extras
COPY clients/python clients/python
RUN /opt/build/bin/hatchling build -t wheel -d /wheels \
    && (cd clients/python && /opt/build/bin/hatchling build -t wheel -d /wheels) \
    && /opt/hone/bin/pip install --no-deps --no-index /wheels/*.whl

FROM python:3.13.14-slim@sha256:9662417aace5ae7b8e2609cce472b72a8958e134ba372808abe9cc1a0c0125e6
RUN groupadd --gid 10001 hone \
    && useradd --uid 10001 --gid hone --no-create-home --home-dir /tmp --shell /usr/sbin/nologin hone \
    && install --directory --mode 0700 --owner hone --group hone /keys
COPY --from=build /opt/hone /opt/hone
# Hone writes no files at run time, so the root file system can be mounted read-only.
ENV PATH=/opt/hone/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HONE_HOST=0.0.0.0
WORKDIR /tmp
USER 10001:10001
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 CMD ["python", "-c", "\
import http.client, os, sys; \
api = http.client.HTTPConnection('127.0.0.1', int(os.environ.get('HONE_PORT', '8080')), timeout=2); \
api.request('GET', '/healthz'); \
sys.exit(api.getresponse().status != 200)"]
CMD ["hone", "api"]
