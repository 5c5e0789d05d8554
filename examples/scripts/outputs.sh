# Hands values back: they appear in status.outputs, byte for byte.
{
	echo "answer=42"
	echo "sentence= spaces, # and = are kept "
	echo "poem<<END"
	echo "first line"
	echo "second line"
	echo "END"
} >> "$KRUNTIME_OUTPUTS"
echo "wrote three outputs"
