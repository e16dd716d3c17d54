# syntax=docker/dockerfile:1
# Two stages on Debian 12: one that compiles, one that holds what is run. `make image` builds it.

FROM debian:bookworm-slim AS build
WORKDIR /src
COPY deploy/packages.txt deploy/packages.txt
COPY tools/packages.sh tools/packages.sh
RUN tools/packages.sh build
COPY CMakeLists.txt CMakePresets.json ./
COPY cmake cmake
COPY proto proto
COPY engine engine
COPY client client
COPY server server
COPY models models
RUN cmake --preset release \
 && cmake --build --preset release --target fermata-server fermata \
 && cmake --install build/release --prefix /opt/fermata --strip

FROM debian:bookworm-slim
COPY deploy/packages.txt tools/packages.sh /tmp/fermata/
RUN cd /tmp/fermata && mkdir deploy tools && mv packages.txt deploy && mv packages.sh tools \
 && tools/packages.sh run \
 && rm -rf /tmp/fermata /var/lib/apt/lists/* /var/cache/apt/* \
 && useradd --uid 65532 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin fermata \
 && install -d -o 65532 -g 65532 /var/lib/fermata
COPY --from=build /opt/fermata /usr

USER 65532:65532
# gRPC, and HTTP for metrics and probes.
EXPOSE 7411 7412
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
  CMD ["fermata", "health", "--server", "127.0.0.1:7411"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["fermata-server"]
CMD ["--grpc_address=0.0.0.0:7411", "--http_address=0.0.0.0:7412", "--log_format=json"]
