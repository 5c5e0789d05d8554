package main

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// parts are the objects of an installation, by where a bundle holds them.
type parts struct {
	// deployments are installed by OLM.
	deployments []*unstructured.Unstructured
	// webhooks are descriptions as a ClusterServiceVersion has them.
	webhooks []any
	// permissions and clusterPermissions are the rules of each ServiceAccount, in its namespace and everywhere.
	permissions, clusterPermissions map[string][]any
	// objects are files of the bundle.
	objects []*unstructured.Unstructured
	// policies are kept by the manager.
	policies []*unstructured.Unstructured
}

// sortOut finds the place of every object.
func sortOut(rendered []*unstructured.Unstructured) (*parts, error) {
	p := &parts{permissions: map[string][]any{}, clusterPermissions: map[string][]any{}}
	roles := map[string]*unstructured.Unstructured{}
	var accounts []string
	for _, object := range rendered {
		switch kind := object.GetKind(); kind {
		case "Role", "ClusterRole":
			roles[kind+"/"+object.GetName()] = object
		case "ServiceAccount":
			accounts = append(accounts, object.GetName())
		case "Deployment":
			p.deployments = append(p.deployments, object)
		case "RoleBinding", "ClusterRoleBinding", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration": // below
		case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "FlowSchema":
			p.policies = append(p.policies, kept(object))
		case "CustomResourceDefinition", "PodDisruptionBudget":
			p.objects = append(p.objects, anywhere(object))
		default:
			return nil, fmt.Errorf("%s %s: nobody knows whether a bundle can hold it", kind, object.GetName())
		}
	}
	if err := p.grant(rendered, roles, accounts); err != nil {
		return nil, err
	}
	return p, p.describeWebhooks(rendered)
}

// grant gives the rules of roles to the ServiceAccounts that they are bound to. ClusterRoles that are bound to nobody, for
// others to bind, are objects of the bundle.
func (p *parts) grant(rendered []*unstructured.Unstructured, roles map[string]*unstructured.Unstructured, accounts []string) error {
	bound := map[string]bool{}
	for _, binding := range rendered {
		to := map[string]map[string][]any{"RoleBinding": p.permissions, "ClusterRoleBinding": p.clusterPermissions}[binding.GetKind()]
		if to == nil {
			continue
		}
		kind, _, _ := unstructured.NestedString(binding.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name")
		role := roles[kind+"/"+name]
		if role == nil {
			return fmt.Errorf("%s %s binds %s %s, which is not there", binding.GetKind(), binding.GetName(), kind, name)
		}
		bound[kind+"/"+name] = true
		subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects")
		for _, subject := range subjects {
			account, _, _ := unstructured.NestedString(subject.(map[string]any), "name")
			if !slices.Contains(accounts, account) {
				return fmt.Errorf("%s %s has subject %q, which is no ServiceAccount of ours", binding.GetKind(), binding.GetName(), account)
			}
			rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
			to[account] = append(to[account], rules...)
		}
	}
	for _, object := range rendered {
		key := object.GetKind() + "/" + object.GetName()
		switch {
		case roles[key] == nil || bound[key]:
		case object.GetKind() == "ClusterRole":
			p.objects = append(p.objects, object)
		default:
			return fmt.Errorf("role %s is bound to nobody", object.GetName())
		}
	}
	return nil
}

// describeWebhooks says of every webhook what a ClusterServiceVersion can say.
func (p *parts) describeWebhooks(rendered []*unstructured.Unstructured) error {
	for _, configuration := range rendered {
		kind, isWebhooks := strings.CutSuffix(configuration.GetKind(), "WebhookConfiguration")
		if !isWebhooks {
			continue
		}
		webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
		if err != nil {
			return fmt.Errorf("reading %s: %w", configuration.GetName(), err)
		}
		for _, webhook := range webhooks {
			description, err := describe(webhook.(map[string]any), kind+"AdmissionWebhook")
			if err != nil {
				return err
			}
			p.webhooks = append(p.webhooks, description)
		}
	}
	return nil
}

// webhookFields are those that a webhook and its description have in common. The API server gets them as they are.
var webhookFields = []string{"admissionReviewVersions", "failurePolicy", "matchPolicy", "objectSelector", "reinvocationPolicy", "rules",
	"sideEffects", "timeoutSeconds"}

// describe turns a webhook into its description. It is answered by the manager; namespaces are selected by the OperatorGroup.
func describe(webhook map[string]any, kind string) (map[string]any, error) {
	description := map[string]any{"type": kind, "deploymentName": manager, "containerPort": int64(443), "targetPort": "webhook"}
	for field, value := range webhook {
		switch {
		case slices.Contains(webhookFields, field):
			description[field] = value
		case field == "name":
			description["generateName"] = value
		case field == "clientConfig":
			path, found, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
			if err != nil || !found {
				return nil, fmt.Errorf("webhook %v has no path", webhook["name"])
			}
			description["webhookPath"] = path
		case field == "namespaceSelector" && len(value.(map[string]any)) == 0:
		default:
			return nil, fmt.Errorf("webhook %v: a bundle cannot say %s", webhook["name"], field)
		}
	}
	return description, nil
}

// kept marks a policy as one that the manager keeps.
func kept(object *unstructured.Unstructured) *unstructured.Unstructured {
	object = object.DeepCopy()
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["app.kubernetes.io/name"], labels["app.kubernetes.io/managed-by"] = "kruntimes", "kruntimes"
	object.SetLabels(labels)
	return object
}

// anywhere takes the namespace away: OLM puts the objects into that of the OperatorGroup.
func anywhere(object *unstructured.Unstructured) *unstructured.Unstructured {
	object = object.DeepCopy()
	object.SetNamespace("")
	return object
}
