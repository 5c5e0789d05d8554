//go:build chaos

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/cluster"
	"kruntimes.io/kruntimes/test/e2e"
)

// sign is the beginning of every script: one line in the log, by one write at its end. The nonce tells processes apart.
const sign = "echo \"$KRUNTIME_RUN_UID $KRUNTIME_ATTEMPT $RANDOM$RANDOM$RANDOM$$\" >>/ledger/starts\n"

// ledger holds directories of the node outside of everything that kruntimes knows: the log, and the store for artifacts.
type ledger struct{ dirs map[string]string }

// newLedger is called before e2e.New, so that the directories go after the namespace.
func newLedger(t *testing.T) *ledger {
	t.Helper()
	c, err := cluster.New(cluster.Options{State: e2e.Setting("CLUSTER")})
	if err != nil {
		t.Skip("needs the cluster of test/cluster, named by CLUSTER")
	}
	l := &ledger{dirs: map[string]string{}}
	for _, name := range []string{"ledger", "artifacts"} {
		dir, err := os.MkdirTemp(c.Volumes(), "chaos-"+name+"-") //nolint:usetesting // the node sees no other directories
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Errorf("removing a directory: %v", err)
			}
		})
		l.dirs[name] = dir
	}
	return l
}

// mount makes a volume and a claim of each directory, for all Pods at once.
func (l *ledger) mount(env *e2e.Env) {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	shared := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	for name, dir := range l.dirs {
		volume := env.Namespace + "-" + name
		env.Create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}, Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: shared, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: env.Namespace, Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpExists}},
			}}}},
		}})
		env.Finally("", "delete", "persistentvolume", volume, "--wait=false")
		env.Create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: shared, Resources: corev1.VolumeResourceRequirements{Requests: size},
			StorageClassName: ptr.To(""), VolumeName: volume,
		}})
	}
}

// use has the scripts of a Runtime write into the log, and its artifacts kept in the other directory.
func (l *ledger) use(r *corev1alpha1.Runtime) {
	r.Spec.ArtifactStore = &corev1alpha1.ArtifactStore{Filesystem: &corev1alpha1.FilesystemStore{VolumeClaimName: "artifacts"}}
	spec := &r.Spec.Template.Spec
	spec.TerminationGracePeriodSeconds = ptr.To[int64](20)
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "ledger", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "ledger"},
	}})
	spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "ledger", MountPath: "/ledger"})
}

// attempt is one attempt of a Run.
type attempt struct {
	uid    string
	number int32
}

// attempts returns the nonces of the processes that said to be an attempt.
func (l *ledger) attempts(t *testing.T) map[attempt][]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(l.dirs["ledger"], "starts"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[attempt][]string{}
	for line := range strings.Lines(string(content)) {
		words := strings.Fields(line)
		if len(words) != 3 {
			t.Fatalf("the log has the line %q", line)
		}
		n, err := strconv.ParseInt(words[1], 10, 32)
		if err != nil {
			t.Fatalf("the log has the line %q", line)
		}
		key := attempt{uid: words[0], number: int32(n)}
		found[key] = append(found[key], words[2])
	}
	return found
}

// ownedBy tells whether an object has an owner that is there.
func ownedBy(object client.Object, uids map[string]bool) error {
	for _, owner := range object.GetOwnerReferences() {
		if uids[string(owner.UID)] {
			return nil
		}
	}
	return fmt.Errorf("%T %s has no owner that is there: %v", object, object.GetName(), object.GetOwnerReferences())
}
