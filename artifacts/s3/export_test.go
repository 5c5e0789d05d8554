package s3

import "time"

// What tests see of the package.
var (
	PartSize = partSize
	Words    = words
	Passing  = passing
)

// Bounds of the memory for parts, and of their number.
const (
	Budget   = budget
	MaxParts = maxParts
)

// SetPace makes a store expect a faster service.
func (s *Store) SetPace(upload, download time.Duration) {
	s.pace = pace{upload: upload, download: download}
}
