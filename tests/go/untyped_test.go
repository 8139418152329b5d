package clients

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/disk"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
)

var claims = resourcev1beta1.SchemeGroupVersion.WithResource("resourceclaims")

// TestDynamic: a client that knows no types makes, changes, lists, watches and deletes objects, and its informer
// follows; what it reads is what a typed client reads.
func TestDynamic(t *testing.T) {
	ctx, ns := background(t), namespace(t)
	all := must(dynamic.NewForConfig(config(asJSON)))(t)
	client := all.Resource(claims).Namespace(ns)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(all, 0, ns, nil)
	lister := factory.ForResource(claims).Lister()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	claim := &resourcev1beta1.ResourceClaim{Spec: claimSpec()}
	claim.Name, claim.Kind, claim.APIVersion = "gpu", "ResourceClaim", "resource.k8s.io/v1beta1"
	object := must(runtime.DefaultUnstructuredConverter.ToUnstructured(claim))(t)
	made := must(client.Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{FieldValidation: "Strict"}))(t)
	equal(t, "its type", made.GroupVersionKind(), resourcev1beta1.SchemeGroupVersion.WithKind("ResourceClaim"))
	watching := must(client.Watch(ctx, metav1.ListOptions{ResourceVersion: made.GetResourceVersion()}))(t)
	defer watching.Stop()
	made.SetLabels(map[string]string{"a": "b"})
	updated := must(client.Update(ctx, made, metav1.UpdateOptions{}))(t)
	equal(t, "what the watch saw", next(t, watching).Object.(*unstructured.Unstructured).Object, updated.Object)

	var read resourcev1beta1.ResourceClaim
	check(t, runtime.DefaultUnstructuredConverter.FromUnstructured(updated.Object, &read))
	read.Kind, read.APIVersion = "", ""
	equal(t, "as a typed client reads it", &read,
		must(typed(t, asProtobuf).ResourceV1beta1().ResourceClaims(ns).Get(ctx, "gpu", metav1.GetOptions{}))(t))

	unstructured.RemoveNestedField(updated.Object, "status")
	check(t, unstructured.SetNestedField(updated.Object, []any{map[string]any{
		"resource": "pods", "name": "p", "uid": "1",
	}}, "status", "reservedFor"))
	_, err := client.UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("reserved without an allocation: %v", err)
	}
	check(t, unstructured.SetNestedField(updated.Object, "x", "spec", "nonsense"))
	_, err = client.Update(ctx, updated, metav1.UpdateOptions{FieldValidation: "Strict"})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "spec.nonsense"`) {
		t.Errorf("an unknown field: %v", err)
	}
	eventually(t, "the informer has it", func() (bool, error) {
		_, err := lister.ByNamespace(ns).Get("gpu")
		return err == nil, err
	})
	check(t, client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "a=b"}))
	equal(t, "the end", next(t, watching).Type, watch.Deleted)
	equal(t, "what is left", len(must(client.List(ctx, metav1.ListOptions{}))(t).Items), 0)
	eventually(t, "the informer lost it", func() (bool, error) {
		_, err := lister.ByNamespace(ns).Get("gpu")
		return apierrors.IsNotFound(err), err
	})
}

// TestMetadata: a client that asks for metadata only gets just that, of one object, in lists, patches, watches and
// informers, in both encodings.
func TestMetadata(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, ns := background(t), namespace(t)
			whole := must(typed(t, e).ResourceV1beta1().ResourceClaims(ns).Create(ctx, &resourcev1beta1.ResourceClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "gpu", Labels: app}, Spec: claimSpec(),
			}, metav1.CreateOptions{}))(t)
			all := must(metadata.NewForConfig(config(e)))(t)
			factory := metadatainformer.NewFilteredSharedInformerFactory(all, 0, ns, nil)
			lister := factory.ForResource(claims).Lister()
			factory.Start(ctx.Done())
			factory.WaitForCacheSync(ctx.Done())

			client := all.Resource(claims).Namespace(ns)
			got := must(client.Get(ctx, "gpu", metav1.GetOptions{}))(t)
			equal(t, "its metadata", got.ObjectMeta, whole.ObjectMeta)
			list := must(client.List(ctx, metav1.ListOptions{LabelSelector: "app=web"}))(t)
			equal(t, "in a list", list.Items[0].ObjectMeta, whole.ObjectMeta)
			watching := must(client.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion}))(t)
			defer watching.Stop()
			patched := must(client.Patch(ctx, "gpu", types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{}))(t)
			equal(t, "in a patch's answer", patched.Annotations, map[string]string{"a": "b"})
			equal(t, "in a watch", next(t, watching).Object.(*metav1.PartialObjectMetadata).ObjectMeta, patched.ObjectMeta)
			eventually(t, "the informer follows", func() (bool, error) {
				object, err := lister.ByNamespace(ns).Get("gpu")
				return err == nil && object.(*metav1.PartialObjectMetadata).ResourceVersion == patched.ResourceVersion, err
			})
			check(t, client.Delete(ctx, "gpu", metav1.DeleteOptions{}))
			equal(t, "at the end", next(t, watching).Type, watch.Deleted)
		})
	}
}

// TestDiscovery: the aggregated and the plain discovery tell the same; a REST mapper finds kinds by short names; the
// cached client's second reading is answered by ETag; every served version has an OpenAPI document.
func TestDiscovery(t *testing.T) {
	client := must(discovery.NewDiscoveryClientForConfig(config(asProtobuf)))(t)
	groups, lists := must2(client.ServerGroupsAndResources())(t)
	_, plainly := must2(client.WithLegacy().ServerGroupsAndResources())(t)
	equal(t, "resources: plain and aggregated", told(plainly), told(lists))
	dump(t, told(lists))

	version := must(client.ServerVersion())(t)
	equal(t, "major", version.Major, "1")
	for _, name := range []string{"", "apps", "resource.k8s.io"} {
		if !slices.ContainsFunc(groups, func(g *metav1.APIGroup) bool { return g.Name == name }) {
			t.Errorf("no group %q", name)
		}
	}
	must(discovery.NewDiscoveryClientForConfig(config(asJSON)))(t)
	must(client.ServerPreferredNamespacedResources())(t)

	cached := must(disk.NewCachedDiscoveryClientForConfig(config(asJSON), t.TempDir(), t.TempDir(), 0))(t)
	for range 2 {
		cached.Invalidate()
		mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
		for short, kind := range map[string]string{"po": "Pod", "deploy": "Deployment", "resourceclaims": "ResourceClaim"} {
			found := must(mapper.KindFor(schema.GroupVersionResource{Resource: short}))(t)
			equal(t, short, found.Kind, kind)
		}
		mapping := must(mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}))(t)
		equal(t, "scope", mapping.Scope.Name(), meta.RESTScopeNameNamespace)
	}

	root := openapi3.NewRoot(client.OpenAPIV3())
	versions := must(root.GroupVersions())(t)
	if len(versions) < 20 {
		t.Errorf("only %d documents", len(versions))
	}
	document := must(root.GVSpec(resourcev1beta1.SchemeGroupVersion))(t)
	if document.Components.Schemas["io.k8s.api.resource.v1beta1.ResourceClaim"] == nil {
		t.Error("the document has no claims")
	}
	swagger := must(client.OpenAPISchema())(t)
	if len(swagger.Definitions.AdditionalProperties) < 100 {
		t.Error("the old document has few definitions")
	}
}

func must2[A, B any](a A, b B, err error) func(*testing.T) (A, B) {
	return func(t *testing.T) (A, B) { t.Helper(); check(t, err); return a, b }
}

// told says in one line each what is served. A kind of the resource's own group may come without its group, and
// only the aggregated form names the singular of a subresource.
func told(lists []*metav1.APIResourceList) (out []string) {
	for _, list := range lists {
		own, _ := schema.ParseGroupVersion(list.GroupVersion)
		for _, r := range list.APIResources {
			if r.Group == "" && r.Version == "" {
				r.Group, r.Version = own.Group, own.Version
			}
			if strings.Contains(r.Name, "/") {
				r.SingularName = ""
			}
			out = append(out, fmt.Sprint(list.GroupVersion, " ", r.Name, r.SingularName, r.Namespaced, r.Group, r.Version, r.Kind,
				sorted(r.Verbs), r.ShortNames, r.Categories))
		}
	}
	sort.Strings(out)
	return out
}

func sorted(verbs []string) []string {
	verbs = slices.Clone(verbs)
	slices.Sort(verbs)
	return verbs
}

// TestScale: what can be scaled is read and written through /scale by the typed clients and by the scale client,
// whichever version its scale has; a stale write is a conflict.
func TestScale(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, ns := background(t), namespace(t)
			all := typed(t, e)
			replicas := int32(1)
			one := metav1.ObjectMeta{Name: "web"}
			must(all.AppsV1().Deployments(ns).Create(ctx, &appsv1.Deployment{ObjectMeta: one, Spec: appsv1.DeploymentSpec{
				Replicas: &replicas, Selector: ofApp, Template: podTemplate()}}, metav1.CreateOptions{}))(t)
			must(all.AppsV1().ReplicaSets(ns).Create(ctx, &appsv1.ReplicaSet{ObjectMeta: one, Spec: appsv1.ReplicaSetSpec{
				Replicas: &replicas, Selector: ofApp, Template: podTemplate()}}, metav1.CreateOptions{}))(t)
			must(all.AppsV1().StatefulSets(ns).Create(ctx, &appsv1.StatefulSet{ObjectMeta: one, Spec: appsv1.StatefulSetSpec{
				Replicas: &replicas, Selector: ofApp, Template: podTemplate()}}, metav1.CreateOptions{}))(t)
			template := podTemplate()
			must(all.CoreV1().ReplicationControllers(ns).Create(ctx, &corev1.ReplicationController{ObjectMeta: one, Spec: corev1.ReplicationControllerSpec{
				Replicas: &replicas, Selector: app, Template: &template}}, metav1.CreateOptions{}))(t)

			got := must(all.AppsV1().Deployments(ns).GetScale(ctx, "web", metav1.GetOptions{}))(t)
			equal(t, "its selector", got.Status.Selector, "app=web")
			got.Spec.Replicas = 3
			must(all.AppsV1().Deployments(ns).UpdateScale(ctx, "web", got, metav1.UpdateOptions{}))(t)
			_, err := all.AppsV1().Deployments(ns).UpdateScale(ctx, "web", got, metav1.UpdateOptions{})
			if !apierrors.IsConflict(err) {
				t.Errorf("a stale scale: %v", err)
			}
			got = must(all.AppsV1().Deployments(ns).GetScale(ctx, "web", metav1.GetOptions{}))(t)
			dump(t, plain(t, got, ns, "web"))

			discovered := must(discovery.NewDiscoveryClientForConfig(config(e)))(t)
			mapper := restmapper.NewDiscoveryRESTMapper(must(restmapper.GetAPIGroupResources(discovered))(t))
			client := must(scale.NewForConfig(config(e), mapper, dynamic.LegacyAPIPathResolverFunc,
				scale.NewDiscoveryScaleKindResolver(discovered)))(t).Scales(ns)
			for _, gr := range []schema.GroupResource{
				{Group: "apps", Resource: "deployments"}, {Group: "apps", Resource: "replicasets"},
				{Group: "apps", Resource: "statefulsets"}, {Resource: "replicationcontrollers"},
			} {
				got := must(client.Get(ctx, gr, "web", metav1.GetOptions{}))(t)
				got.Spec.Replicas = 7
				equal(t, gr.String(), must(client.Update(ctx, gr, got, metav1.UpdateOptions{}))(t).Spec.Replicas, 7)
				patched := must(client.Patch(ctx, gr.WithVersion("v1"), "web", types.MergePatchType,
					[]byte(`{"spec":{"replicas":8}}`), metav1.PatchOptions{}))(t)
				equal(t, gr.String()+", patched", patched.Spec.Replicas, 8)
			}
			whole := must(all.AppsV1().Deployments(ns).Get(ctx, "web", metav1.GetOptions{}))(t)
			equal(t, "the deployment itself", *whole.Spec.Replicas, int32(8))
			bad := &autoscalingv1.Scale{ObjectMeta: one, Spec: autoscalingv1.ScaleSpec{Replicas: -1}}
			_, err = all.AppsV1().Deployments(ns).UpdateScale(ctx, "web", bad, metav1.UpdateOptions{})
			if !apierrors.IsInvalid(err) {
				t.Errorf("a negative scale: %v", err)
			}
			dump(t, []any{plain(t, whole, ns, "web"), err.Error()})
		})
	}
}
