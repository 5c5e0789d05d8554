#!/usr/bin/env bash
# Checks the shell scripts: each parses, says bash in its first line, stops at the first error, and has a header comment.
# Where shellcheck is installed it runs as well.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bad=0
complain() {
	echo "$1: $2" >&2
	bad=1
}

scripts=(.ci/run hack/*.sh)
for script in "${scripts[@]}"; do
	bash -n "$script" || complain "$script" "does not parse"
	[[ $(sed -n 1p "$script") == '#!/usr/bin/env bash' ]] || complain "$script" "the first line is not #!/usr/bin/env bash"
	[[ $(sed -n 2p "$script") == '# '* ]] || complain "$script" "the second line does not say what the script is for"
	grep -qx 'set -euo pipefail' "$script" || complain "$script" "set -euo pipefail is missing"
	[[ -x $script ]] || complain "$script" "is not executable"
done
# Example scripts run under sh on Runtimes, where no rule of ours holds but that they parse.
for script in examples/scripts/*.sh; do
	sh -n "$script" || complain "$script" "does not parse"
done
if command -v shellcheck >/dev/null; then
	shellcheck "${scripts[@]}" || bad=1
	shellcheck --shell=sh examples/scripts/*.sh || bad=1
	unseen=
else
	unseen="; shellcheck is not installed and has not seen them"
fi
((bad == 0)) || exit 1
echo "verify-scripts: ${#scripts[@]} scripts are in order$unseen"
