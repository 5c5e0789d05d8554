package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// Factory is what a command gets to work with. Everything that touches a cluster is a function, so that nothing
// connects before the command line has been understood.
type Factory struct {
	// IO are the streams: data goes to Out, talk to ErrOut.
	IO genericiooptions.IOStreams
	// ConfigFlags are the kubeconfig flags of the root command.
	ConfigFlags *genericclioptions.ConfigFlags
	// Now is the clock.
	Now func() time.Time
	// Interrupts decides what ctrl-C does.
	Interrupts *Interrupts
	// Name is how the program was called, for usage lines and hints: "krt" or "kubectl krt".
	Name string
	// Args is the command line without the program.
	Args []string
	// Environ is the environment, as os.Environ returns it.
	Environ []string

	// Fallback returns the kubeconfig of a local cluster that runs, for a person who has configured none; an empty one
	// when that cluster is only starting. May be nil.
	Fallback func() (kubeconfig string, ok bool)

	// RESTConfig returns the configuration of the cluster's client. Default: from ConfigFlags.
	RESTConfig func() (*rest.Config, error)
	// Client returns the client for our own kinds, Pods and events. It makes no discovery request. Default: from RESTConfig.
	Client func() (client.WithWatch, error)
	// Clientset returns the client for what Client cannot do: logs and versions. Default: from RESTConfig.
	Clientset func() (kubernetes.Interface, error)
	// Namespace returns the namespace that flags and kubeconfig select. Default: from ConfigFlags.
	Namespace func() (string, error)
}

// NewFactory returns a Factory that reads the kubeconfig flags.
func NewFactory(streams genericiooptions.IOStreams, now func() time.Time) *Factory {
	f := &Factory{IO: streams, Now: now, Name: "krt"}
	f.ConfigFlags = genericclioptions.NewConfigFlags(true)
	f.RESTConfig = sync.OnceValues(f.restConfig)
	f.Client = sync.OnceValues(f.client)
	f.Clientset = sync.OnceValues(f.clientset)
	f.Namespace = f.namespace
	return f
}

// restConfig loads the kubeconfig. Unlike kubectl it does not fall back to localhost:8080 when there is none.
func (f *Factory) restConfig() (*rest.Config, error) {
	loader := f.ConfigFlags.ToRawKubeConfigLoader()
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, f.badConfig(err)
	}
	if name := f.ConfigFlags.Context; set(name) && raw.Contexts[*name] == nil {
		return nil, WithHint(&NoClusterError{Reason: fmt.Sprintf("the kubeconfig has no context %q", *name)},
			"the contexts there are: %s", strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "))
	}
	var config *rest.Config
	if len(raw.Clusters) > 0 || set(f.ConfigFlags.APIServer) {
		if config, err = loader.ClientConfig(); err != nil {
			return nil, f.badConfig(err)
		}
	} else if config, err = f.unconfigured(); err != nil {
		return nil, err
	}
	config.UserAgent = "krt"
	config.QPS = -1
	config.WarningHandler = rest.NewWarningWriter(f.IO.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	return config, nil
}

// unconfigured finds a cluster for a person who names none: the one around this Pod, or a local one. Who names files
// that do not exist means them, and gets no other cluster instead.
func (f *Factory) unconfigured() (*rest.Config, error) {
	if files := f.filesByEnvironment(); files != "" {
		return nil, f.missingConfig("the kubeconfig " + files + ", named by $KUBECONFIG, does not exist or is empty")
	}
	if config, err := rest.InClusterConfig(); err == nil {
		return config, nil
	}
	kubeconfig, ok := f.local()
	switch {
	case ok && kubeconfig != "":
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, f.badConfig(err)
		}
		return config, nil
	case ok:
		return nil, f.missingConfig("no cluster is configured, and the local one is only starting")
	}
	return nil, WithHint(&NoClusterError{Reason: "no cluster is configured: found no kubeconfig file and no --server"},
		"start a local cluster with `%s dev up`, or name a kubeconfig with --kubeconfig or $KUBECONFIG", f.Name)
}

// local returns what Fallback says, if there is one.
func (f *Factory) local() (kubeconfig string, ok bool) {
	if f.Fallback == nil {
		return "", false
	}
	return f.Fallback()
}

// filesByEnvironment returns the files that $KUBECONFIG names, or the empty string where it is not set or not looked at.
func (f *Factory) filesByEnvironment() string {
	access := f.ConfigFlags.ToRawKubeConfigLoader().ConfigAccess()
	files := access.GetLoadingPrecedence()
	if access.IsExplicitFile() || slices.Equal(files, []string{clientcmd.RecommendedHomeFile}) {
		return ""
	}
	return strings.Join(files, ", ")
}

// missingConfig says what to do about a kubeconfig that is not there, which it may be in a moment.
func (f *Factory) missingConfig(reason string) error {
	if kubeconfig, ok := f.local(); ok && kubeconfig == "" {
		return WithHint(&NoClusterError{Reason: reason}, "the cluster of `%[1]s dev up` is only starting: try again when `%[1]s dev status` says Ready", f.Name)
	}
	return WithHint(&NoClusterError{Reason: reason}, "start a local cluster with `%s dev up`, or name another file with --kubeconfig or $KUBECONFIG", f.Name)
}

// goTypes is how a decoder tells in terms of Go that it met something else than expected.
var goTypes = regexp.MustCompile(`(?:couldn't get version/kind; )?(?:json parse error: )?json: cannot unmarshal (\w+) into Go (?s:.*)$`)

// badConfig says which file is wrong.
func (f *Factory) badConfig(err error) error {
	if errors.Is(err, fs.ErrNotExist) && set(f.ConfigFlags.KubeConfig) {
		return f.missingConfig(fmt.Sprintf("the kubeconfig %s does not exist", *f.ConfigFlags.KubeConfig))
	}
	return WithHint(&NoClusterError{Reason: "the kubeconfig cannot be used: " + goTypes.ReplaceAllString(err.Error(), "it holds a $1 where a kubeconfig has something else")},
		"correct the file, or name another one with --kubeconfig")
}

func (f *Factory) namespace() (string, error) {
	namespace, _, err := f.ConfigFlags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", f.badConfig(err)
	}
	return namespace, nil
}

func (f *Factory) client() (client.WithWatch, error) {
	config, err := f.RESTConfig()
	if err != nil {
		return nil, err
	}
	ctrllog.SetLogger(logr.Discard())
	c, err := client.NewWithWatch(config, client.Options{Scheme: NewScheme(), Mapper: newMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	return c, nil
}

func (f *Factory) clientset() (kubernetes.Interface, error) {
	config, err := f.RESTConfig()
	if err != nil {
		return nil, err
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	return c, nil
}

// NewScheme returns a scheme with the kinds that krt handles.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1alpha1.AddToScheme, workspacesv1alpha1.AddToScheme,
		workflowsv1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(fmt.Sprintf("registering kinds: %v", err)) // two of our own kinds collide: a bug, seen by every test
		}
	}
	return scheme
}

// newMapper knows the few kinds that krt handles, so that no command waits for discovery.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range kinds {
		mapper.Add(kind.GroupVersionKind(), meta.RESTScopeNamespace)
	}
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	return mapper
}

func set(s *string) bool { return s != nil && *s != "" }
