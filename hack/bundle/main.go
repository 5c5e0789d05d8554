// Command bundle writes the OLM bundle of kruntimes, and the policies that its manager looks after itself: a bundle can hold none.
//
//	go run ./hack/bundle --version=0.1.0
//
// It renders config/olm. The rights that are bound to the ServiceAccounts of the Deployments, the Deployments and the webhooks go
// into the ClusterServiceVersion of config/manifests, with config/samples as its examples. Policies go to config/selfinstall.
// What remains is a file each in bundle/manifests. What a bundle cannot say is an error, so that nothing is lost unseen.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// A release is what tells one bundle from another.
type release struct {
	// version is that of the ClusterServiceVersion: a semantic version without v.
	version string
	// replaces is the name of the ClusterServiceVersion that this one follows, skipRange a range of versions that it may
	// follow as well. Empty: none.
	replaces, skipRange string
	// channel is the one and default channel.
	channel string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var r release
	flags := pflag.NewFlagSet("bundle", pflag.ContinueOnError)
	flags.StringVar(&r.version, "version", "", "Semantic `version` of the bundle, without v")
	flags.StringVar(&r.replaces, "replaces", "", "`Name` of the ClusterServiceVersion that this one follows")
	flags.StringVar(&r.skipRange, "skip-range", "", "`Range` of versions that may be skipped on the way to this one")
	flags.StringVar(&r.channel, "channel", "candidate", "`Channel` of the bundle")
	if err := flags.Parse(args); err != nil {
		return err
	}
	in, err := read(".")
	if err != nil {
		return err
	}
	parts, err := sortOut(in.rendered)
	if err != nil {
		return err
	}
	csv, err := serviceVersion(in, parts, r)
	if err != nil {
		return err
	}
	return write(".", in, parts, csv, r)
}
