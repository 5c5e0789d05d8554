package devcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// newNamespace makes a namespace for one test and waits for its ServiceAccount.
func newNamespace(t *testing.T) string {
	t.Helper()
	ns, err := api.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = api.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), ns.Name, metav1.DeleteOptions{})
	})
	eventually(t, "the namespace has its ServiceAccount", func() error {
		_, err := api.CoreV1().ServiceAccounts(ns.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	return ns.Name
}

// shell is a container that runs a script.
func shell(name, script string) corev1.Container {
	return corev1.Container{Name: name, Image: "none", Command: []string{"sh", "-c", script}}
}

func podOf(containers ...corev1.Container) *corev1.Pod {
	grace := int64(1)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: containers},
	}
}

func createPod(t *testing.T, namespace string, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	made, err := api.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// awaitPod waits until check is content with the Pod and returns it.
func awaitPod(t *testing.T, pod *corev1.Pod, what string, check func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var seen *corev1.Pod
	eventually(t, what, func() error {
		var err error
		if seen, err = api.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !check(seen) {
			return fmt.Errorf("status %+v", seen.Status)
		}
		return nil
	})
	return seen
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func awaitReady(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	return awaitPod(t, pod, "the Pod is ready", isReady)
}

func TestDeploymentRunsAsProcessesAndLeavesNone(t *testing.T) {
	ns := newNamespace(t)
	replicas, grace := int32(2), int64(1)
	labels := map[string]string{"app": "web"}
	deployment, err := api.AppsV1().Deployments(ns).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &grace,
					Containers:                    []corev1.Container{shell("main", "setsid sleep 6001 & exec sleep 6000")},
				},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Deployment is available", func() error {
		d, err := api.AppsV1().Deployments(ns).Get(t.Context(), deployment.Name, metav1.GetOptions{})
		if err == nil && d.Status.AvailableReplicas != replicas {
			err = fmt.Errorf("%d replicas are available", d.Status.AvailableReplicas)
		}
		return err
	})
	pods, err := api.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		eventually(t, "the Pod has its two processes", func() error {
			if n := len(processesOf(t, string(pod.UID))); n != 2 {
				return fmt.Errorf("there are %d", n)
			}
			return nil
		})
	}
	if err := api.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is gone with all that was in it", func() error {
		_, err := api.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.New("it is there")
	})
	for _, pod := range pods.Items {
		if pids := processesOf(t, string(pod.UID)); len(pids) > 0 {
			t.Errorf("Pod %s has left processes %v", pod.Name, pids)
		}
	}
}

func TestKilledContainerStartsAgainWithoutItsLeftovers(t *testing.T) {
	ns := newNamespace(t)
	pod := awaitReady(t, createPod(t, ns, podOf(shell("main", "setsid sleep 6001 & exec sleep 6000"))))
	var before []int
	main := -1
	eventually(t, "both processes run", func() error { // until they have become sleep, both are a shell with the same words
		before = processesOf(t, string(pod.UID))
		isSleep := func(seconds string) int {
			return slices.IndexFunc(before, func(pid int) bool {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
				return string(line) == "sleep\x00"+seconds+"\x00"
			})
		}
		if main = isSleep("6000"); main < 0 || isSleep("6001") < 0 || len(before) != 2 {
			return fmt.Errorf("there are %v", before)
		}
		return nil
	})
	process, err := os.FindProcess(before[main])
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	pod = awaitPod(t, pod, "the container runs again", func(p *corev1.Pod) bool {
		return isReady(p) && p.Status.ContainerStatuses[0].RestartCount == 1
	})
	last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
	want := &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}
	if diff := cmp.Diff(want, last, cmpopts.IgnoreFields(corev1.ContainerStateTerminated{}, "StartedAt", "FinishedAt", "ContainerID")); diff != "" {
		t.Errorf("last state (-want +got):\n%s", diff)
	}
	for _, pid := range processesOf(t, string(pod.UID)) {
		if slices.Contains(before, pid) {
			t.Errorf("process %d of the ended run is still there", pid)
		}
	}
}

