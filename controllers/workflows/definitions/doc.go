// Package definitions holds the controllers of Workflow and Action. They say in condition Ready whether a definition can be
// used, and write nothing else: definitions hold nothing about executions.
//
// A verdict rests on specs alone, never on the Ready of another definition: so the write of one wakes no other, and those of a
// cycle come to rest. When a definition appears, changes or is gone, all that call it, directly or further down, are judged
// anew. A status that is right already is not written.
package definitions
