# Greets whoever is named, the world by default.
echo "Hello, ${1:-world}"
echo "This is run $KRUNTIME_RUN_NAME in namespace $KRUNTIME_NAMESPACE, attempt $KRUNTIME_ATTEMPT"
