package config

import (
	"slices"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestTheFlowOfTheComponentsHoldsAllTheirRequests holds the rules of the FlowSchema against what the components may do with our
// kinds.
func TestTheFlowOfTheComponentsHoldsAllTheirRequests(t *testing.T) {
	objects := render(t, OverlayDefault)
	flow := typed[flowcontrolv1.FlowSchema](t, objects, "FlowSchema")["kruntimes-components"]
	if flow == nil || len(flow.Spec.Rules) != 1 {
		t.Fatalf("FlowSchema %+v, want one with one rule", flow)
	}
	holds := func(group, resource, verb string) bool {
		return slices.ContainsFunc(flow.Spec.Rules[0].ResourceRules, func(r flowcontrolv1.ResourcePolicyRule) bool {
			return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb)
		})
	}
	roles := typed[rbacv1.ClusterRole](t, objects, "ClusterRole")
	checked := 0
	for _, name := range []string{"kruntimes-manager", "kruntimes-scheduler", RuntimedClusterRole} {
		for _, rule := range roles[name].Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					// Nobody sends requests for finalizers, nor with the verb "govern": only rights are asked about them.
					if !strings.HasSuffix(group, "kruntimes.io") || strings.HasSuffix(resource, "/finalizers") {
						continue
					}
					for _, verb := range rule.Verbs {
						if checked++; verb != "govern" && !holds(group, resource, verb) {
							t.Errorf("%s may %s %s.%s, which is not in the flow", name, verb, resource, group)
						}
					}
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d rights were looked at", checked)
	}
}
