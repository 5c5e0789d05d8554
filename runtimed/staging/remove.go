package staging

import (
	"fmt"

	"kruntimes.io/kruntimes/runtimed/removal"
)

// SetAside renames what lies in the volume under name, so that it can be removed while an execution of that name begins.
// It returns the new name, which no execution has.
func (a *Area) SetAside(name string) (string, error) { return removal.SetAside(a.root, name) }

// Remove removes the directory of execution id and all that is in it. One that is not there is no error.
func (a *Area) Remove(id string) error {
	if err := removal.Remove(a.root, id); err != nil {
		return fmt.Errorf("removing execution %s: %w", id, err)
	}
	return nil
}
