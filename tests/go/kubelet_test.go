package clients

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	"k8s.io/utils/ptr"
)

// preparing is a driver that prepares claims and counts how often it is asked, by claim.
type preparing struct {
	drapb.UnimplementedDRAPluginServer
	client kubernetes.Interface
	name   string

	mutex                sync.Mutex
	prepared, unprepared map[string]int
}

func (d *preparing) NodePrepareResources(ctx context.Context, request *drapb.NodePrepareResourcesRequest) (*drapb.NodePrepareResourcesResponse, error) {
	response := &drapb.NodePrepareResourcesResponse{Claims: map[string]*drapb.NodePrepareResourceResponse{}}
	for _, asked := range request.Claims {
		claim, err := d.client.ResourceV1beta1().ResourceClaims(asked.Namespace).Get(ctx, asked.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		answer := &drapb.NodePrepareResourceResponse{}
		for _, result := range claim.Status.Allocation.Devices.Results {
			answer.Devices = append(answer.Devices, &drapb.Device{
				RequestNames: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device,
				CDIDeviceIDs: []string{d.name + "/gpu=" + result.Device},
			})
		}
		response.Claims[asked.UID] = answer
		d.count(d.prepared, asked.Name)
	}
	return response, nil
}

func (d *preparing) NodeUnprepareResources(_ context.Context, request *drapb.NodeUnprepareResourcesRequest) (*drapb.NodeUnprepareResourcesResponse, error) {
	response := &drapb.NodeUnprepareResourcesResponse{Claims: map[string]*drapb.NodeUnprepareResourceResponse{}}
	for _, asked := range request.Claims {
		response.Claims[asked.UID] = &drapb.NodeUnprepareResourceResponse{}
		d.count(d.unprepared, asked.Name)
	}
	return response, nil
}

func (d *preparing) count(calls map[string]int, claim string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	calls[claim]++
}

// start listens for the kubelet and publishes one device.
func (d *preparing) start(t *testing.T, root, node string) kubeletplugin.DRAPlugin {
	t.Helper()
	registration, socket := filepath.Join(root, "plugins_registry", d.name+"-reg.sock"), filepath.Join(root, "plugins", d.name+".sock")
	check(t, os.MkdirAll(filepath.Dir(socket), 0o750))
	plugin := must(kubeletplugin.Start(context.Background(), []any{d},
		kubeletplugin.DriverName(d.name), kubeletplugin.NodeName(node), kubeletplugin.KubeClient(d.client),
		kubeletplugin.RegistrarSocketPath(registration), kubeletplugin.PluginSocketPath(socket),
		kubeletplugin.KubeletPluginSocketPath(socket)))(t)
	eventually(t, "registration", func() (bool, error) {
		status := plugin.RegistrationStatus()
		return status != nil && status.PluginRegistered, nil
	})
	check(t, plugin.PublishResources(context.Background(), kubeletplugin.Resources{Devices: devices("gpu-0")}))
	return plugin
}

// TestKubelet: a driver of the real helper registers with the kubelet of a node and prepares the claims of its pods,
// through a restart of the driver: shared ones once for all pods, and those of many pods at once. Nothing is prepared
// twice, and nothing is left prepared. UNDERSTUDY_KUBELET_ROOT is the folder of the kubelet, UNDERSTUDY_NODE its node.
func TestKubelet(t *testing.T) {
	root, node := os.Getenv("UNDERSTUDY_KUBELET_ROOT"), os.Getenv("UNDERSTUDY_NODE")
	if root == "" {
		t.Skip("needs a kubelet")
	}
	ctx, client, ns := background(t), typed(t, asProtobuf), namespace(t)
	d := &preparing{client: client, name: unique("driver") + ".example.com", prepared: map[string]int{}, unprepared: map[string]int{}}
	plugin := d.start(t, root, node)
	eventually(t, "slices", func() (bool, error) {
		got, _ := publishedBy(t, client, d.name)
		return len(got) == 1, nil
	})

	use := func(claim string, pods ...string) {
		t.Helper()
		made := must(client.ResourceV1beta1().ResourceClaims(ns).Create(ctx, &resourcev1beta1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: claim},
			Spec: resourcev1beta1.ResourceClaimSpec{Devices: resourcev1beta1.DeviceClaim{
				Requests: []resourcev1beta1.DeviceRequest{{Name: "r", DeviceClassName: "gpu"}},
			}},
		}, metav1.CreateOptions{}))(t)
		made.Status.Allocation = &resourcev1beta1.AllocationResult{Devices: resourcev1beta1.DeviceAllocationResult{
			Results: []resourcev1beta1.DeviceRequestAllocationResult{{Request: "r", Driver: d.name, Pool: node, Device: "gpu-0"}},
		}}
		for _, name := range pods {
			pod := must(client.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
				NodeName: node,
				Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
					Claims: []corev1.ResourceClaim{{Name: "gpu"}},
				}}},
				ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To(claim)}},
			}}, metav1.CreateOptions{}))(t)
			made.Status.ReservedFor = append(made.Status.ReservedFor, resourcev1beta1.ResourceClaimConsumerReference{
				Resource: "pods", Name: name, UID: pod.UID,
			})
		}
		must(client.ResourceV1beta1().ResourceClaims(ns).UpdateStatus(ctx, made, metav1.UpdateOptions{}))(t)
	}
	running := func(pods ...string) {
		t.Helper()
		for _, name := range pods {
			eventually(t, name+" runs", func() (bool, error) {
				pod, err := client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
				return err == nil && pod.Status.Phase == corev1.PodRunning, err
			})
		}
	}
	gone := func(pods ...string) {
		t.Helper()
		for _, name := range pods {
			check(t, client.CoreV1().Pods(ns).Delete(ctx, name, metav1.DeleteOptions{}))
		}
		for _, name := range pods {
			eventually(t, name+" is gone", func() (bool, error) {
				_, err := client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
				return apierrors.IsNotFound(err), err
			})
		}
	}

	use("shared", "one", "two")
	running("one", "two")
	pod := must(client.CoreV1().Pods(ns).Get(ctx, "one", metav1.GetOptions{}))(t)
	equal(t, "CDI devices", pod.Annotations["understudy.dev/cdi-devices"], fmt.Sprintf(`{"c":["%s/gpu=gpu-0"]}`, d.name))
	gone("one")
	equal(t, "nothing is unprepared while a pod uses it", d.unprepared, map[string]int{})

	plugin.Stop()
	plugin = d.start(t, root, node)
	defer plugin.Stop()
	gone("two")

	expected, pods := map[string]int{"shared": 1}, []string{}
	for i := range 20 {
		name := fmt.Sprintf("many-%d", i)
		use(name, name)
		expected[name], pods = 1, append(pods, name)
	}
	running(pods...)
	gone(pods...)
	d.mutex.Lock()
	defer d.mutex.Unlock()
	equal(t, "prepared", d.prepared, expected)
	equal(t, "unprepared", d.unprepared, expected)
	check(t, client.ResourceV1beta1().ResourceClaims(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
}