func TestReasonsWhyContainersDoNotRun(t *testing.T) {
	noConfig := shell("main", "true")
	noConfig.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "nowhere"}}}}
	noImage := shell("main", "true")
	noImage.Image = "invalid/image:1"
	claim := podOf(shell("main", "true"))
	claim.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "nowhere"}}}}
	foreign := podOf(shell("main", "true"))
	foreign.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nfs", Path: "/"}}}}
	cases := map[string]struct {
		pod         *corev1.Pod
		wantReason  string
		wantMessage string
	}{
		"a container that ends at once": {
			pod: podOf(shell("main", "exit 3")), wantReason: "CrashLoopBackOff", wantMessage: "restarting failed container=main",
		},
		"an image that is not there": {
			pod: podOf(noImage), wantReason: "ImagePullBackOff", wantMessage: `Back-off pulling image "invalid/image:1"`,
		},
		"a program that is not on the host": {
			pod:        podOf(corev1.Container{Name: "main", Image: "none", Command: []string{"/no/such/program"}}),
			wantReason: "CreateContainerError", wantMessage: `"/no/such/program" is not a program on this host`,
		},
		"no command": {
			pod:        podOf(corev1.Container{Name: "main", Image: "registry.example/app:1"}),
			wantReason: "CreateContainerError", wantMessage: "does not pull image registry.example/app:1",
		},
		"a ConfigMap that is not there": {
			pod: podOf(noConfig), wantReason: "CreateContainerConfigError", wantMessage: `configmaps "nowhere" not found`,
		},
		"a volume that only a real node has": {
			pod: foreign, wantReason: "CreateContainerConfigError", wantMessage: "no volumes of this kind",
		},
		"a claim that is not there": {
			pod: claim, wantReason: "ContainerCreating", wantMessage: `persistentvolumeclaims "nowhere" not found`,
		},
	}
	ns := newNamespace(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			awaitPod(t, createPod(t, ns, tc.pod), tc.wantReason, func(p *corev1.Pod) bool {
				if len(p.Status.ContainerStatuses) != 1 {
					return false
				}
				waiting := p.Status.ContainerStatuses[0].State.Waiting
				return waiting != nil && waiting.Reason == tc.wantReason && strings.Contains(waiting.Message, tc.wantMessage)
			})
		})
	}
}

func TestInitContainersRunFirstAndShareVolumes(t *testing.T) {
	ns := newNamespace(t)
	if _, err := api.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "conf"}, Data: map[string]string{"greeting": "hello"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	data, conf := corev1.VolumeMount{Name: "data", MountPath: "/data"}, corev1.VolumeMount{Name: "conf", MountPath: "/etc/conf"}
	first := shell("first", "cp /etc/conf/greeting /data/greeting")
	first.VolumeMounts = []corev1.VolumeMount{data, conf}
	second := shell("second", "echo $WHO >>/data/greeting")
	second.Env = []corev1.EnvVar{{Name: "WHO", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
	second.VolumeMounts = []corev1.VolumeMount{data}
	main := shell("main", "cat $FILE")
	main.Env = []corev1.EnvVar{{Name: "FILE", Value: "/data/greeting"}}
	main.VolumeMounts = []corev1.VolumeMount{data}
	pod := podOf(main)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.InitContainers = []corev1.Container{first, second}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}}},
	}
	pod = awaitPod(t, createPod(t, ns, pod), "the Pod has succeeded", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	if diff := cmp.Diff("hello"+pod.Name+"\n", logs(t, pod, &corev1.PodLogOptions{})); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodInitialized && (c.Status != corev1.ConditionTrue || c.Reason != "" || c.Message != "") {
			t.Errorf("condition Initialized is %+v, want True without a reason", c)
		}
	}
}

