package cache

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kruntimes.io/kruntimes/scheduler/framework"
)

// TestPodsOfNodes plays events of Pods and Nodes and wants the available Pods, and the events that are told, after each.
func TestPodsOfNodes(t *testing.T) {
	on := func(node, name string, change ...func(*Pod)) Pod {
		p := pod(name, true)
		p.Node = node
		for _, c := range change {
			c(&p)
		}
		return p
	}
	unready := func(p *Pod) { p.Ready = false }
	c := New()
	c.SetRuntime(runtimeInfo(nil))
	steps := []struct {
		name string
		do   func() []Change
		// available are the Pods that take Runs, woken is what was told to wake Runs.
		available []string
		woken     framework.Events
	}{
		{"a Pod comes before its Node", func() []Change { return []Change{c.SetPod(on("n", "a"))} }, nil, 0},
		{"its Node comes", func() []Change { return c.SetNode("n") }, []string{"a"}, framework.PodAvailable},
		{"its Node is shown again", func() []Change { return c.SetNode("n") }, []string{"a"}, 0},
		{"another Pod comes", func() []Change { return []Change{c.SetPod(on("n", "b"))} }, []string{"a", "b"}, framework.PodAvailable},
		{"a Pod without a Node", func() []Change { return []Change{c.SetPod(on("", "c"))} }, []string{"a", "b", "c"}, framework.PodAvailable},
		{"one of the Pods goes", func() []Change { return []Change{c.RemovePod("uid-b")} }, []string{"a", "c"}, 0},
		{"the Node goes", func() []Change { return c.RemoveNode("n") }, []string{"c"}, 0},
		{"a Pod of it changes", func() []Change { return []Change{c.SetPod(on("n", "a", unready))} }, []string{"c"}, 0},
		{"and back", func() []Change { return []Change{c.SetPod(on("n", "a"))} }, []string{"c"}, 0},
		{"the Node is registered again", func() []Change { return c.SetNode("n") }, []string{"a", "c"}, framework.PodAvailable},
		{"the Pod gets another Node", func() []Change { return []Change{c.SetPod(on("m", "a"))} }, []string{"c"}, 0},
		{"which is there", func() []Change { return c.SetNode("m") }, []string{"a", "c"}, framework.PodAvailable},
		{"the first Node goes", func() []Change { return c.RemoveNode("n") }, []string{"a", "c"}, 0},
		{"a Node of which nobody knows goes", func() []Change { return c.RemoveNode("x") }, []string{"a", "c"}, 0},
	}
	for _, s := range steps {
		var woken framework.Events
		for _, change := range s.do() {
			woken |= change.Events
		}
		var available []string
		for _, p := range c.Snapshot(key).Pods {
			if p.Available() {
				available = append(available, p.Name)
			}
		}
		if diff := cmp.Diff(s.available, available); diff != "" {
			t.Errorf("%s: available (-want +got):\n%s", s.name, diff)
		}
		if woken != s.woken {
			t.Errorf("%s: told %s, want %s", s.name, woken, s.woken)
		}
	}
	if c.PodStays("uid-a") != true {
		t.Error("a Pod whose Node is there does not stay")
	}
	c.RemoveNode("m")
	if c.PodStays("uid-a") {
		t.Error("a Pod whose Node is gone stays")
	}
}

// TestNothingIsLeftOfNodes lets many Nodes and their Pods come and go, in either order.
func TestNothingIsLeftOfNodes(t *testing.T) {
	c := New()
	for i := range 100 {
		p := pod(fmt.Sprint(i), true)
		p.Node = fmt.Sprint(i)
		c.SetPod(p)
		c.SetNode(p.Node)
		if i%2 == 0 {
			c.RemoveNode(p.Node)
			c.RemovePod(p.UID)
		} else {
			c.RemovePod(p.UID)
			c.RemoveNode(p.Node)
		}
	}
	if len(c.nodes) != 0 || len(c.pods) != 0 {
		t.Errorf("%d Nodes and %d Pods are left", len(c.nodes), len(c.pods))
	}
}
