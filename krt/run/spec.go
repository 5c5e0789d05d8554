package run

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

// maxScript is the bound of spec.source.inline. Unit: bytes.
const maxScript = 256 * 1024

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// request is what the command line asks for, with the script read.
type request struct {
	name, namespace, runtime, workspace string
	// file is where the script came from, "-" for standard input, empty for none.
	file   string
	script []byte
	// piped tells that standard input is a pipe or a file.
	piped bool
	args  []string
	env   []string
	// requests are the logical units, as name=quantity.
	requests []string
	// timeout and ttl are nil when unset.
	timeout, ttl *time.Duration
	labels       []string
}

// build returns the Run that a request describes, or a usage error that names what is wrong with it. It is pure.
func build(r request) (*corev1alpha1.Run, error) {
	run := &corev1alpha1.Run{}
	run.SetGroupVersionKind(corev1alpha1.GroupVersion.WithKind("Run"))
	run.Namespace = r.namespace
	run.Spec.Runtime = r.runtime
	for _, step := range []func(*corev1alpha1.Run, request) error{
		setName, setSource, setEnv, setRequests, setTimes, setLabels, setWorkspace,
	} {
		if err := step(run, r); err != nil {
			return nil, err
		}
	}
	return run, nil
}

func setWorkspace(run *corev1alpha1.Run, r request) error {
	if r.workspace == "" {
		return nil
	}
	run.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: r.workspace}
	return checkName("the name of the workspace", r.workspace)
}

func setName(run *corev1alpha1.Run, r request) error {
	if err := checkName("the name of the Runtime", r.runtime); err != nil {
		return err
	}
	if r.name == "" {
		run.GenerateName = generateName(r)
		return nil
	}
	run.Name = r.name
	return checkName("the name of the Run", r.name)
}

