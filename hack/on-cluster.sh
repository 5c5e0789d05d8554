#!/usr/bin/env bash
# Starts a cluster in the directory CLUSTER, runs a command with the KUBECONFIG of it, and removes it whatever comes of that, unless it
# was up before or KEEP is set. When the command fails, the ends of the logs of the cluster's parts are printed before.
#
#	CLUSTER=/tmp/c hack/on-cluster.sh kubectl get nodes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

keep=${KEEP:-}
# "up" leaves a cluster alone whose kubelet runs, whatever else of it has ended. One without is replaced by ours.
parts=$(bin/cluster --state="$CLUSTER" status 2>/dev/null || true)
if [[ $parts =~ (^|$'\n')kubelet\ +running ]]; then
	keep=true
fi

end() {
	local code=$?
	if ((code != 0)) && compgen -G "$CLUSTER/logs/*.log" >/dev/null; then
		tail --lines=20 "$CLUSTER"/logs/*.log >&2 || true
	fi
	if [[ -z $keep ]]; then
		bin/cluster --state="$CLUSTER" down || code=1
	fi
	exit "$code"
}
hack/cluster-packages.sh
trap end EXIT
bin/cluster --state="$CLUSTER" up
KUBECONFIG=$CLUSTER/kubeconfig "$@"
