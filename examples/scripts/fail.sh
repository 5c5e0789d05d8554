# Ends with an exit code of its own. The last lines of standard error become status.message.
echo "about to fail"
echo "disk quota of the imaginary disk exceeded" >&2
exit 3
