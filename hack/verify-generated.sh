#!/usr/bin/env bash
# Regenerates every generated file in place and fails, with the diff, if any of them changed.
# It compares with what was in the tree before, committed or not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT

generated=(apis config/crd/bases docs/metrics.md bundle bundle.Dockerfile config/selfinstall/policies.yaml)
for path in "${generated[@]}"; do
	mkdir -p "$before/$(dirname "$path")"
	cp -R "$path" "$before/$path"
done

make generate

stale=0
for path in "${generated[@]}"; do
	diff -ruN "$before/$path" "$path" || stale=1
done
if ((stale)); then
	echo "verify-generated: generated files were stale; they are up to date now, commit them" >&2
	exit 1
fi
echo "verify-generated: generated files are up to date"
