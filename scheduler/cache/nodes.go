package cache

import "kruntimes.io/kruntimes/scheduler/framework"

// nodeState is a Node, or the Pods that name one that is not there. When a Node goes, its Pods stay as they were for up to a
// minute, ready by their own last word, until Kubernetes removes them.
type nodeState struct {
	name  string
	there bool
	pods  map[*podState]struct{}
}

// SetNode notes that a Node is there.
func (c *Cache) SetNode(name string) []Change { return c.node(name).set(true) }

// RemoveNode notes that a Node is gone.
func (c *Cache) RemoveNode(name string) []Change {
	n := c.node(name)
	changes := n.set(false)
	c.collectNode(n)
	return changes
}

func (n *nodeState) set(there bool) []Change {
	if n.there == there {
		return nil
	}
	n.there = there
	changes := make([]Change, 0, len(n.pods))
	for p := range n.pods {
		p.touch()
		change := Change{Runtime: p.pod.Runtime}
		if p.available() || there && p.pod.Terminating {
			change.Events = framework.PodAvailable
		}
		changes = append(changes, change)
	}
	return changes
}

// onNode makes a Pod one of the Node's of this name, or of none when that is empty.
func (c *Cache) onNode(p *podState, name string) {
	if n := p.node; n != nil {
		p.node = nil
		delete(n.pods, p)
		c.collectNode(n)
	}
	if name != "" {
		p.node = c.node(name)
		p.node.pods[p] = struct{}{}
	}
}

func (c *Cache) node(name string) *nodeState {
	n, ok := c.nodes[name]
	if !ok {
		n = &nodeState{name: name, pods: map[*podState]struct{}{}}
		c.nodes[name] = n
	}
	return n
}

// collectNode drops a Node of which nothing is left.
func (c *Cache) collectNode(n *nodeState) {
	if !n.there && len(n.pods) == 0 {
		delete(c.nodes, n.name)
	}
}

func (p *podState) nodeIsGone() bool { return p.node != nil && !p.node.there }

func (p *podState) available() bool { return p.pod.Ready && !p.pod.Terminating && !p.nodeIsGone() }
