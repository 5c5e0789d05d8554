#!/usr/bin/env bash
# Moves the pinned control plane to another version of Kubernetes and etcd:
#   hack/update-kube.sh v1.37.2 v3.7.0
# It rewrites devcluster/controlplane/kube.mod and kube.sum, which devcluster builds its binaries from.
set -euo pipefail

if [[ $# -ne 2 || ! $1 =~ ^v1\.[0-9]+\.[0-9]+$ || ! $2 =~ ^v3\.[0-9]+\.[0-9]+$ ]]; then
  echo "usage: $0 <kubernetes version, v1.x.y> <etcd version, v3.x.y>" >&2
  exit 2
fi
kubernetes=$1 etcd=$2 staging="v0.${1#v1.}"
pins=$(cd "$(dirname "$0")/../devcluster/controlplane" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp "$pins/tools.go.txt" "$work/tools.go"
cd "$work"
go mod init kruntimes.io/kruntimes/devcluster/controlplane/kube
# Kubernetes names its own staging modules in replace directives; each is published as v0.x.y beside v1.x.y.
mod=$(go mod download -json "k8s.io/kubernetes@$kubernetes" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
go mod edit -go="$(sed -n 's/^go //p' "$mod")" -require="k8s.io/kubernetes@$kubernetes" -require="go.etcd.io/etcd/server/v3@$etcd"
while read -r module; do
  go mod edit -replace="$module=$module@$staging"
done < <(sed -n 's#^\t\(k8s\.io/[a-z-]*\) => \./staging/.*#\1#p' "$mod")
go mod tidy
cp go.mod "$pins/kube.mod"
cp go.sum "$pins/kube.sum"
echo "Pinned Kubernetes $kubernetes and etcd $etcd; run 'make test' before committing." >&2