func TestGraceIsGivenAndLimited(t *testing.T) {
	cases := map[string]struct{ script, wantLast string }{
		"a container that ends on SIGTERM may say goodbye": {`trap "echo bye; exit 0" TERM; echo up; while :; do sleep 0.05; done`, "bye"},
		"a container that ignores SIGTERM is killed":       {`trap "echo no" TERM; echo up; while :; do sleep 0.05; done`, "no"},
	}
	ns := newNamespace(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := awaitReady(t, createPod(t, ns, podOf(shell("main", tc.script))))
			follower := follow(t, pod)
			follower.expect("up")
			if err := api.CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			follower.expect(tc.wantLast)
			follower.expectEnd()
			eventually(t, "the Pod is gone", func() error {
				_, err := api.CoreV1().Pods(ns).Get(t.Context(), pod.Name, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return errors.New("it is there")
			})
			noProcessesOf(t, string(pod.UID))
		})
	}
}

// server is a container of this test binary that serves HTTP on a port which it is told on the command line.
func server() corev1.Container {
	return corev1.Container{
		Name: "main", Image: "none", Command: []string{os.Args[0]}, Args: []string{":8080"},
		Env:   []corev1.EnvVar{{Name: helperVariable, Value: "1"}},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromString("http")}},
			PeriodSeconds: 1, FailureThreshold: 2,
		},
	}
}

func TestReadinessFollowsTheProbeOnAPortOfItsOwn(t *testing.T) {
	ns := newNamespace(t)
	// Two Pods want the same port of the same address; each gets another one.
	pods := []*corev1.Pod{createPod(t, ns, podOf(server())), createPod(t, ns, podOf(server()))}
	for _, pod := range pods {
		awaitReady(t, pod)
		eventually(t, "the server names an address of the loopback interface", func() error {
			if line := logs(t, pod, &corev1.PodLogOptions{}); !strings.HasPrefix(line, "serving 127.0.0.1:") {
				return fmt.Errorf("it says %q", line)
			}
			return nil
		})
	}
	mustExec(t, pods[0], "touch unready")
	awaitPod(t, pods[0], "the Pod is not ready any more", func(p *corev1.Pod) bool { return !isReady(p) })
	mustExec(t, pods[0], "rm unready")
	awaitReady(t, pods[0])
	if got := awaitReady(t, pods[1]).Status.ContainerStatuses[0].RestartCount; got != 0 {
		t.Errorf("the neighbour restarted %d times", got)
	}
}

func TestTokenIsThatOfThePod(t *testing.T) {
	ns := newNamespace(t)
	pod := podOf(shell("main", "cat /token/token; echo; exec sleep 6000"))
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "token", MountPath: "/token"}}
	seconds := int64(3607)
	pod.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}}},
	}}}}
	pod = awaitReady(t, createPod(t, ns, pod))
	var token string
	eventually(t, "the container has printed the token", func() error {
		if token = strings.TrimSpace(logs(t, pod, &corev1.PodLogOptions{})); token == "" {
			return errors.New("nothing was printed")
		}
		return nil
	})
	config := rest.AnonymousClientConfig(cluster.Config())
	config.BearerToken = token
	asPod, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := asPod.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{"user": review.Status.UserInfo.Username}
	for _, key := range []string{"pod-name", "pod-uid", "node-name"} {
		got[key] = strings.Join(review.Status.UserInfo.Extra["authentication.kubernetes.io/"+key], ",")
	}
	want := map[string]string{
		"user": "system:serviceaccount:" + ns + ":default", "pod-name": pod.Name, "pod-uid": string(pod.UID), "node-name": "dev",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
}

func TestFiftyPodsComeUp(t *testing.T) {
	ns := newNamespace(t)
	for range 50 {
		createPod(t, ns, podOf(shell("main", "exec sleep 6000")))
	}
	eventually(t, "50 Pods are ready", func() error {
		pods, err := api.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready := 0
		for i := range pods.Items {
			if isReady(&pods.Items[i]) {
				ready++
			}
		}
		if ready != 50 {
			return fmt.Errorf("%d are", ready)
		}
		return nil
	})
}
