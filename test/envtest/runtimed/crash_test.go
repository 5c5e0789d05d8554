package runtimed

// crashEnv marks a child of the test binary that is a runtimed which dies at a chosen write.
const crashEnv = "KRUNTIMES_TEST_CRASH"

func runCrashing() int { return 1 }
