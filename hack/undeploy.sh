#!/usr/bin/env bash
# Takes out of a cluster what the manifests on standard input have put there, with all Runtimes, Runs, WorkflowRuns, definitions and
# workspaces. They go first, while the manager still runs: it and the Pods of Runtimes take the finalizers off workspaces.
#
#	kustomize build config/default | hack/undeploy.sh
#
# KUBECTL is the program to use, TIMEOUT how many seconds each step may take. FORCE=true takes off the finalizers that are left
# then, as it is right where no manager runs any more; the files of such workspaces stay until their Pod goes.
set -euo pipefail

kubectl=${KUBECTL:-kubectl}
timeout=${TIMEOUT:-120}
force=${FORCE:-false}

manifests=$(mktemp)
complaints=$(mktemp)
trap 'rm -f "$manifests" "$complaints"' EXIT
served=$("$kubectl" api-versions)
# Kinds that the cluster does not know, such as those of a cert-manager that is gone, are left out: nothing of them can be there.
served=$served awk '
	function flush() { if (version in known) printf "%s---\n", document; document = ""; version = "" }
	BEGIN { n = split(ENVIRON["served"], list, "\n"); for (i = 1; i <= n; i++) known[list[i]] = 1 }
	/^---/ { flush(); next }
	/^apiVersion: / { version = $2 }
	{ document = document $0 "\n" }
	END { flush() }' >"$manifests"

# remaining RESOURCE [SELECTOR...]: the names of all its objects, none where the kind is not known. It fails when nobody can say.
remaining() {
	"$kubectl" get "$1" --all-namespaces --ignore-not-found -o 'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}' \
		"${@:2}" 2>"$complaints" && return
	grep -q "the server doesn't have a resource type" "$complaints" && return
	cat "$complaints" >&2
	echo "undeploy: nobody can say which $1 are left, so the installation stays; another try goes on" >&2
	return 1
}

# await RESOURCE [SELECTOR...]: waits until there is none left; says which there are when the time is up.
await() {
	local deadline=$((SECONDS + timeout)) left
	while true; do
		# Who calls this looks at what it returns, and so a failure would not end the script by itself.
		left=$(remaining "$@") || exit 1
		[[ -n $left ]] || return 0
		if ((SECONDS >= deadline)); then
			printf 'undeploy: after %s s these %s are still there:\n%s\n' "$timeout" "$1" "$left" >&2
			return 1
		fi
		sleep 0.5
	done
}

# release RESOURCE: takes the finalizers off all that is left of it. An object may go before its turn; one that stays is named
# by who awaits them.
release() {
	local left namespace name
	left=$(remaining "$1")
	while IFS=/ read -r namespace name; do
		[[ -z $name ]] || "$kubectl" patch "$1" "$name" --namespace="$namespace" --type=merge --patch='{"metadata":{"finalizers":null}}' || true
	done <<<"$left"
}

# Who makes others goes before those that it makes, and the Pods of Runtimes after the workspaces whose files they remove.
for resource in workflowruns.workflows.kruntimes.io workflows.workflows.kruntimes.io actions.workflows.kruntimes.io \
	runs.kruntimes.io persistentworkspaces.workspaces.kruntimes.io runtimes.kruntimes.io; do
	group=${resource#*.}
	[[ $'\n'$served == *$'\n'"$group/"* ]] || continue
	left=$(remaining "$resource")
	[[ -n $left ]] || continue
	"$kubectl" delete "$resource" --all --all-namespaces --wait=false
	await "$resource" && continue
	if [[ $force != true ]]; then
		echo "undeploy: does the manager run, and do the Pods of their Runtimes? With FORCE=true their finalizers are taken off" >&2
		exit 1
	fi
	release "$resource"
	await "$resource"
done

# Owner references take the rest of a Runtime away. The accounts of its Pods are needed until the last of them has ended.
await pods --selector=app.kubernetes.io/managed-by=kruntimes || echo "undeploy: going on without waiting for these Pods" >&2
if [[ -s $manifests ]]; then
	"$kubectl" delete --ignore-not-found --timeout="${timeout}s" -f "$manifests" || {
		echo "undeploy: not everything was gone after $timeout s; what is above says why, and another try goes on" >&2
		exit 1
	}
fi
"$kubectl" delete serviceaccounts,rolebindings --all-namespaces --ignore-not-found --selector=app.kubernetes.io/managed-by=kruntimes
