package runtimeserver_test

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

// BenchmarkExecuteTrue measures Execute of /bin/true until Exited, one at a time and sixteen at a time.
func BenchmarkExecuteTrue(b *testing.B) {
	for _, parallel := range []int{1, 16} {
		for name, args := range map[string][]string{"": nil, "/no-spare-supervisors": {"--spare-supervisors=0"}} {
			b.Run(fmt.Sprintf("parallel=%d%s", parallel, name), func(b *testing.B) {
				r, server := start(b, args...)
				benchmarkExecute(b, r, server, parallel)
			})
		}
	}
}

// BenchmarkForkExecTrue is the floor under BenchmarkExecuteTrue: /bin/true without anything around it.
func BenchmarkForkExecTrue(b *testing.B) {
	for range b.N {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkExecute(b *testing.B, r *runtimed, server *process, parallel int) {
	b.Helper()
	begin := func(i int) time.Time {
		sent := time.Now()
		r.execute(b, &runtimev1.Execute{ExecutionId: fmt.Sprint(i), Argv: []string{"/bin/true"}})
		return sent
	}
	begin(-1)
	r.awaitExited(b, "-1")
	sent := make([]time.Time, b.N)
	var toStart time.Duration
	before := cpuTicks(server.cmd.Process.Pid)
	b.ResetTimer()
	for i := range min(parallel, b.N) {
		sent[i] = begin(i)
	}
	for i := range b.N {
		rec := r.awaitExited(b, fmt.Sprint(i))
		toStart += time.UnixMicro(rec.started.GetStartTimeUnixMicros()).Sub(sent[i])
		if next := i + parallel; next < b.N {
			sent[next] = begin(next)
		}
	}
	b.StopTimer()
	ticks := cpuTicks(server.cmd.Process.Pid) - before
	b.ReportMetric(float64(ticks)*microsPerTick/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(toStart.Microseconds())/float64(b.N), "µs-to-start/op")
}

// BenchmarkMemory reports what is resident of a server and its supervisors, idle and after a thousand executions.
func BenchmarkMemory(b *testing.B) {
	r, server := start(b)
	r.execute(b, &runtimev1.Execute{ExecutionId: "first", Argv: []string{"/bin/true"}})
	r.awaitExited(b, "first")
	report := func(when string) {
		resident, private := residentKiB(server.cmd.Process.Pid)
		b.Logf("%s: server %d KiB resident, %d KiB of its own", when, resident, private)
		for _, pid := range childrenOf(server.cmd.Process.Pid) {
			resident, private := residentKiB(pid)
			b.Logf("%s: supervisor %d KiB resident, %d KiB of its own", when, resident, private)
		}
	}
	report("idle")
	const executions, parallel = 1000, 16
	for i := range executions {
		if i >= parallel {
			r.awaitExited(b, fmt.Sprint(i-parallel))
		}
		r.script(b, fmt.Sprint(i), "echo hello")
	}
	for i := range executions {
		r.awaitExited(b, fmt.Sprint(i))
	}
	report("after 1,000 executions")
}
