package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts/stores"
	"kruntimes.io/kruntimes/runtimed"
)

// defaultState is where runtimed keeps its state in a Pod.
const defaultState = "/kruntimes/state"

// artifactFlags are the flags that say where artifacts are kept.
type artifactFlags struct {
	options   *runtimed.ArtifactOptions
	directory string
	bucket    stores.Bucket
}

// addArtifactFlags adds the flags to a set; parsed puts what they say into options.
func addArtifactFlags(flags *flag.FlagSet, options *runtimed.ArtifactOptions) *artifactFlags {
	a := &artifactFlags{options: options}
	flags.StringVar(&a.directory, "artifact-directory", "", "keep artifacts in this directory")
	flags.StringVar(&a.bucket.Bucket, "artifact-s3-bucket", "", "keep artifacts in this bucket")
	flags.StringVar(&a.bucket.Prefix, "artifact-s3-prefix", "", "what keys in the bucket begin with")
	flags.StringVar(&a.bucket.Region, "artifact-s3-region", "", "region of the bucket")
	flags.StringVar(&a.bucket.Endpoint, "artifact-s3-endpoint", "", "URL of an S3-compatible service (default: that of AWS)")
	flags.BoolVar(&a.bucket.ForcePathStyle, "artifact-s3-force-path-style", false, "put the bucket into the path of URLs")
	flags.StringVar(&a.bucket.CredentialsDir, "artifact-credentials", "",
		"directory with accessKeyID, secretAccessKey and perhaps sessionToken (default: what the environment provides)")
	flags.Int64Var(&options.MaxBytes, "artifact-max-bytes", 0, "bound of each artifact in bytes (default 10 GiB)")
	flags.IntVar(&options.MaxCount, "artifact-max-count", 0, "bound of the artifacts of a Run (default and maximum 32)")
	flags.DurationVar(&options.SweepInterval, "artifact-sweep-interval", 0,
		"mean time between two looks for artifacts of Runs that are gone (default 1h)")
	flags.DurationVar(&options.SweepGrace, "artifact-sweep-grace", 0, "how old artifacts must be to be removed (default 15m)")
	flags.DurationVar(&options.Patience, "artifact-patience", 0,
		"how long a store that fails is tried again; one may stand still for twice that time (default 2m)")
	flags.DurationVar(&options.Recheck, "artifact-recheck", 0,
		"mean time between two looks at a store that cannot be used (default 5m)")
	return a
}

// parsed takes over what the command line says.
func (a *artifactFlags) parsed() error {
	switch {
	case a.directory != "" && a.bucket.Bucket != "":
		return errors.New("--artifact-directory and --artifact-s3-bucket exclude each other")
	case a.directory != "":
		a.options.Store = &stores.Config{Directory: a.directory}
	case a.bucket.Bucket != "":
		a.options.Store = &stores.Config{S3: &a.bucket}
	case a.bucket != stores.Bucket{}:
		return errors.New("--artifact-s3-* and --artifact-credentials need --artifact-s3-bucket")
	}
	return nil
}

// artifactCommand reads artifacts for people who may execute commands in the container: "artifact cat" writes the bytes of
// one to out.
func artifactCommand(ctx context.Context, args []string, out, talk io.Writer) error {
	if len(args) == 0 || args[0] != "cat" {
		return errors.New("reading the command line: want artifact cat --ref=REF")
	}
	var text, state string
	flags := flag.NewFlagSet("runtimed artifact cat", flag.ContinueOnError)
	flags.SetOutput(talk)
	flags.StringVar(&text, "ref", "", "the address of the artifact, as JSON, as it stands in the status of its Run")
	flags.StringVar(&state, "state", defaultState, "the state directory of runtimed")
	if err := flags.Parse(args[1:]); err != nil {
		return fmt.Errorf("reading the command line: %w", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("reading the command line: unexpected argument %q", flags.Arg(0))
	}
	var ref corev1alpha1.ArtifactRef
	if err := json.Unmarshal([]byte(text), &ref); err != nil {
		return fmt.Errorf("reading --ref: %w", err)
	}
	return runtimed.CatArtifact(ctx, runtimed.Access{State: state, OpenBucket: openBucket}, ref, out)
}
