// Package kubelet stands in for a kubelet: it registers a Node, binds Pods to it, and runs their containers as plain
// processes of the calling user. Volumes are directories, paths and ports in command lines are translated, logs and exec
// are served to the API server. Images are never pulled and nothing is isolated: it is for development only.
//
// What it leaves out: images, cgroups and security contexts, liveness and startup probes, lifecycle hooks, ephemeral
// containers, and updates of ConfigMaps and Secrets in volumes. Of PersistentVolumes it knows those that package storage
// makes, and others that are directories of the host.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"kruntimes.io/kruntimes/devcluster/process"
	"kruntimes.io/kruntimes/devcluster/storage"
)

// Config is what the stand-in needs; devcluster writes it to a file.
type Config struct {
	// Kubeconfig reaches the API server as somebody who may do everything.
	Kubeconfig string `json:"kubeconfig"`
	// NodeName is the Node that the stand-in registers.
	NodeName string `json:"nodeName"`
	// PodsDir holds one directory per Pod. Its name must be short enough for unix sockets below it.
	PodsDir string `json:"podsDir"`
	// VolumesDir holds one directory per PersistentVolume.
	VolumesDir string `json:"volumesDir"`
	// Programs maps paths inside images to programs of the host, such as /runtimed.
	Programs map[string]string `json:"programs,omitempty"`
	// Environment is that of every container, before its own.
	Environment map[string]string `json:"environment,omitempty"`
	// CertFile and KeyFile serve logs and exec; ClientCAFile says whose clients are let in.
	CertFile     string `json:"certFile"`
	KeyFile      string `json:"keyFile"`
	ClientCAFile string `json:"clientCAFile"`
	// ClientNames are the common names of the clients that are let in.
	ClientNames []string `json:"clientNames"`
}

// Kubelet runs the Pods of one Node.
type Kubelet struct {
	config Config
	client kubernetes.Interface
	clock  clock.WithTicker
	keeper *process.Keeper
	log    logr.Logger

	mu      sync.Mutex
	workers map[types.UID]*worker
	running sync.WaitGroup
}

// Run stands in for a kubelet until ctx ends, and then kills every process of every Pod.
func Run(ctx context.Context, config Config) error {
	restConfig, err := clientcmd.BuildConfigFromFlags("", config.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	restConfig.QPS = -1
	restConfig.UserAgent = "kruntimes-dev-kubelet"
	restConfig.ContentConfig = rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf}
	client, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	clk := clock.RealClock{}
	keeper, err := process.NewKeeper(ctx, clk)
	if err != nil {
		return err
	}
	k := &Kubelet{
		config: config, client: client, clock: clk, keeper: keeper, log: logr.FromContextOrDiscard(ctx),
		workers: map[types.UID]*worker{},
	}
	runErr := k.run(ctx)
	closeErr := keeper.Close()
	k.running.Wait()
	return errors.Join(runErr, closeErr)
}

// run does everything until ctx ends or it cannot go on. When it returns, no worker is made any more.
func (k *Kubelet) run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(k.client, 0)
	defer factory.Shutdown() // Waits for the handlers of events, which make workers.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	port, served, err := k.serve(ctx)
	if err != nil {
		return err
	}
	pods := factory.Core().V1().Pods().Informer()
	binder := newBinder(k)
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { k.see(ctx, binder, object) },
		UpdateFunc: func(_, object any) { k.see(ctx, binder, object) },
		DeleteFunc: k.forget,
	}); err != nil {
		return fmt.Errorf("watching Pods: %w", err)
	}
	provisioner, err := storage.New(logr.NewContext(ctx, k.log), k.client, factory, k.config.VolumesDir)
	if err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return nil // ctx has ended
	}
	k.running.Go(func() { binder.run(ctx) })
	if err := storage.EnsureClass(ctx, k.client); err != nil {
		return err
	}
	k.running.Go(func() { provisioner.Run(ctx) })
	if err := k.register(ctx, port); err != nil {
		return err
	}
	k.log.Info("Registered Node", "node", k.config.NodeName, "port", port)
	select {
	case <-ctx.Done():
		return nil
	case err := <-served:
		return err
	}
}

// see gives a Pod to the worker that looks after it, or to the binder when it has no Node yet.
func (k *Kubelet) see(ctx context.Context, binder *binder, object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	switch pod.Spec.NodeName {
	case "":
		binder.add(pod)
	case k.config.NodeName:
		k.workerOf(ctx, pod).post(func(w *worker) { w.pod = pod })
	}
}

func (k *Kubelet) workerOf(ctx context.Context, pod *corev1.Pod) *worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.workers[pod.UID]
	if w == nil {
		w = newWorker(k, pod)
		k.workers[pod.UID] = w
		k.running.Go(func() {
			w.run(ctx)
			k.mu.Lock()
			defer k.mu.Unlock()
			delete(k.workers, pod.UID)
		})
	}
	return w
}

// forget tells the worker of a Pod that the Pod is gone.
func (k *Kubelet) forget(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	k.mu.Lock()
	w := k.workers[pod.UID]
	k.mu.Unlock()
	if w != nil {
		w.post(func(w *worker) { w.gone = true })
	}
}

// find returns the worker of the Pod with this name. When a Pod was replaced under its name, the newest one counts.
func (k *Kubelet) find(namespace, name string) *worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	var newest *worker
	for _, w := range k.workers {
		if w.namespace == namespace && w.name == name && (newest == nil || newest.startedAt.Before(w.startedAt)) {
			newest = w
		}
	}
	return newest
}
