package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	webhooks "kruntimes.io/kruntimes/webhooks/core"
	"kruntimes.io/kruntimes/webhooks/workflows"
)

const (
	// defaultAdmissionAddress is where a manager in a cluster answers the API server.
	defaultAdmissionAddress = ":9443"
	// defaultUserRole is config.WorkspaceUserClusterRole; see defaultClusterRole.
	defaultUserRole = "kruntimes-workspace-user"
)

// AdmissionOptions say where and how the manager answers the API server: about Runs that name a workspace and, with group
// workflows, about definitions and WorkflowRuns. They count only where group workspaces is enabled.
type AdmissionOptions struct {
	// Address is where the API server reaches the manager, over TLS. Default: :9443.
	Address string
	// CertDir holds the server's certificate and key, tls.crt and tls.key, which are read again when they change. Required.
	CertDir string
	// Controller is the ServiceAccount under which the manager creates the Runs of WorkflowRuns, as <namespace>/<name>: the
	// manager's own. Required with group workflows; without, nobody has the way that it opens.
	Controller string
	// UserRole is the ClusterRole that callers are told of who may not use a workspace. Default: kruntimes-workspace-user.
	UserRole string
}

// AddFlags makes the options settable on a command line, with their defaults.
func (o *AdmissionOptions) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Address, "webhook-address", defaultAdmissionAddress, "`Address` to answer the API server on about Runs with a workspace, definitions and WorkflowRuns")
	flags.StringVar(&o.CertDir, "webhook-cert-dir", "", "`Directory` with tls.crt and tls.key for the API server's questions")
	flags.StringVar(&o.Controller, "controller-service-account", "", "This manager's own ServiceAccount, as `namespace/name`: it creates the Runs of WorkflowRuns")
	flags.StringVar(&o.UserRole, "workspace-user-cluster-role", defaultUserRole, "`ClusterRole` that is named to callers who may not use a workspace")
}

// validate reports all that is wrong at once.
func (o *AdmissionOptions) validate(withWorkflows bool) error {
	var errs []error
	if _, _, err := o.hostAndPort(); err != nil {
		errs = append(errs, fmt.Errorf("--webhook-address: %w", err))
	}
	if o.CertDir == "" {
		errs = append(errs, errors.New("--webhook-cert-dir is required with group workspaces"))
	}
	switch _, err := o.controller(); {
	case o.Controller == "" && withWorkflows:
		errs = append(errs, errors.New("--controller-service-account is required with groups workspaces and workflows"))
	case err != nil:
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// complete fills the defaults in.
func (o *AdmissionOptions) complete() {
	o.Address = cmp.Or(o.Address, defaultAdmissionAddress)
	o.UserRole = cmp.Or(o.UserRole, defaultUserRole)
}

func (o *AdmissionOptions) hostAndPort() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(cmp.Or(o.Address, defaultAdmissionAddress))
	if err != nil {
		return "", 0, err
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil || number == 0 {
		return "", 0, fmt.Errorf("%q is not the number of a port", text)
	}
	return host, int(number), nil
}

// controller is the user name of Controller; empty when there is none.
func (o *AdmissionOptions) controller() (user string, err error) {
	if o.Controller == "" {
		return "", nil
	}
	namespace, name, _ := strings.Cut(o.Controller, "/")
	if namespace == "" || name == "" || strings.ContainsAny(name, "/:") || strings.Contains(namespace, ":") {
		return "", fmt.Errorf("--controller-service-account: %q is not of the form namespace/name", o.Controller)
	}
	return webhooks.ControllerUser(types.NamespacedName{Namespace: namespace, Name: name}), nil
}

// server makes what answers the API server. It is started only by addAdmission.
func (o *AdmissionOptions) server() (webhook.Server, error) {
	host, port, err := o.hostAndPort()
	if err != nil {
		return nil, fmt.Errorf("--webhook-address: %w", err)
	}
	return webhook.NewServer(webhook.Options{Host: host, Port: port, CertDir: o.CertDir}), nil
}

// addAdmission answers the API server about Runs that name a workspace. Every replica does, the leader or not, and is
// ready only when it can.
func addAdmission(ctx context.Context, mgr ctrl.Manager, options AdmissionOptions) error {
	user, err := options.controller()
	if err != nil {
		return err
	}
	server := mgr.GetWebhookServer()
	server.Register(webhooks.RunPath, &admission.Webhook{
		Handler:        &webhooks.RunHandler{Live: mgr.GetAPIReader(), Reviews: mgr.GetClient(), Controller: user, Role: options.UserRole},
		LogConstructor: webhooks.Log(logr.FromContextOrDiscard(ctx)),
	})
	server.Register(webhooks.MarkPath, webhooks.NewMarker(logr.FromContextOrDiscard(ctx)))
	if err := mgr.AddReadyzCheck("admission", server.StartedChecker()); err != nil {
		return fmt.Errorf("adding the readiness probe of admission: %w", err)
	}
	return nil
}

// addEarlyWords answers the API server about definitions and WorkflowRuns, on the server of addAdmission.
func addEarlyWords(ctx context.Context, mgr ctrl.Manager) {
	mgr.GetWebhookServer().Register(workflows.Path, workflows.NewWebhook(logr.FromContextOrDiscard(ctx)))
}
