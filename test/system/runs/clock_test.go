package runs

import "time"

// after10ms is part of the scenario, not a wait for something to happen: the cancel comes about 10 ms after the create.
func after10ms() { <-time.After(10 * time.Millisecond) }
