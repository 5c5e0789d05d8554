#!/usr/bin/env bash
# Installs the Debian packages with the programs that a cluster with a real node needs, where these are missing. Whose programs
# they are does not matter: containerd and runc may be those of Docker, for example. No package is removed.
set -euo pipefail
# The node searches here as well, whatever PATH the caller has.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# Programs by their names, files by their paths, and the package of each.
needed=(
	containerd=containerd containerd-shim-runc-v2=containerd ctr=containerd runc=runc
	/usr/lib/cni/bridge=containernetworking-plugins /usr/lib/cni/host-local=containernetworking-plugins
	/usr/lib/cni/loopback=containernetworking-plugins /usr/lib/cni/portmap=containernetworking-plugins
	iptables=iptables conntrack=conntrack ip=iproute2
	debootstrap=debootstrap /etc/ssl/certs/ca-certificates.crt=ca-certificates
)
mapfile -t missing < <(for entry in "${needed[@]}"; do
	what=${entry%=*}
	command -v "$what" >/dev/null || [[ $what == /* && -s $what ]] || echo "${entry#*=}"
done | sort --unique)
((${#missing[@]} > 0)) || exit 0

if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
	echo "cluster-packages: install these packages, as root: ${missing[*]}" >&2
	exit 1
fi
echo "Installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ apt-get update && apt-get install --yes --no-install-recommends --no-remove "${missing[@]}"; } >"$log" 2>&1 || { tail -20 "$log" >&2; exit 1; }
# The cluster runs a containerd of its own. Whoever had none before does not need the one that the package starts.
if [[ " ${missing[*]} " == *" containerd "* && -d /run/systemd/system ]]; then
	systemctl disable --now --quiet containerd
fi
