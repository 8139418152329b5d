package clients

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	appsac "k8s.io/client-go/applyconfigurations/apps/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	resourceac "k8s.io/client-go/applyconfigurations/resource/v1beta1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

var force = metav1.ApplyOptions{FieldManager: "owner", Force: true}

func deployment(ns string) *appsac.DeploymentApplyConfiguration {
	return appsac.Deployment("web", ns).WithLabels(app).WithSpec(appsac.DeploymentSpec().
		WithReplicas(2).
		WithSelector(metaac.LabelSelector().WithMatchLabels(app)).
		WithTemplate(coreac.PodTemplateSpec().WithLabels(app).WithSpec(coreac.PodSpec().WithContainers(
			coreac.Container().WithName("main").WithImage("registry.example.com/main:1").
				WithPorts(coreac.ContainerPort().WithContainerPort(80).WithName("http")).
				WithEnv(coreac.EnvVar().WithName("A").WithValue("1")),
			coreac.Container().WithName("side").WithImage("registry.example.com/side:1"),
		))))
}

// TestApply: who applies a deployment owns what it said and nothing else: `ExtractDeployment` gives back what was
// applied. Another owner's change is a conflict that names owner and field; force takes the field; what an owner no
// longer says goes, but for what others own as well. The status is applied, and owned, apart.
func TestApply(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, ns := background(t), namespace(t)
			client := typed(t, e).AppsV1().Deployments(ns)
			made := must(client.Apply(ctx, deployment(ns), metav1.ApplyOptions{FieldManager: "owner"}))(t)
			equal(t, "what is owned", must(appsac.ExtractDeployment(made, "owner"))(t), deployment(ns))
			again := must(client.Apply(ctx, deployment(ns), metav1.ApplyOptions{FieldManager: "owner"}))(t)
			equal(t, "the version after nothing new", again.ResourceVersion, made.ResourceVersion)

			scaler := appsac.Deployment("web", ns).WithSpec(appsac.DeploymentSpec().WithReplicas(5))
			_, err := client.Apply(ctx, scaler, metav1.ApplyOptions{FieldManager: "scaler"})
			if !apierrors.IsConflict(err) {
				t.Fatalf("no conflict: %v", err)
			}
			equal(t, "the conflict", err.Error(), `Apply failed with 1 conflict: conflict with "owner": .spec.replicas`)
			scaled := must(client.Apply(ctx, scaler, metav1.ApplyOptions{FieldManager: "scaler", Force: true}))(t)
			equal(t, "replicas", *scaled.Spec.Replicas, int32(5))
			equal(t, "what the scaler owns", must(appsac.ExtractDeployment(scaled, "scaler"))(t), scaler)
			left := deployment(ns)
			left.Spec.Replicas = nil
			equal(t, "what is left to the owner", must(appsac.ExtractDeployment(scaled, "owner"))(t), left)

			less := left
			less.Spec.Template.Spec.Containers = less.Spec.Template.Spec.Containers[:1]
			less.Spec.Template.Spec.Containers[0].Env = nil
			lean := must(client.Apply(ctx, less, metav1.ApplyOptions{FieldManager: "owner"}))(t)
			equal(t, "containers", len(lean.Spec.Template.Spec.Containers), 1)
			equal(t, "environment", len(lean.Spec.Template.Spec.Containers[0].Env), 0)
			equal(t, "replicas, which the scaler owns", *lean.Spec.Replicas, int32(5))

			status := appsac.Deployment("web", ns).WithStatus(appsac.DeploymentStatus().WithReplicas(5).WithConditions(
				appsac.DeploymentCondition().WithType("Available").WithStatus("True").WithReason("Tested").
					WithLastUpdateTime(moment).WithLastTransitionTime(moment)))
			done := must(client.ApplyStatus(ctx, status, metav1.ApplyOptions{FieldManager: "controller"}))(t)
			equal(t, "what is owned of the status", must(appsac.ExtractDeploymentStatus(done, "controller"))(t), status)
			other := appsac.Deployment("web", ns).WithStatus(appsac.DeploymentStatus().WithReplicas(6))
			_, err = client.ApplyStatus(ctx, other, metav1.ApplyOptions{FieldManager: "other"})
			equal(t, "the conflict", err.Error(),
				`Apply failed with 1 conflict: conflict with "controller" with subresource "status": .status.replicas`)

			edited := done.DeepCopy()
			edited.Spec.Template.Spec.Containers[0].Image = "registry.example.com/main:2"
			must(client.Update(ctx, edited, metav1.UpdateOptions{FieldManager: "editor"}))(t)
			_, err = client.Apply(ctx, less, metav1.ApplyOptions{FieldManager: "owner"})
			equal(t, "the conflict with an update", err.Error(),
				`Apply failed with 1 conflict: conflict with "editor" using apps/v1: .spec.template.spec.containers[name="main"].image`)
			final := must(client.Apply(ctx, less, force))(t)
			dump(t, plain(t, final, ns, ""))
		})
	}
}

