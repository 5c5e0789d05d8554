#!/usr/bin/env bash
# Prints the path of an archive with the root of a minimal Debian or Ubuntu and the packages that are asked for.
#
# Suite and mirror are those that apt on this machine is configured with. The archive is kept in the user's cache
# directory, so only the first call takes long. It needs root, and debootstrap.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin

[[ $(id -u) == 0 ]] || { echo "debian-root: making the root of a distribution needs root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "debian-root: debootstrap is missing: hack/cluster-packages.sh installs it" >&2; exit 1; }

# mirror_of_apt prints suite and mirror of the distribution, as far as apt has seen them.
mirror_of_apt() {
	# shellcheck disable=SC2016 # apt fills these in
	apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
		awk '!found && ($1 == "Debian" || $1 == "Ubuntu") && $2 == "main" && $3 !~ /-/ {print $3, $4; found = 1}'
}
found=$(mirror_of_apt)
if [[ -z $found ]]; then
	apt-get update >&2
	found=$(mirror_of_apt)
fi
read -r suite mirror <<<"$found"
# A mirror may be a file with a list of mirrors.
if [[ ${mirror:-} == mirror+file:/* ]]; then
	list=/${mirror#mirror+file:/}
	mirror=$(awk '!/^[[:space:]]*(#|$)/ {print $1; exit}' "${list%/}")
fi
[[ -n ${mirror:-} ]] || { echo "debian-root: apt on this machine knows no mirror of Debian or Ubuntu" >&2; exit 1; }

packages=$(IFS=,; echo "$*")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kruntimes/roots
key=$({ cat "${BASH_SOURCE[0]}"; echo "$suite $packages"; dpkg --print-architecture; } | sha256sum | cut -c1-12)
archive=$cache/$suite-$key.tar
if [[ -e $archive ]]; then
	echo "$archive"
	exit
fi

mkdir -p "$cache/packages"
# Not below /tmp, where device files may not work.
work=$(mktemp -d "$cache/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
[[ -z ${http_proxy:-} ]] || export http_proxy
echo "Making the root of $suite with ${packages:-nothing else}; the first time takes a minute or two" >&2
# Mounts of the second stage go with the namespace, whatever happens.
unshare --mount --propagation private -- debootstrap --variant=minbase ${packages:+--include="$packages"} \
	--cache-dir="$cache/packages" "$suite" "$work/root" "$mirror" >"$work/log" 2>&1 || { tail -20 "$work/log" >&2; exit 1; }
[[ ! -e $work/root/usr/bin/python3 ]] || ln -s python3 "$work/root/usr/bin/python"
rm -rf "$work"/root/var/cache/apt/archives/*.deb "$work"/root/var/lib/apt/lists/* "$work"/root/dev/* "$work"/root/proc/* "$work"/root/sys/*
tar --create --numeric-owner --sort=name --directory="$work/root" --file="$work/root.tar" .
mv "$work/root.tar" "$archive.part" && mv "$archive.part" "$archive"
echo "$archive"
