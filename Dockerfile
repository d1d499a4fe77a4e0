# syntax=docker/dockerfile:1
# One image for every process of Gramian: the API, a worker, a migration. The command decides.
#
#   docker build -t gramian .
#   docker run --rm --init -p 127.0.0.1:8000:8000 -v gramian-data:/data \
#     -e GRAMIAN_HOST=0.0.0.0 -e GRAMIAN_OPEN_NETWORK=true gramian
#
# CPU or CUDA. On x86-64 Linux the torch wheel that pip finds by default is a CUDA build of several GB, which also runs
# on a CPU. For a small image without CUDA, name the package index that serves CPU wheels of torch (torch's own
# installation page gives its address):
#
#   docker build --build-arg TORCH_INDEX_URL=<that address> -t gramian .
#
# The version stays the one that constraints.txt pins: torch==2.13.0 accepts a CPU build of 2.13.0 as well.

FROM python:3.11-slim AS build

ARG TORCH_INDEX_URL=""
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/gramian
ENV PATH=/opt/gramian/bin:$PATH
WORKDIR /src

# Dependencies have a layer of their own: a change of the code does not fetch torch again. What torch itself needs comes
# with them, from the usual index.
COPY pyproject.toml constraints.txt README.md LICENSE ./
RUN if [ -n "$TORCH_INDEX_URL" ]; then \
      pip install --constraint constraints.txt --index-url "$TORCH_INDEX_URL" --no-deps torch; \
    fi \
    && pip install --constraint constraints.txt .

COPY gramian gramian
COPY service service
COPY workers workers
COPY migrations migrations
RUN pip install --no-deps --force-reinstall .


FROM python:3.11-slim

# The number is fixed so that files in the data volume keep their owner from one image to the next.
RUN groupadd --system --gid 10001 gramian \
    && useradd --system --uid 10001 --gid gramian --home-dir /tmp --no-create-home --shell /usr/sbin/nologin gramian \
    && install --directory --owner=gramian --group=gramian --mode=0750 /data
COPY --from=build /opt/gramian /opt/gramian

# Secrets (HF_TOKEN, a database password) come with the container, never with the image.
ENV PATH=/opt/gramian/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    GRAMIAN_DATA_DIR=/data

USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000

# For the API; a container that runs something else switches it off. 503 means that database, queue or data folder fail.
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=4 \
    CMD ["python", "-c", "import http.client, os, sys; api = http.client.HTTPConnection('127.0.0.1', int(os.environ.get('GRAMIAN_PORT', '8000')), timeout=4); api.request('GET', '/readyz'); sys.exit(api.getresponse().status != 200)"]

CMD ["gramian", "serve"]
