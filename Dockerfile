# The operator's image. `docker build -t syncline:0.1.0 .` needs nothing but this folder.
FROM golang:1.26 AS tools
ENV CGO_ENABLED=0 GOFLAGS="-mod=readonly -buildvcs=false" GOTOOLCHAIN=local
COPY src/syncline/sandbox/source/ /src/
RUN cd /src/helm && go build -trimpath -o /tools/helm \
    -ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=$(go list -m -f '{{.Version}}' helm.sh/helm/v4)" \
    helm.sh/helm/v4/cmd/helm
RUN cd /src/kustomize && go build -trimpath -ldflags "-s -w" -o /tools/kustomize sigs.k8s.io/kustomize/kustomize/v5
RUN cd /src/sops && go build -trimpath -ldflags "-s -w" -o /tools/sops github.com/getsops/sops/v3/cmd/sops

FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements/build.txt requirements/runtime.txt requirements/
RUN python -m venv /opt/build && python -m venv /opt/syncline
RUN /opt/build/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements/build.txt
RUN /opt/syncline/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY src/ src/
RUN /opt/build/bin/hatchling build -t wheel -d /dist \
    && /opt/syncline/bin/pip install --no-cache-dir --no-deps --no-index /dist/*.whl

FROM python:3.13-slim
RUN apt-get update && apt-get install --yes --no-install-recommends git gpg gpg-agent openssh-client \
    && rm -rf /var/lib/apt/lists/* \
    # ssh refuses to work for a user that has no name.
    && echo 'syncline:x:65532:65532::/nonexistent:/usr/sbin/nologin' >> /etc/passwd
COPY --from=build /opt/syncline /opt/syncline
COPY --from=tools /tools/ /opt/syncline/bin/
ENV PATH=/opt/syncline/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["syncline"]
CMD ["--help"]
