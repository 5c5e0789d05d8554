#!/usr/bin/env bash
# Installs config/default in the cluster of KUBECONFIG for the end-to-end suite, with the images of IMG=PREFIX:TAG.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kubectl=${KUBECTL:-kubectl}
prefix=${IMG%:*} tag=${IMG##*:}
if [[ $IMG != *:* || $tag == */* ]]; then # Such a colon stands before the port of a registry.
	echo "e2e-deploy: IMG is \"$IMG\": say PREFIX:TAG, for PREFIX/controlplane:TAG and PREFIX/node:TAG" >&2
	exit 2
fi
overlay=bin/e2e
rm -rf "$overlay" && mkdir -p "$overlay"
(cd "$overlay" && ../tools/kustomize create --resources ../../config/default &&
	../tools/kustomize edit set image "kruntimes/controlplane=$prefix/controlplane:$tag" "kruntimes/node=$prefix/node:$tag")
bin/tools/kustomize build "$overlay" | "$kubectl" apply -f -
"$kubectl" --namespace=kruntimes-system wait --for=condition=Available --timeout=180s deployment --all
