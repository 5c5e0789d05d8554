// Package follow brings the output of a Run to a terminal while the Run takes place, and tells what becomes of it.
//
// Two connections feed it, and each of them may break at any time. The watch of the Run says which attempt is where,
// and when all is over (track.go). The log of runtimed in the assigned Pod holds the output as records, of which those
// of the Run's UID and attempt count (attempt.go). A log that breaks is opened again at the time of the last record;
// a cursor drops what has been delivered before (cursor.go). The end of an attempt is its end record; where that never
// comes, a read of the log to its end after a quiet moment settles it, and the reader is told (follow.go).
package follow
