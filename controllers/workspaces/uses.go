package workspaces

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// uses remembers when Runs that are gone last used a workspace: Runs may be deleted before the end of their use was
// written down, or while they were active. It may be lost at any time: then the use counts that the status tells of, and
// that of Runs which are still there.
type uses struct {
	mu    sync.Mutex
	lasts map[types.NamespacedName]time.Time
}

func newUses() *uses { return &uses{lasts: map[types.NamespacedName]time.Time{}} }

// ended notes that a use of a workspace has ended.
func (u *uses) ended(workspace types.NamespacedName, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lasts[workspace] = latest(u.lasts[workspace], at)
}

// last returns when the last use that was noted ended; zero when none was.
func (u *uses) last(workspace types.NamespacedName) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lasts[workspace]
}

// forget drops what is known of a workspace that is gone.
func (u *uses) forget(workspace types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.lasts, workspace)
}
