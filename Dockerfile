# Tessera with a CPU LibTorch:
#   docker build -t tessera .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/work" tessera train
FROM debian:12-slim AS build
# Debian keeps one version of each package, so that pinned versions would break the build at the next update.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      ca-certificates cmake g++ git libcli11-dev libpcre2-dev libtomlplusplus-dev libutf8proc-dev libyaml-cpp-dev ninja-build \
      nlohmann-json3-dev python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# LibTorch lies where the installed program looks for it, in both images.
ENV XDG_CACHE_HOME=/opt
RUN ./tessera env \
 && cmake --build build/release \
 && cmake --install build/release --prefix /opt/tessera-install --strip \
 && mkdir /opt/runtime \
 && cp -r --parents /opt/tessera/torch-*/lib/python3*/site-packages/torch/lib /opt/runtime

FROM debian:12-slim
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends libgomp1 libpcre2-8-0 libutf8proc2 libyaml-cpp0.7 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 1000 tessera
COPY --from=build /opt/tessera-install /usr/local
COPY --from=build /opt/runtime/opt /opt
# Without --data, training reads Tessera's own sources and documents.
COPY --from=build /src/src /src/src
COPY --from=build /src/docs /src/docs
USER 1000
WORKDIR /work
ENTRYPOINT ["tessera"]
CMD ["--help"]
