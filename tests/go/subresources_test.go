package clients

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// TestPods: a pod is bound, once; its status is what a kubelet says; it is evicted, unless a budget forbids it; it is
// deleted gracefully in two steps; what may not change does not.
func TestPods(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, ns, all := background(t), namespace(t), typed(t, e)
			client, host := all.CoreV1().Pods(ns), node(t, all)
			make := func(name string) *corev1.Pod {
				return must(client.Create(ctx, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: name, Labels: app}, Spec: corev1.PodSpec{Containers: plainc},
				}, metav1.CreateOptions{}))(t)
			}
			var saw []any
			pod := make("web")
			equal(t, "its class", pod.Status.QOSClass, corev1.PodQOSBestEffort)
			binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: host.Name}}
			check(t, client.Bind(ctx, binding, metav1.CreateOptions{}))
			err := client.Bind(ctx, binding, metav1.CreateOptions{})
			if !apierrors.IsConflict(err) {
				t.Errorf("bound twice: %v", err)
			}
			saw = append(saw, err.Error())
			pod = must(client.Get(ctx, "web", metav1.GetOptions{}))(t)
			equal(t, "its node", pod.Spec.NodeName, host.Name)
			equal(t, "its condition", pod.Status.Conditions[0].Type, corev1.PodScheduled)
			byNode := metav1.ListOptions{FieldSelector: "spec.nodeName=" + host.Name + ",status.phase!=Succeeded"}
			equal(t, "the node's pods", len(must(client.List(ctx, byNode))(t).Items), 1)

			pod.Status.Phase = corev1.PodRunning
			pod.Status.PodIP, pod.Status.PodIPs = "10.9.8.7", []corev1.PodIP{{IP: "10.9.8.7"}}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "main", Image: "registry.example.com/main:1", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: moment}},
			}}
			pod.Spec.NodeName = "another" // of no effect here
			pod = must(client.UpdateStatus(ctx, pod, metav1.UpdateOptions{}))(t)
			equal(t, "its node still", pod.Spec.NodeName, host.Name)
			pod = must(client.Patch(ctx, "web", types.StrategicMergePatchType,
				[]byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status"))(t)
			equal(t, "its conditions", len(pod.Status.Conditions), 2)
			saw = append(saw, plain(t, pod, ns, host.Name))

			pod.Spec.Containers[0].Command = []string{"other"}
			_, err = client.Update(ctx, pod, metav1.UpdateOptions{})
			if !apierrors.IsInvalid(err) {
				t.Errorf("another command: %v", err)
			}
			pod = must(client.Get(ctx, "web", metav1.GetOptions{}))(t)
			pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "registry.example.com/debug"}}}
			pod = must(client.UpdateEphemeralContainers(ctx, "web", pod, metav1.UpdateOptions{}))(t)
			equal(t, "its debugger", pod.Spec.EphemeralContainers[0].TerminationMessagePolicy, corev1.TerminationMessageReadFile)

			check(t, client.Delete(ctx, "web", metav1.DeleteOptions{}))
			pod = must(client.Get(ctx, "web", metav1.GetOptions{}))(t)
			equal(t, "its grace", *pod.DeletionGracePeriodSeconds, int64(30))
			check(t, client.Delete(ctx, "web", metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
			_, err = client.Get(ctx, "web", metav1.GetOptions{})
			equal(t, "the pod", err.Error(), `pods "web" not found`)

			make("pending")
			check(t, client.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "pending"}}))
			running := make("guarded")
			running.Status.Phase = corev1.PodRunning
			running.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			must(client.UpdateStatus(ctx, running, metav1.UpdateOptions{}))(t)
			budget := must(all.PolicyV1().PodDisruptionBudgets(ns).Create(ctx, &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Name: "guard"},
				Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: ofApp},
			}, metav1.CreateOptions{}))(t)
			budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1}
			must(all.PolicyV1().PodDisruptionBudgets(ns).UpdateStatus(ctx, budget, metav1.UpdateOptions{}))(t)
			dry := policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "guarded"}}
			err = client.EvictV1(ctx, &dry)
			if !apierrors.IsTooManyRequests(err) {
				t.Errorf("a guarded pod was evicted: %v", err)
			}
			saw = append(saw, err.Error())
			dump(t, saw)
		})
	}
}

