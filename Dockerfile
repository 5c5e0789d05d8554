# Two images, built with "make images":
#   controlplane  manager and scheduler
#   node          runtimed (and runtimed-s3, which it becomes for artifacts in buckets) and runtime-server, for every Runtime Pod
# Both hold static binaries, the node image also the certificates that git servers are trusted by, and nothing else. They
# run as a numeric user, so that runAsNonRoot can be checked.
ARG GO_VERSION=1.26

FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS build
ARG TARGETOS TARGETARCH VERSION=unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN GOOS=${TARGETOS} GOARCH=${TARGETARCH} make build VERSION=${VERSION}

FROM scratch AS controlplane
COPY --from=build /src/bin/manager /src/bin/scheduler /
USER 65532:65532
ENTRYPOINT ["/manager"]

FROM scratch AS node
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/bin/runtimed /src/bin/runtimed-s3 /src/bin/runtime-server /
USER 65532:65532
ENTRYPOINT ["/runtimed"]
