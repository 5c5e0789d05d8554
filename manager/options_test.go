package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/telemetry/endpoint"
)

func TestValidate(t *testing.T) {
	valid := func(change func(*Options)) Options {
		o := Options{Config: &rest.Config{}, NodeImage: "node:1", Admission: AdmissionOptions{CertDir: "certs", Controller: "ns/manager"}}
		if change != nil {
			change(&o)
		}
		return o
	}
	cases := map[string]struct {
		options Options
		want    string
	}{
		"defaults":     {valid(nil), ""},
		"no user":      {valid(func(o *Options) { o.DefaultRunAsUser = "none" }), ""},
		"another user": {valid(func(o *Options) { o.DefaultRunAsUser = "1000" }), ""},
		"nothing at all": {Options{}, "no configuration to reach the API server with\n--node-image is required\n" +
			"--webhook-cert-dir is required with group workspaces\n--controller-service-account is required with groups workspaces and workflows"},
		"core alone":            {valid(func(o *Options) { o.Groups, o.Admission = []string{"core"}, AdmissionOptions{} }), ""},
		"nobody makes children": {valid(func(o *Options) { o.Groups, o.Admission.Controller = []string{"core", "workspaces"}, "" }), ""},
		"root": {valid(func(o *Options) { o.DefaultRunAsUser = "0" }),
			`--default-run-as-user: "0" is neither none nor the number of a user other than root`},
		"a user by name": {valid(func(o *Options) { o.DefaultRunAsUser = "nobody" }),
			`--default-run-as-user: "nobody" is neither none nor the number of a user other than root`},
		"workflows alone": {valid(func(o *Options) { o.Groups = []string{"workflows"} }),
			"--groups: workflows needs core and workspaces: use --groups=core,workspaces,workflows"},
		"workspaces alone": {valid(func(o *Options) { o.Groups = []string{"workspaces"} }),
			"--groups: workspaces needs core: use --groups=core,workspaces"},
		"a group that does not exist": {valid(func(o *Options) { o.Groups = []string{"core", "jobs"} }),
			`--groups: "jobs" is not one of core, workspaces, workflows`},
		"metrics for everybody": {valid(func(o *Options) { o.Metrics = endpoint.Options{Address: ":8080", Plain: true} }),
			"--metrics-plain: :8080 is not a loopback address: use 127.0.0.1, or let metrics be served over TLS"},
		"an address without a port": {valid(func(o *Options) { o.Admission.Address = "127.0.0.1" }),
			"--webhook-address: address 127.0.0.1: missing port in address"},
		"any port": {valid(func(o *Options) { o.Admission.Address = ":0" }), `--webhook-address: "0" is not the number of a port`},
		"a ServiceAccount without a namespace": {valid(func(o *Options) { o.Admission.Controller = "manager" }),
			`--controller-service-account: "manager" is not of the form namespace/name`},
		"policies without all groups": {valid(func(o *Options) { o.Groups, o.Policies.Install = []string{"core"}, true }),
			"--install-policies goes with all groups"},
		"policies with all groups": {valid(func(o *Options) {
			o.Groups, o.Policies = []string{"workflows", "core", "workspaces"}, PolicyOptions{Install: true, OwnerSelector: "a=b,c=d"}
		}), ""},
		"an owner that cannot be selected": {valid(func(o *Options) { o.Policies = PolicyOptions{Install: true, OwnerSelector: "a=b=c"} }),
			"--policy-owner-selector: found '=', expected: ',' or 'end of string'"},
		"a ServiceAccount with a user's name": {valid(func(o *Options) { o.Admission.Controller = "system:serviceaccount/x" }),
			`--controller-service-account: "system:serviceaccount/x" is not of the form namespace/name`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := tc.options.validate(); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestComplete(t *testing.T) {
	limited := &rest.Config{QPS: 5, RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter()}
	got := Options{Config: limited, NodeImage: "node:1"}
	got.complete()
	want := Options{Config: &rest.Config{QPS: -1, UserAgent: "kruntimes-manager"}, Groups: []string{"core", "workspaces", "workflows"},
		NodeImage: "node:1", RuntimedClusterRole: config.RuntimedClusterRole, DefaultRunAsUser: "65532", HealthAddress: "0",
		Admission: AdmissionOptions{Address: ":9443", UserRole: config.WorkspaceUserClusterRole}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	if limited.QPS != 5 || limited.RateLimiter == nil {
		t.Error("the caller's configuration was changed")
	}
	set := Options{Config: limited, Groups: []string{"core"}, NodeImage: "node:1", RuntimedClusterRole: "r", DefaultRunAsUser: "none",
		Metrics: endpoint.Options{Address: ":1"}, HealthAddress: ":2",
		Admission: AdmissionOptions{Address: ":3", CertDir: "d", Controller: "n/a", UserRole: "u"}}
	completed := set
	completed.complete()
	if diff := cmp.Diff(set, completed, cmpopts.IgnoreFields(Options{}, "Config")); diff != "" {
		t.Errorf("what was set was changed (-want +got):\n%s", diff)
	}
}

func TestFlagsHaveTheDefaults(t *testing.T) {
	var got Options
	got.AddFlags(pflag.NewFlagSet("manager", pflag.ContinueOnError))
	want := Options{Config: &rest.Config{}}
	want.complete()
	if got.RuntimedClusterRole != want.RuntimedClusterRole || got.DefaultRunAsUser != want.DefaultRunAsUser || !cmp.Equal(got.Groups, want.Groups) ||
		got.Admission != want.Admission {
		t.Errorf("flags give %+v, want %+v", got, want)
	}
}
