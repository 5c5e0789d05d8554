package perf

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

const (
	benchNamespace = "bench"
	benchRuntime   = "sh"
)

// Suite is one sitting on one control plane.
type Suite struct {
	// Config is a client configuration that may do everything.
	Config *rest.Config
	// Quick takes fewer Runs.
	Quick bool
	// Log receives a line per load.
	Log io.Writer
	// Processes lists the processes whose time is taken; nil for none.
	Processes func() []Process
}

// pairing is a load that both sides take, and how they are compared.
type pairing struct {
	load    Load
	target  string
	compare func(name, target string, floor, product Sample) Row
}

func (s Suite) pairings() []pairing {
	sequential, parallel := 300, 2000
	if s.Quick {
		sequential, parallel = 100, 500
	}
	return []pairing{
		{Load{Name: "one at a time", Total: sequential, InFlight: 1}, "p50 ≤ 2.0 × floor", CompareLatency},
		{Load{Name: "16 in flight", Total: parallel, InFlight: 16}, "Runs/s ≥ 0.75 × floor", CompareRate},
		{Load{Name: "burst of 500", Total: 500, Creators: 16}, "Runs/s ≥ 0.70 × floor", CompareRate},
	}
}

// warmUp is the load that comes first and is not counted.
func warmUp() Load { return Load{Name: "warm-up", Total: 50, InFlight: 4} }

// OneStepJobs are the manager's settings under which jobs of one step get no workspace, and those of several do.
const OneStepJobs = `apiVersion: config.kruntimes.io/v1alpha1
kind: ManagerConfiguration
jobWorkspaces:
  jobs: WithSeveralRuns
`

// Run prepares the namespace, the inert CRD and a Runtime, and takes every load through floor and product in turn. Its
// figures are those of a manager that was started with OneStepJobs.
func Run(ctx context.Context, s Suite) (Report, error) {
	c, dyn, err := s.prepared(ctx)
	if err != nil {
		return Report{}, err
	}
	var report Report
	for i, p := range append([]pairing{{load: warmUp()}}, s.pairings()...) {
		floor, floorCPU, err := s.measure(ctx, Floor(dyn, benchNamespace, fmt.Sprintf("floor-%d", i)), p.load)
		if err != nil {
			return Report{}, fmt.Errorf("measuring the floor, %s: %w", p.load.Name, err)
		}
		if p.compare != nil && p.load.InFlight == 1 {
			report.floorP50 = floor.Quantile(0.5)
		}
		product, productCPU, err := s.measure(ctx, Product(dyn, benchNamespace, benchRuntime, fmt.Sprintf("run-%d", i)), p.load)
		if err != nil {
			return Report{}, fmt.Errorf("measuring Runs, %s: %w", p.load.Name, err)
		}
		if p.compare == nil {
			continue
		}
		row := p.compare(p.load.Name, p.target, floor, product)
		fmt.Fprintf(s.Log, "%s: %d Runs, p50 %.1f ms beside %.1f ms, ratio %.2f\n", row.Name, row.Runs, row.ProductP50, row.FloorP50, row.Ratio)
		report.Rows = append(report.Rows, row)
		report.CPU = append(report.CPU, compareCPU(p.load.Name, p.load.Total, floorCPU, productCPU)...)
	}
	if err := s.workspaces(ctx, c, dyn, &report); err != nil {
		return Report{}, err
	}
	err = s.workflows(ctx, c, dyn, &report)
	return report, err
}

// RunJobWorkspaces takes parallel jobs through a control plane of its own, on which every job gets a workspace, and adds
// the row to report.
func RunJobWorkspaces(ctx context.Context, s Suite, report *Report) error {
	c, dyn, err := s.prepared(ctx)
	if err != nil {
		return err
	}
	if _, err := Measure(ctx, Product(dyn, benchNamespace, benchRuntime, "warm-up"), warmUp()); err != nil {
		return fmt.Errorf("warming up: %w", err)
	}
	return s.fan(ctx, c, dyn, report, Row{Name: "64 jobs in workspaces, whole", Target: "reported"})
}

// prepared prepares the control plane, and returns clients of it that are not throttled.
func (s Suite) prepared(ctx context.Context) (client.WithWatch, dynamic.Interface, error) {
	config := rest.CopyConfig(s.Config)
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme()})
	if err != nil {
		return nil, nil, fmt.Errorf("making a client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making a dynamic client: %w", err)
	}
	return c, dyn, prepare(ctx, c, dyn)
}

// measure does what Measure does, and returns what each component took of the processors meanwhile.
func (s Suite) measure(ctx context.Context, target Target, load Load) (sample Sample, spent map[string]time.Duration, err error) {
	processes := func() []Process { return nil }
	if s.Processes != nil {
		processes = s.Processes
	}
	before := timesOf(processes())
	sample, err = Measure(ctx, target, load)
	return sample, timesOf(processes()).since(before), err
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, corev1alpha1.AddToScheme, workspacesv1alpha1.AddToScheme, workflowsv1alpha1.AddToScheme,
		apiextensionsv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err) // only a duplicate registration can cause this
		}
	}
	return s
}

func prepare(ctx context.Context, c client.Client, dyn dynamic.Interface) error {
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: benchNamespace}}); err != nil {
		return fmt.Errorf("creating the namespace: %w", err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(ctx, client.ObjectKey{Name: "runs." + corev1alpha1.GroupVersion.Group}, crd); err != nil {
		return fmt.Errorf("reading the Run CRD: %w", err)
	}
	if err := c.Create(ctx, InertCRD(crd)); err != nil {
		return fmt.Errorf("creating the inert CRD: %w", err)
	}
	r := &corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Namespace: benchNamespace, Name: benchRuntime}}
	r.Spec.Replicas = ptr.To[int32](4)
	r.Spec.Capacity = corev1.ResourceList{corev1alpha1.ResourceRuns: resource.MustParse("4")}
	r.Spec.Template.Spec.Containers = []corev1.Container{{Name: corev1alpha1.ContainerRuntime, Image: "debian:12-slim"}}
	if err := c.Create(ctx, r); err != nil {
		return fmt.Errorf("creating the Runtime: %w", err)
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return false, err
		}
		if r.Status.ReadyReplicas != *r.Spec.Replicas {
			return false, nil
		}
		_, err := dyn.Resource(Floor(dyn, benchNamespace, "").Resource).Namespace(benchNamespace).List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for warm Pods (status %+v): %w", r.Status, err)
	}
	return nil
}
