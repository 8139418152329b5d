# syntax=docker/dockerfile:1
# understudy in a container: `docker build -t understudy .` and `docker run --rm -p 127.0.0.1:8001:8001 understudy`.
# docs/howto/containers.md has more. Every dependency has wheels for amd64 and arm64: nothing is compiled.

FROM python:3.13-slim AS build
COPY pyproject.toml README.md LICENSE /source/
COPY src /source/src
RUN python -m venv --without-pip /opt/understudy && \
    pip --python /opt/understudy/bin/python install --no-cache-dir --only-binary=:all: --no-binary=understudy '/source[kubelet]' && \
    /opt/understudy/bin/python -m compileall -q -j 0 /opt/understudy

FROM python:3.13-slim
COPY --from=build /opt/understudy /opt/understudy
ENV PATH=/opt/understudy/bin:$PATH PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /tmp
EXPOSE 8001
HEALTHCHECK --interval=1s --timeout=5s --start-period=10s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8001/readyz')"]
ENTRYPOINT ["understudy"]
CMD ["serve", "--bind-address=0.0.0.0", "--port=8001", "--accept-hosts=understudy,host\\.docker\\.internal"]
