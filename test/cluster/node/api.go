// Package node is the first process of a cluster's node. It lives in process, mount, network, host name and IPC
// namespaces of its own, starts and stops the parts of the cluster when it is told to on a unix socket, and takes all of
// them with it when it ends, whatever ends it.
package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Part is a program that the node runs.
type Part struct {
	// Name is unique on the node, and that of its log.
	Name string `json:"name"`
	// Args are the program's path and its arguments.
	Args []string `json:"args"`
	// Env is added to the environment of the node.
	Env []string `json:"env,omitempty"`
}

// State says how a part is doing.
type State struct {
	// Name is that of the part.
	Name string `json:"name"`
	// Running tells whether its process is there.
	Running bool `json:"running"`
	// PID is that of its last process, as the node sees it.
	PID int `json:"pid"`
	// Starts counts how often it was started.
	Starts int `json:"starts"`
	// Exit says how its last process ended. Empty while it runs.
	Exit string `json:"exit,omitempty"`
}

// Config is what the first process of a node has to know. It reads it from its standard input.
type Config struct {
	// State is the state directory of the cluster. Mounts below it reach containers, but not the machine.
	State string `json:"state"`
	// Socket is where the node takes orders.
	Socket string `json:"socket"`
	// Logs is where the parts log to.
	Logs string `json:"logs"`
	// Hostname is the name of the node.
	Hostname string `json:"hostname"`
	// Address is the node's on its interface, with the length of the prefix; Gateway is the machine's at the other end.
	Address string `json:"address"`
	Gateway string `json:"gateway"`
}

// Interface is the node's network interface, whose other end the machine holds.
const Interface = "eth0"

// hidden are directories that programs of the node write to whatever they are configured to. They are empty there.
var hidden = []string{"/run", "/var/lib", "/var/log"}

// Hidden returns the directories of the machine that the node does not see.
func Hidden() []string { return slices.Clone(hidden) }

// Client talks to a node.
type Client struct {
	http *http.Client
}

// NewClient returns a client for the node that listens on this socket.
func NewClient(socket string) *Client {
	var dialer net.Dialer
	return &Client{http: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
	}}}
}

// Parts returns the state of all parts, in the order in which they were first started.
func (c *Client) Parts(ctx context.Context) ([]State, error) {
	var states []State
	return states, c.do(ctx, http.MethodGet, "/parts", nil, &states)
}

// Start starts a part that does not run.
func (c *Client) Start(ctx context.Context, part Part) error {
	body, err := json.Marshal(part)
	if err != nil {
		return fmt.Errorf("encoding part %s: %w", part.Name, err)
	}
	return c.do(ctx, http.MethodPost, "/parts", body, nil)
}

// Stop asks a part to end, kills it after grace, and returns when its process is gone. With a grace of 0 it is killed at
// once. It is no error when the part does not run.
func (c *Client) Stop(ctx context.Context, name string, grace time.Duration) error {
	return c.do(ctx, http.MethodDelete, "/parts/"+url.PathEscape(name)+"?grace="+grace.String(), nil, nil)
}

// Again starts a part that was stopped, as it was started before.
func (c *Client) Again(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodPost, "/parts/"+url.PathEscape(name), nil, nil)
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://node"+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("asking the node: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("asking the node: %w", err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("reading the node's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(string(content))
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("reading the node's answer: %w", err)
	}
	return nil
}
