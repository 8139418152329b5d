package clients

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestNamespaces: a namespace that is being deleted takes nothing new, and says so in its error's cause; it is gone
// once its finalizer is. One that is not there takes nothing either.
func TestNamespaces(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, all, name := background(t), typed(t, e), unique("ns")
			client := all.CoreV1().Namespaces()
			made := must(client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
			equal(t, "its label", made.Labels[corev1.LabelMetadataName], name)
			equal(t, "its finalizers", made.Spec.Finalizers, []corev1.FinalizerName{corev1.FinalizerKubernetes})
			must(all.CoreV1().ConfigMaps(name).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}))(t)

			check(t, client.Delete(ctx, name, metav1.DeleteOptions{}))
			ending := must(client.Get(ctx, name, metav1.GetOptions{}))(t)
			equal(t, "its phase", ending.Status.Phase, corev1.NamespaceTerminating)
			_, err := all.CoreV1().ConfigMaps(name).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{})
			if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				t.Errorf("made in an ending namespace: %v", err)
			}
			saw := []string{err.Error()}
			check(t, all.CoreV1().ConfigMaps(name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
			ending.Spec.Finalizers = nil
			_, err = client.Finalize(ctx, ending, metav1.UpdateOptions{})
			check(t, err)
			_, err = client.Get(ctx, name, metav1.GetOptions{})
			saw = append(saw, err.Error())
			_, err = all.CoreV1().ConfigMaps(name).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{})
			saw = append(saw, err.Error())
			if !apierrors.IsNotFound(err) {
				t.Errorf("made in a namespace that is gone: %v", err)
			}
			dump(t, plain(t, saw, name, name))
		})
	}
}

// TestVersions: reads name the version that they want: any, not older than, exactly; one of the future is refused
// after a while with a cause that clients know.
func TestVersions(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, ns, all := background(t), namespace(t), typed(t, e)
			client := all.CoreV1().ConfigMaps(ns)
			first := must(client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}))(t)
			must(client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, metav1.CreateOptions{}))(t)
			for match, want := range map[metav1.ResourceVersionMatch]int{
				metav1.ResourceVersionMatchExact: 1, metav1.ResourceVersionMatchNotOlderThan: 2,
			} {
				list := must(client.List(ctx, metav1.ListOptions{ResourceVersion: first.ResourceVersion, ResourceVersionMatch: match}))(t)
				equal(t, string(match), len(list.Items), want)
			}
			must(client.Get(ctx, "a", metav1.GetOptions{ResourceVersion: "0"}))(t)
			_, err := client.List(ctx, metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchExact})
			if !apierrors.IsInvalid(err) {
				t.Errorf("a match of no version: %v", err)
			}
			saw := []string{err.Error()}
			err = all.CoreV1().RESTClient().Get().Namespace(ns).Resource("configmaps").MaxRetries(0).
				Param("resourceVersion", "999999999").Param("resourceVersionMatch", "NotOlderThan").Do(ctx).Error()
			if !apierrors.IsTimeout(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
				t.Errorf("a version of the future: %v", err)
			}
			dump(t, saw)
		})
	}
}

// TestDeletion: with the foreground policy, and with orphans, an owner stays, with a finalizer that says which, until
// a garbage collector has done its work; blockOwnerDeletion and owner references are kept as they are.
func TestDeletion(t *testing.T) {
	for _, e := range encodings {
		for policy, finalizer := range map[metav1.DeletionPropagation]string{
			metav1.DeletePropagationForeground: metav1.FinalizerDeleteDependents,
			metav1.DeletePropagationOrphan:     metav1.FinalizerOrphanDependents,
		} {
			t.Run(e.name+" "+string(policy), func(t *testing.T) {
				t.Parallel()
				ctx, ns, all := background(t), namespace(t), typed(t, e)
				owner := must(all.AppsV1().ReplicaSets(ns).Create(ctx, &appsv1.ReplicaSet{
					ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.ReplicaSetSpec{Selector: ofApp, Template: podTemplate()},
				}, metav1.CreateOptions{}))(t)
				reference := *metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
				owned := must(all.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: "web", OwnerReferences: []metav1.OwnerReference{reference}},
					Spec:       corev1.PodSpec{Containers: plainc},
				}, metav1.CreateOptions{}))(t)
				equal(t, "its owner", owned.OwnerReferences, []metav1.OwnerReference{reference})
				check(t, all.AppsV1().ReplicaSets(ns).Delete(ctx, "web", metav1.DeleteOptions{PropagationPolicy: &policy}))
				ending := must(all.AppsV1().ReplicaSets(ns).Get(ctx, "web", metav1.GetOptions{}))(t)
				equal(t, "its finalizers", ending.Finalizers, []string{finalizer})
				dump(t, plain(t, ending, ns, "web"))
				collect(ctx, t, all, ns)
			})
		}
	}
}

// collect does what a garbage collector would.
func collect(ctx context.Context, t *testing.T, all kubernetes.Interface, ns string) {
	t.Helper()
	_, err := all.AppsV1().ReplicaSets(ns).Patch(ctx, "web", "application/json-patch+json",
		[]byte(`[{"op":"remove","path":"/metadata/finalizers"}]`), metav1.PatchOptions{})
	check(t, err)
	_, err = all.AppsV1().ReplicaSets(ns).Get(ctx, "web", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}
