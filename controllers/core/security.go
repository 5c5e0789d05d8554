package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// identity is the user and group of the runtime container, and so of runtimed: it must be able to read, change and
// delete what an execution leaves, without privileges. Nil fields are left to the cluster.
type identity struct {
	user, group *int64
}

// secure decides who the containers run as and, where the template names nobody, fills in the restricted profile. It
// looks at and changes the Pod and its first container; containers that the user added inherit from the Pod.
func secure(pod *corev1.PodSpec, defaultUser *int64) identity {
	if pod.SecurityContext == nil {
		pod.SecurityContext = &corev1.PodSecurityContext{}
	}
	onPod, runtime := pod.SecurityContext, &pod.Containers[0]
	named := identity{user: onPod.RunAsUser, group: onPod.RunAsGroup}
	if c := runtime.SecurityContext; c != nil {
		named.user = first(c.RunAsUser, named.user)
		named.group = first(c.RunAsGroup, named.group)
	}
	if named.user != nil {
		// Without a group, each container would get the one its own image has for this user.
		named.group = first(named.group, named.user)
		if runtime.SecurityContext == nil {
			runtime.SecurityContext = &corev1.SecurityContext{}
		}
		runtime.SecurityContext.RunAsGroup = named.group
		return named
	}
	onPod.RunAsNonRoot = first(onPod.RunAsNonRoot, ptr.To(true))
	if onPod.SeccompProfile == nil {
		onPod.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	if defaultUser != nil {
		named.user, named.group = defaultUser, first(named.group, defaultUser)
		onPod.RunAsUser, onPod.RunAsGroup = named.user, named.group
		onPod.FSGroup = first(onPod.FSGroup, named.group)
	}
	if runtime.SecurityContext == nil {
		runtime.SecurityContext = &corev1.SecurityContext{}
	}
	// A container that asks for privileges or capabilities has said something; half of the profile would contradict it.
	if own := runtime.SecurityContext; own.Privileged == nil && own.Capabilities == nil {
		own.AllowPrivilegeEscalation = first(own.AllowPrivilegeEscalation, ptr.To(false))
		own.Capabilities = dropAll()
	}
	return named
}

// restricted is the security context of an injected container.
func (i identity) restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsUser:                i.user,
		RunAsGroup:               i.group,
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             dropAll(),
	}
}

func dropAll() *corev1.Capabilities {
	return &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
}

// first returns the first value that is set.
func first[T any](values ...*T) *T {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}