// TestClaimStatus: what a scheduler and drivers write into a claim's status, step by step, and what they may not.
func TestClaimStatus(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, ns := background(t), namespace(t)
			client := typed(t, e).ResourceV1beta1().ResourceClaims(ns)
			claim := must(client.Create(ctx, &resourcev1beta1.ResourceClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: claimSpec(),
			}, metav1.CreateOptions{}))(t)
			var saw []any
			write := func(what string, change func(*resourcev1beta1.ResourceClaim)) {
				t.Helper()
				wanted := claim.DeepCopy()
				change(wanted)
				got, err := client.UpdateStatus(ctx, wanted, metav1.UpdateOptions{})
				if err != nil {
					saw = append(saw, what, err.Error())
					return
				}
				claim = got
				saw = append(saw, what, plain(t, got, ns, ""))
			}
			result := func(device string) resourcev1beta1.DeviceRequestAllocationResult {
				return resourcev1beta1.DeviceRequestAllocationResult{Request: "gpu", Driver: "gpu.example.com", Pool: "one", Device: device}
			}
			user := resourcev1beta1.ResourceClaimConsumerReference{Resource: "pods", Name: "web", UID: "1"}
			write("reserve what is not allocated", func(c *resourcev1beta1.ResourceClaim) {
				c.Status.ReservedFor = []resourcev1beta1.ResourceClaimConsumerReference{user}
			})
			write("allocate for a request that is not there", func(c *resourcev1beta1.ResourceClaim) {
				bad := result("gpu-0")
				bad.Request = "nonsense"
				c.Status.Allocation = &resourcev1beta1.AllocationResult{Devices: resourcev1beta1.DeviceAllocationResult{
					Results: []resourcev1beta1.DeviceRequestAllocationResult{bad},
				}}
			})
			write("allocate and reserve", func(c *resourcev1beta1.ResourceClaim) {
				c.Status.Allocation = &resourcev1beta1.AllocationResult{
					Devices: resourcev1beta1.DeviceAllocationResult{
						Results: []resourcev1beta1.DeviceRequestAllocationResult{result("gpu-0"), result("gpu-1")},
						Config: []resourcev1beta1.DeviceAllocationConfiguration{{
							Source: "FromClaim", DeviceConfiguration: c.Spec.Devices.Config[0].DeviceConfiguration,
						}},
					},
					NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
						MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"one"}}},
					}}},
				}
				c.Status.ReservedFor = []resourcev1beta1.ResourceClaimConsumerReference{user}
				c.Spec.Devices.Requests = nil // of no effect here
			})
			write("change the allocation", func(c *resourcev1beta1.ResourceClaim) {
				c.Status.Allocation.Devices.Results = c.Status.Allocation.Devices.Results[:1]
			})
			write("report a device", func(c *resourcev1beta1.ResourceClaim) {
				c.Status.Devices = []resourcev1beta1.AllocatedDeviceStatus{{
					Driver: "gpu.example.com", Pool: "one", Device: "gpu-1",
					Conditions:  []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Tested", LastTransitionTime: moment}},
					NetworkData: &resourcev1beta1.NetworkDeviceData{InterfaceName: "eth1", IPs: []string{"10.9.8.7/24"}},
				}}
			})
			write("report a device of another", func(c *resourcev1beta1.ResourceClaim) {
				c.Status.Devices = []resourcev1beta1.AllocatedDeviceStatus{{Driver: "gpu.example.com", Pool: "one", Device: "gpu-9"}}
			})
			write("give back what is in use", func(c *resourcev1beta1.ResourceClaim) { c.Status.Allocation = nil })
			write("give back", func(c *resourcev1beta1.ResourceClaim) { c.Status = resourcev1beta1.ResourceClaimStatus{} })
			dump(t, saw)
		})
	}
}

// TestReviews: reviews and tokens are asked for by a POST that stores nothing.
func TestReviews(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, ns, client := background(t), namespace(t), typed(t, e)
			me := must(client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}))(t)
			if me.Status.UserInfo.Username == "" {
				t.Error("who am I?")
			}
			can := must(client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: ns, Verb: "create", Group: "resource.k8s.io", Resource: "resourceclaims",
				}},
			}, metav1.CreateOptions{}))(t)
			equal(t, "may I", can.Status.Allowed, true)
			must(client.AuthorizationV1().LocalSubjectAccessReviews(ns).Create(ctx, &authorizationv1.LocalSubjectAccessReview{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns},
				Spec: authorizationv1.SubjectAccessReviewSpec{User: "somebody", ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: ns, Verb: "get", Resource: "pods",
				}},
			}, metav1.CreateOptions{}))(t)

			must(client.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}))(t)
			token := must(client.CoreV1().ServiceAccounts(ns).CreateToken(ctx, "robot", &authenticationv1.TokenRequest{
				Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(3600))},
			}, metav1.CreateOptions{}))(t)
			if token.Status.Token == "" || token.Status.ExpirationTimestamp.IsZero() {
				t.Errorf("a token: %+v", token.Status)
			}
			review := must(client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
				Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token},
			}, metav1.CreateOptions{}))(t)
			equal(t, "whose it is", review.Status.User.Username, "system:serviceaccount:"+ns+":robot")
		})
	}
}
