// Package runtimeserver is the built-in runtime server: it runs processes for runtimed, streams their output, and makes
// sure that nothing of an execution outlives it. It knows nothing of Kubernetes.
//
// The way of one execution:
//
//		runtimed ──Execute──▶ session ──▶ executions ──▶ execution ──spec, pipes──▶ supervisor ──▶ the process
//		runtimed ◀──events─── session ◀── outbox ◀────── execution ◀──Started, Exited── supervisor
//		                                     ▲──────────── output reader ◀──────pipes───────────── the process
//
//	  - A session (session.go) is one stream to runtimed. When it breaks, executions go on; a session that follows carries
//	    what the first could not. The outbox has no room: whoever has an event waits until a session takes it, so a
//	    runtimed that is away or slow stops the readers, the full pipes stop the processes, and memory stays flat.
//	  - An execution (execution.go) has one supervisor process, taken from a pool (pool.go) of processes that wait.
//	  - The process table (processes.go) starts supervisors, reaps them, and kills whatever else becomes our child.
package runtimeserver
