#!/usr/bin/env bash
# Installs the Debian packages that a cluster with a real node needs, where they are missing.
set -euo pipefail

packages=(containerd runc containernetworking-plugins iptables conntrack iproute2 debootstrap)
missing=()
for package in "${packages[@]}"; do
	[[ $(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true) == installed ]] || missing+=("$package")
done
((${#missing[@]} > 0)) || exit 0

if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
	echo "cluster-packages: install these packages, as root: ${missing[*]}" >&2
	exit 1
fi
echo "Installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ apt-get update && apt-get install --yes --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 || { tail -20 "$log" >&2; exit 1; }
# The cluster runs a containerd of its own. Whoever had none before does not need the one that the package starts.
for package in "${missing[@]}"; do
	if [[ $package == containerd && -d /run/systemd/system ]]; then
		systemctl disable --now --quiet containerd
	fi
done