// checkName says what is wrong with a name, and which similar name would do.
func checkName(what, name string) error {
	problems := validation.IsDNS1123Subdomain(name)
	if len(problems) == 0 {
		return nil
	}
	err := cli.Usagef("%s, %q, is not a name that Kubernetes takes: it may hold lower-case letters, digits, '-' and '.', "+
		"must begin and end with a letter or digit, and have at most 253 characters", what, name)
	if better := sanitize(name); better != "" && len(better) <= validation.DNS1123SubdomainMaxLength {
		return cli.WithHint(err, "%q would do", better)
	}
	return err
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// sanitize turns any text into a name, or into the empty string where nothing is left.
func sanitize(s string) string {
	return strings.Trim(notInNames.ReplaceAllString(strings.ToLower(s), "-"), "-")
}

// generateName is the beginning of the name of a Run that was given none: from its file, else from its command.
func generateName(r request) string {
	from := ""
	switch {
	case r.file != "" && r.file != "-":
		from = strings.TrimSuffix(filepath.Base(r.file), filepath.Ext(r.file))
	case r.file == "" && len(r.args) > 0:
		from = filepath.Base(r.args[0])
	}
	if from = sanitize(from); from == "" {
		from = "run"
	}
	return strings.Trim(from[:min(len(from), 40)], "-") + "-"
}

func setSource(run *corev1alpha1.Run, r request) error {
	if len(r.args) > 0 {
		run.Spec.Mode.Task = &corev1alpha1.TaskMode{Args: r.args}
	} else {
		run.Spec.Mode.Task = &corev1alpha1.TaskMode{}
	}
	for _, arg := range r.args {
		if !utf8.ValidString(arg) {
			return cli.Usagef("the argument %q is not UTF-8 text, and a Run cannot hold it", arg)
		}
	}
	if r.file == "" {
		if len(r.args) == 0 && r.piped {
			return cli.WithHint(cli.Usagef("nothing to run"), "to run what standard input holds, add --file -")
		}
		if len(r.args) == 0 {
			return cli.WithHint(cli.Usagef("nothing to run"), "name a script with --file, or write a command after --")
		}
		return nil
	}
	where := r.file
	if r.file == "-" {
		where = "standard input"
	}
	switch {
	case len(strings.TrimSpace(string(r.script))) == 0:
		return cli.Usagef("the script from %s is empty", where)
	case len(r.script) > maxScript:
		return cli.WithHint(cli.Usagef("the script from %s is larger than 256 KiB, the bound for the script of a Run", where),
			"put what is large into the Runtime's image, or let the script fetch it")
	case !utf8.Valid(r.script):
		return cli.WithHint(cli.Usagef("the script from %s is not UTF-8 text", where),
			"a Run takes a script, not a program; put programs into the Runtime's image and name them after --")
	}
	run.Spec.Source = &corev1alpha1.RunSource{Inline: string(r.script)}
	return nil
}

func setEnv(run *corev1alpha1.Run, r request) error {
	for _, pair := range r.env {
		name, value, ok := strings.Cut(pair, "=")
		switch {
		case !ok:
			return cli.WithHint(cli.Usagef("--env %s has no value", pair), "write --env %s=VALUE; an empty value is fine", pair)
		case !envName.MatchString(name):
			return cli.Usagef("--env %q: the name %q must begin with a letter or _, and hold only letters, digits, '_', '.' and '-'", pair, name)
		case strings.HasPrefix(name, "KRUNTIME_"):
			return cli.Usagef("--env %s: names that begin with KRUNTIME_ are reserved", pair)
		case !utf8.ValidString(value):
			return cli.Usagef("--env %s: the value is not UTF-8 text, and a Run cannot hold it", name)
		}
		run.Spec.Env = slices.DeleteFunc(run.Spec.Env, func(e corev1alpha1.EnvVar) bool { return e.Name == name })
		run.Spec.Env = append(run.Spec.Env, corev1alpha1.EnvVar{Name: name, Value: value})
	}
	return nil
}

func setRequests(run *corev1alpha1.Run, r request) error {
	for _, pair := range r.requests {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return cli.Usagef("--request %s: write it as NAME=QUANTITY, such as runs=2 or example.com/gpu=1", pair)
		}
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return cli.Usagef("--request %s: %q is not a quantity such as 1, 500m or 2Gi", pair, text)
		}
		if quantity.Sign() < 0 {
			return cli.Usagef("--request %s: the quantity must not be negative", pair)
		}
		if _, whole := quantity.AsInt64(); name == string(corev1alpha1.ResourceRuns) && (!whole || quantity.IsZero()) {
			return cli.Usagef("--request %s: runs must be a whole number of at least 1", pair)
		}
		if run.Spec.Resources == nil {
			run.Spec.Resources = &corev1alpha1.RunResources{Requests: corev1.ResourceList{}}
		}
		run.Spec.Resources.Requests[corev1.ResourceName(name)] = quantity
	}
	return nil
}

func setTimes(run *corev1alpha1.Run, r request) error {
	if r.timeout != nil {
		if *r.timeout < time.Millisecond {
			return cli.Usagef("--timeout %s: must be at least 1ms", *r.timeout)
		}
		run.Spec.Timeout = &metav1.Duration{Duration: *r.timeout}
	}
	if r.ttl != nil {
		seconds := int64(*r.ttl / time.Second)
		if *r.ttl < 0 || seconds > 1<<31-1 {
			return cli.Usagef("--ttl %s: must be between 0s and 68 years", *r.ttl)
		}
		if *r.ttl%time.Second != 0 {
			return cli.Usagef("--ttl %s: must be whole seconds", *r.ttl)
		}
		ttl := int32(seconds)
		run.Spec.TTLSecondsAfterFinished = &ttl
	}
	return nil
}

func setLabels(run *corev1alpha1.Run, r request) error {
	for _, pair := range r.labels {
		key, value, ok := strings.Cut(pair, "=")
		problems := validation.IsQualifiedName(key)
		problems = append(problems, validation.IsValidLabelValue(value)...)
		if !ok || len(problems) > 0 {
			return cli.Usagef("--label %s: %s", pair, fmt.Sprint(strings.Join(append(problems, "write it as KEY=VALUE"), "; ")))
		}
		if run.Labels == nil {
			run.Labels = map[string]string{}
		}
		run.Labels[key] = value
	}
	return nil
}
