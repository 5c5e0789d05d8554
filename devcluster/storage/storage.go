// Package storage gives a dev cluster PersistentVolumes: a directory on the host for each PersistentVolumeClaim of the default
// StorageClass. It does the part of an external provisioner; that a claim is bound, and is not deleted while a Pod uses it,
// is the work of Kubernetes' own controllers. Sizes are not enforced.
package storage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"kruntimes.io/kruntimes/artifacts/beneath"
)

// ClassName is the default StorageClass.
const ClassName = "dev"

const (
	// provisionerName is who makes and removes the volumes of the class.
	provisionerName     = "kruntimes.io/dev-directory"
	annotationIsDefault = "storageclass.kubernetes.io/is-default-class"
	// annotationAsked is how the binder of Kubernetes asks for a volume, annotationMade how a volume says by whom it was made.
	annotationAsked = "volume.kubernetes.io/storage-provisioner"
	annotationMade  = "pv.kubernetes.io/provisioned-by"
	// retryFirst and retryMax bound the wait between two attempts.
	retryFirst, retryMax = 100 * time.Millisecond, 5 * time.Second
)

// item is a claim or a volume to look at.
type item struct {
	claim  types.NamespacedName
	volume string
}

// Provisioner makes the volumes of a dev cluster and removes them.
type Provisioner struct {
	client  kubernetes.Interface
	dir     string
	log     logr.Logger
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	queue   workqueue.TypedRateLimitingInterface[item]
	synced  []cache.InformerSynced
}

// New makes a Provisioner whose volumes are directories below dir. It watches with the informers of factory, which the
// caller starts. The log is taken from ctx.
func New(ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory, dir string) (*Provisioner, error) {
	claims, volumes := factory.Core().V1().PersistentVolumeClaims(), factory.Core().V1().PersistentVolumes()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[item](retryFirst, retryMax)
	p := &Provisioner{
		client: client, dir: dir, log: logr.FromContextOrDiscard(ctx), claims: claims.Lister(), volumes: volumes.Lister(),
		queue:  workqueue.NewTypedRateLimitingQueue(limiter),
		synced: []cache.InformerSynced{claims.Informer().HasSynced, volumes.Informer().HasSynced},
	}
	for _, watched := range []struct {
		informer cache.SharedIndexInformer
		itemOf   func(metav1.Object) item
	}{
		{claims.Informer(), func(o metav1.Object) item {
			return item{claim: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}}
		}},
		{volumes.Informer(), func(o metav1.Object) item { return item{volume: o.GetName()} }},
	} {
		add := func(object any) {
			if o, ok := object.(metav1.Object); ok {
				p.queue.Add(watched.itemOf(o))
			}
		}
		_, err := watched.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: add, UpdateFunc: func(_, object any) { add(object) },
		})
		if err != nil {
			return nil, fmt.Errorf("watching claims and volumes: %w", err)
		}
	}
	return p, nil
}

// EnsureClass makes the default StorageClass.
func EnsureClass(ctx context.Context, client kubernetes.Interface) error {
	class := &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: ClassName, Annotations: map[string]string{annotationIsDefault: "true"}},
		Provisioner:       provisionerName,
		ReclaimPolicy:     ptr.To(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate),
	}
	if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making StorageClass %s: %w", ClassName, err)
	}
	return nil
}

// Run works until ctx ends.
func (p *Provisioner) Run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), p.synced...) {
		return
	}
	var worker sync.WaitGroup
	worker.Go(func() {
		for p.next(ctx) {
		}
	})
	<-ctx.Done()
	p.queue.ShutDown()
	worker.Wait()
}

func (p *Provisioner) next(ctx context.Context) bool {
	i, over := p.queue.Get()
	if over {
		return false
	}
	defer p.queue.Done(i)
	var err error
	if i.volume != "" {
		err = p.reclaim(ctx, i.volume)
	} else {
		err = p.provision(ctx, i.claim)
	}
	if err != nil && ctx.Err() == nil {
		p.log.Error(err, "Could not see to storage", "claim", i.claim, "volume", i.volume)
		p.queue.AddRateLimited(i)
		return true
	}
	p.queue.Forget(i)
	return true
}

// provision makes the volume that a claim waits for.
func (p *Provisioner) provision(ctx context.Context, key types.NamespacedName) error {
	claim, err := p.claims.PersistentVolumeClaims(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading PersistentVolumeClaim %s: %w", key, err)
	}
	if !wantsVolume(claim) {
		return nil
	}
	volume := volumeFor(claim, p.dir)
	if err := os.MkdirAll(volume.Spec.HostPath.Path, 0o777); err != nil {
		return fmt.Errorf("making the directory of PersistentVolumeClaim %s: %w", key, err)
	}
	if _, err := p.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making PersistentVolume %s: %w", volume.Name, err)
	}
	return nil
}

// wantsVolume tells whether the binder has asked for a volume for a claim. One of raw blocks cannot be had here, and waits.
func wantsVolume(claim *corev1.PersistentVolumeClaim) bool {
	isBlock := claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock
	return claim.Annotations[annotationAsked] == provisionerName && claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil && !isBlock
}

// volumeFor is the volume of a claim: it can do all that the claim asks for, and is for that claim only.
func volumeFor(claim *corev1.PersistentVolumeClaim, dir string) *corev1.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotationMade: provisionerName}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			StorageClassName:              ptr.Deref(claim.Spec.StorageClassName, ""),
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: filepath.Join(dir, name), Type: ptr.To(corev1.HostPathDirectory)}},
		},
	}
}

// reclaim removes the directory of a volume whose claim is gone, and then the volume.
func (p *Provisioner) reclaim(ctx context.Context, name string) error {
	volume, err := p.volumes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading PersistentVolume %s: %w", name, err)
	}
	if !isSpent(volume, p.dir) {
		return nil
	}
	if err := beneath.RemoveAll(volume.Spec.HostPath.Path); err != nil {
		return fmt.Errorf("removing the directory of PersistentVolume %s: %w", name, err)
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &volume.UID}}
	err = p.client.CoreV1().PersistentVolumes().Delete(ctx, name, options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting PersistentVolume %s: %w", name, err)
	}
	return nil
}

// isSpent tells whether a volume was made here and lost its claim. A policy that somebody has set to Retain keeps it.
func isSpent(volume *corev1.PersistentVolume, dir string) bool {
	return volume.Status.Phase == corev1.VolumeReleased && volume.DeletionTimestamp == nil &&
		volume.Annotations[annotationMade] == provisionerName &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		volume.Spec.HostPath != nil && volume.Spec.HostPath.Path == filepath.Join(dir, volume.Name)
}
