#!/usr/bin/env bash
# Checks the length of files against the budgets of docs/development.md. Generated files do not count.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

over=0
# limit LINES FILE...
limit() {
	local max=$1 file lines
	shift
	for file in "$@"; do
		lines=$(wc -l <"$file")
		if ((lines > max)); then
			echo "$file has $lines lines, more than $max" >&2
			over=1
		fi
	done
}

mapfile -t sources < <(git ls-files --cached --others --exclude-standard '*.go' |
	while read -r f; do [[ -e $f ]] && echo "$f"; done |
	grep -vE '(/zz_generated\.|\.pb\.go$)')
code=() tests=()
for file in "${sources[@]}"; do
	if [[ $file == *_test.go ]]; then tests+=("$file"); else code+=("$file"); fi
done
((${#code[@]} > 0 && ${#tests[@]} > 0)) || { echo "verify-sizes: found no Go files" >&2; exit 1; }

limit 400 "${code[@]}"
limit 800 "${tests[@]}"
limit 150 Makefile
limit 120 README.md
limit 40 cmd/*/main.go
((over == 0)) || exit 1
echo "verify-sizes: ${#code[@]} Go files and ${#tests[@]} test files are within the budgets"