// TestApplyClaims: claims and their status are applied and extracted as well. Requests are owned as a whole, defaults
// included; a claim's spec stays as it is.
func TestApplyClaims(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, ns := background(t), namespace(t)
			client := typed(t, e).ResourceV1beta1().ResourceClaims(ns)
			wanted := func() *resourceac.ResourceClaimApplyConfiguration {
				return resourceac.ResourceClaim("gpu", ns).WithSpec(resourceac.ResourceClaimSpec().WithDevices(
					resourceac.DeviceClaim().WithRequests(resourceac.DeviceRequest().WithName("gpu").
						WithDeviceClassName("gpu.example.com").WithAllocationMode("ExactCount").WithCount(1))))
			}
			made := must(client.Apply(ctx, wanted(), metav1.ApplyOptions{FieldManager: "owner"}))(t)
			equal(t, "what is owned", must(resourceac.ExtractResourceClaim(made, "owner"))(t), wanted())
			changed := wanted()
			changed.Spec.Devices.Requests[0].WithDeviceClassName("other.example.com")
			_, err := client.Apply(ctx, changed, metav1.ApplyOptions{FieldManager: "owner"})
			if !apierrors.IsInvalid(err) {
				t.Errorf("a claim's spec was changed: %v", err)
			}

			result := resourceac.DeviceRequestAllocationResult().WithRequest("gpu").WithDriver("gpu.example.com").
				WithPool("one").WithDevice("gpu-0")
			allocation := resourceac.ResourceClaim("gpu", ns).WithStatus(resourceac.ResourceClaimStatus().
				WithAllocation(resourceac.AllocationResult().
					WithDevices(resourceac.DeviceAllocationResult().WithResults(result)).
					WithNodeSelector(coreac.NodeSelector().WithNodeSelectorTerms(coreac.NodeSelectorTerm().WithMatchFields(
						coreac.NodeSelectorRequirement().WithKey("metadata.name").WithOperator("In").WithValues("one"))))).
				WithReservedFor(resourceac.ResourceClaimConsumerReference().WithResource("pods").WithName("web").WithUID("1")))
			allocated := must(client.ApplyStatus(ctx, allocation, metav1.ApplyOptions{FieldManager: "scheduler"}))(t)
			equal(t, "what the scheduler owns", must(resourceac.ExtractResourceClaimStatus(allocated, "scheduler"))(t), allocation)

			device := resourceac.ResourceClaim("gpu", ns).WithStatus(resourceac.ResourceClaimStatus().WithDevices(
				resourceac.AllocatedDeviceStatus().WithDriver("gpu.example.com").WithPool("one").WithDevice("gpu-0").
					WithConditions(metaac.Condition().WithType("Ready").WithStatus("True").WithReason("Tested").
						WithMessage("").WithLastTransitionTime(moment)).
					WithData(runtime.RawExtension{Raw: []byte(`{"speed":2.50}`)}).
					WithNetworkData(resourceac.NetworkDeviceData().WithInterfaceName("eth1").WithIPs("10.9.8.7/24"))))
			_, err = client.ApplyStatus(ctx, device, metav1.ApplyOptions{FieldManager: "driver"})
			check(t, err)
			dump(t, plain(t, must(client.Get(ctx, "gpu", metav1.GetOptions{}))(t), ns, "gpu"))
		})
	}
}

// TestApplyUnstructured: a dynamic client applies any kind, and extracts what it owns by the schemas that the server
// publishes in protobuf.
func TestApplyUnstructured(t *testing.T) {
	ctx, ns := background(t), namespace(t)
	client := must(dynamic.NewForConfig(config(asJSON)))(t)
	templates := client.Resource(resourcev1beta1.SchemeGroupVersion.WithResource("resourceclaimtemplates")).Namespace(ns)
	wanted := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaimTemplate",
		"metadata": map[string]any{"name": "gpus", "namespace": ns, "labels": map[string]any{"app": "web"}},
		"spec": map[string]any{"spec": map[string]any{"devices": map[string]any{
			"requests": []any{map[string]any{
				"name": "gpu", "deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": int64(1),
			}},
		}}},
	}}
	made := must(templates.Apply(ctx, "gpus", wanted, metav1.ApplyOptions{FieldManager: "owner"}))(t)
	must(templates.Patch(ctx, "gpus", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"b":"c"}}}`), metav1.PatchOptions{}))(t)
	made = must(templates.Get(ctx, made.GetName(), metav1.GetOptions{}))(t)
	discovered := must(discovery.NewDiscoveryClientForConfig(config(asJSON)))(t)
	extractor := must(metaac.NewUnstructuredExtractor(discovered))(t)
	equal(t, "what is owned", must(extractor.Extract(made, "owner"))(t).Object, wanted.Object)
}

// TestApplyOverUpdate: applying what was made by an update owns it together with the updater; an object that is gone
// is made anew, unless a uid asks for the old one.
func TestApplyOverUpdate(t *testing.T) {
	ctx, ns := background(t), namespace(t)
	client := typed(t, asProtobuf).CoreV1().ConfigMaps(ns)
	must(client.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"a": "1", "b": "2"},
	}, metav1.CreateOptions{FieldManager: "maker"}))(t)
	both := must(client.Apply(ctx, coreac.ConfigMap("c", ns).WithData(map[string]string{"a": "1"}),
		metav1.ApplyOptions{FieldManager: "owner"}))(t)
	equal(t, "owners", len(both.ManagedFields), 2)
	none := must(client.Apply(ctx, coreac.ConfigMap("c", ns), metav1.ApplyOptions{FieldManager: "owner"}))(t)
	equal(t, "the data that the maker owns still", none.Data, map[string]string{"a": "1", "b": "2"})

	check(t, client.Delete(context.Background(), "c", metav1.DeleteOptions{}))
	_, err := client.Apply(ctx, coreac.ConfigMap("c", ns).WithUID(both.UID), metav1.ApplyOptions{FieldManager: "owner"})
	if !apierrors.IsConflict(err) {
		t.Errorf("an apply to what is gone: %v", err)
	}
	anew := must(client.Apply(ctx, coreac.ConfigMap("c", ns), metav1.ApplyOptions{FieldManager: "owner"}))(t)
	if anew.UID == both.UID {
		t.Error("the same object again")
	}
}
