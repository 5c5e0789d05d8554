package e2e

import (
	"fmt"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// Gate holds scripts until it is opened.
type Gate struct {
	// Wait is the part of a script that goes on when the gate is open.
	Wait string

	env  *Env
	file string
}

// NewGate returns a closed gate. Its name is unique in the test.
func (e *Env) NewGate(name string) *Gate {
	file := corev1alpha1.WorkspaceMountPath + "/gate-" + name
	return &Gate{Wait: "until [ -e " + file + " ]; do sleep 0.3; done\n", env: e, file: file}
}

// Open opens the gate for what executes on a Pod. It is tried again: a kubelet asks the API server whether it may, and does not get an
// answer in the moment after that was restarted.
func (g *Gate) Open(pod string) {
	g.env.t.Helper()
	g.env.Eventually("the gate on Pod "+pod+" is opened", func() string {
		if result := g.env.Exec(pod, corev1alpha1.ContainerRuntime, "touch", g.file); result.Code != 0 {
			return fmt.Sprintf("%+v", result)
		}
		return ""
	})
}
