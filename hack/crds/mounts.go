package main

import (
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Bounds without which the API server finds the rules below too dear.
const (
	maxContainers = 32
	maxMounts     = 64
	maxVolumeName = 63
	maxMountPath  = 512
	maxVolumes    = 256
	maxClaimName  = 253
)

// reservedVolume refuses the volumes that the Runtime controller makes, among them runtimed's token and state: it alone
// mounts them.
var reservedVolume = apiextensionsv1.ValidationRule{
	Rule:    "!(self in ['workspace','artifact-store']) && !self.startsWith('kruntimes-')",
	Message: "the volumes workspace, artifact-store and kruntimes-* are mounted by kruntimes only: name a volume of spec.template.spec.volumes",
}

// Rules on the container runtime, into which the Runtime controller mounts at the reserved paths.
var reservedPaths = apiextensionsv1.ValidationRules{
	{
		Rule: "self.name != 'runtime' || !has(self.volumeMounts) || self.volumeMounts.all(m, m.mountPath" +
			".matches('^(/([^/.][^/]*|[.][^/.][^/]*|[.][.][^/]+))+/?$'))",
		Message: "a mountPath of the container runtime must be absolute, without empty parts, '.' or '..', and not /, " +
			"which would hide what kruntimes mounts",
		FieldPath: ".volumeMounts",
	},
	{
		Rule: "self.name != 'runtime' || !has(self.volumeMounts) || !self.volumeMounts.exists(m, m.mountPath" +
			".matches('^/(workspace|kruntimes)(/|$)'))",
		Message: "a mountPath of the container runtime must not be /workspace or /kruntimes, or lie below: " +
			"they are mounted by kruntimes; spec.workspace says what lies at /workspace",
		FieldPath: ".volumeMounts",
	},
}

// reserveMounts adds the rules on mounts to the schema of a Pod template.
func reserveMounts(template apiextensionsv1.JSONSchemaProps) error {
	for _, kind := range []string{"containers", "initContainers"} {
		pod, ok := template.Properties["spec"]
		list, okList := pod.Properties[kind]
		if !ok || !okList || list.Items == nil || list.Items.Schema == nil {
			return fmt.Errorf("the schema of the template has no %s", kind)
		}
		list.MaxItems = new(int64(maxContainers))
		container := list.Items.Schema
		if kind == "containers" {
			container.XValidations = append(container.XValidations, reservedPaths...)
		}
		for field, path := range map[string]string{"volumeMounts": "mountPath", "volumeDevices": "devicePath"} {
			mounts, ok := container.Properties[field]
			if !ok || mounts.Items == nil || mounts.Items.Schema == nil {
				return fmt.Errorf("the schema of %s has no %s", kind, field)
			}
			mounts.MaxItems = new(int64(maxMounts))
			bound(mounts.Items.Schema, path, maxMountPath)
			bound(mounts.Items.Schema, "name", maxVolumeName, reservedVolume)
			container.Properties[field] = mounts
		}
		name := container.Properties["name"]
		name.MaxLength = new(int64(maxVolumeName))
		container.Properties["name"] = name
		pod.Properties[kind] = list
	}
	return boundClaims(template)
}

// boundClaims bounds the volumes, and the names of claims in them to what names of claims can have.
func boundClaims(template apiextensionsv1.JSONSchemaProps) error {
	volumes := template.Properties["spec"].Properties["volumes"]
	if volumes.Items == nil || volumes.Items.Schema == nil {
		return errors.New("the schema of the template has no volumes")
	}
	claim, ok := volumes.Items.Schema.Properties["persistentVolumeClaim"]
	if !ok {
		return errors.New("the schema of volumes has no persistentVolumeClaim")
	}
	bound(&claim, "claimName", maxClaimName)
	volumes.Items.Schema.Properties["persistentVolumeClaim"] = claim
	volumes.MaxItems = new(int64(maxVolumes))
	template.Properties["spec"].Properties["volumes"] = volumes
	return nil
}

// bound limits a text field and adds rules to it.
func bound(s *apiextensionsv1.JSONSchemaProps, field string, length int64, rules ...apiextensionsv1.ValidationRule) {
	f := s.Properties[field]
	f.MaxLength = &length
	f.XValidations = append(f.XValidations, rules...)
	s.Properties[field] = f
}
