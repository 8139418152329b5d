package clients

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const holder = "example.com/notes"

func init() { ctrl.SetLogger(logr.Discard()) }

// notes is a controller: for every claim it keeps a config map of what the claim asks for, and cleans up, after the
// claim, a pod that uses it.
type notes struct {
	client.Client
}

func (n notes) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var claim resourcev1beta1.ResourceClaim
	if err := n.Get(ctx, request.NamespacedName, &claim); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !claim.DeletionTimestamp.IsZero() {
		var users corev1.PodList
		if err := n.List(ctx, &users, client.InNamespace(claim.Namespace), client.MatchingFields{"claim": claim.Name}); err != nil {
			return ctrl.Result{}, err
		}
		for _, pod := range users.Items {
			if err := n.Delete(ctx, &pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
		}
		if controllerutil.RemoveFinalizer(&claim, holder) {
			return ctrl.Result{}, client.IgnoreNotFound(n.Update(ctx, &claim))
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&claim, holder) {
		return ctrl.Result{}, n.Update(ctx, &claim)
	}
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: claim.Name, Namespace: claim.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, n.Client, note, func() error {
		note.Data = map[string]string{"class": claim.Spec.Devices.Requests[0].DeviceClassName}
		return controllerutil.SetControllerReference(&claim, note, n.Scheme())
	})
	return ctrl.Result{}, err
}

// TestManager: a controller-runtime manager leads, caches, indexes pods by a field of its own, reconciles claims into
// config maps that they own, puts back what others change, and lets a claim go when its finalizer's work is done.
func TestManager(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, ns := background(t), namespace(t)
			manager := must(ctrl.NewManager(config(e), ctrl.Options{
				Scheme:                  scheme.Scheme,
				Cache:                   cache.Options{DefaultNamespaces: map[string]cache.Config{ns: {}}},
				Metrics:                 server.Options{BindAddress: "0"},
				LeaderElection:          true,
				LeaderElectionID:        "notes",
				LeaderElectionNamespace: ns,
				Controller:              controllerconfig.Controller{SkipNameValidation: ptr.To(true)},
				GracefulShutdownTimeout: ptr.To(5 * time.Second),
			}))(t)
			check(t, manager.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, "claim", func(object client.Object) (names []string) {
				for _, use := range object.(*corev1.Pod).Spec.ResourceClaims {
					names = append(names, ptr.Deref(use.ResourceClaimName, ""))
				}
				return names
			}))
			check(t, ctrl.NewControllerManagedBy(manager).For(&resourcev1beta1.ResourceClaim{}).Owns(&corev1.ConfigMap{}).
				Complete(notes{manager.GetClient()}))
			running, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- manager.Start(running) }()
			defer func() {
				stop()
				check(t, <-ended)
			}()

			direct := must(client.New(config(e), client.Options{Scheme: scheme.Scheme}))(t)
			claim := &resourcev1beta1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: ns}, Spec: claimSpec()}
			check(t, direct.Create(ctx, claim))
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "user", Namespace: ns}, Spec: corev1.PodSpec{
				Containers: plainc, ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("gpu")}},
			}}
			check(t, direct.Create(ctx, pod))
			key := client.ObjectKeyFromObject(claim)
			var note corev1.ConfigMap
			noted := func() (bool, error) {
				err := direct.Get(ctx, key, &note)
				return err == nil && note.Data["class"] == "gpu.example.com", err
			}
			eventually(t, "the note", noted)
			equal(t, "its owner", metav1.GetControllerOf(&note).UID, claim.UID)

			patch := client.MergeFromWithOptions(note.DeepCopy(), client.MergeFromWithOptimisticLock{})
			note.Data["class"] = "scribbled"
			check(t, direct.Patch(ctx, &note, patch))
			if err := direct.Patch(ctx, &note, patch); !apierrors.IsConflict(err) {
				t.Errorf("a patch of an old version: %v", err)
			}
			eventually(t, "the note again", noted)
			check(t, direct.Delete(ctx, &note))
			eventually(t, "a new note", noted)

			check(t, direct.Get(ctx, key, claim))
			allocated := claim.DeepCopy()
			allocated.Status.Allocation = &resourcev1beta1.AllocationResult{}
			check(t, direct.Status().Patch(ctx, allocated, client.MergeFrom(claim)))
			eventually(t, "the cache sees the pod by its claim", func() (bool, error) {
				var users corev1.PodList
				err := manager.GetClient().List(ctx, &users, client.InNamespace(ns), client.MatchingFields{"claim": "gpu"})
				return len(users.Items) == 1, err
			})
			check(t, direct.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}))
			eventually(t, "the claim is gone", func() (bool, error) {
				err := direct.Get(ctx, key, claim)
				return apierrors.IsNotFound(err), err
			})
			if err := direct.Get(ctx, client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
				t.Errorf("the pod outlived its claim: %v", err)
			}
			check(t, direct.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(ns)))
		})
	}
}

// TestDryRun: a dry run answers as the write would, and writes nothing; strict validation refuses unknown fields.
func TestDryRun(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, ns := background(t), namespace(t)
			direct := must(client.New(config(e), client.Options{Scheme: scheme.Scheme}))(t)
			dry := client.NewDryRunClient(direct)
			note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "note-", Namespace: ns}}
			check(t, dry.Create(ctx, note))
			if note.UID == "" || note.Name == "note-" || note.ResourceVersion != "" {
				t.Errorf("the answer of a dry run: %+v", note.ObjectMeta)
			}
			err := direct.Get(ctx, client.ObjectKeyFromObject(note), note)
			equal(t, "what is there", err.Error(), fmt.Sprintf("configmaps %q not found", note.Name))

			note = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "note", Namespace: ns}}
			check(t, direct.Create(ctx, note))
			version := note.ResourceVersion
			note.Data = map[string]string{"a": "b"}
			check(t, dry.Update(ctx, note))
			equal(t, "the answer's data", note.Data, map[string]string{"a": "b"})
			check(t, dry.Delete(ctx, note))
			check(t, direct.Get(ctx, client.ObjectKeyFromObject(note), note))
			equal(t, "its version", note.ResourceVersion, version)

			strict := client.WithFieldValidation(direct, "Strict")
			err = strict.Patch(ctx, note, client.RawPatch("application/merge-patch+json", []byte(`{"nonsense":1}`)))
			if !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
				t.Errorf("an unknown field: %v", err)
			}
			dump(t, err.Error())
		})
	}
}
