package clients

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	draclient "k8s.io/dynamic-resource-allocation/client"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"
)

// published is what a driver's slices say, pool by pool: its generation, how many slices, and the devices.
type published map[string]struct {
	Generation int64
	Slices     int
	Devices    []string
}

func publishedBy(t *testing.T, client kubernetes.Interface, driver string) (out published, all []resourcev1.ResourceSlice) {
	t.Helper()
	list := must(draclient.New(client).ResourceSlices().List(background(t), metav1.ListOptions{FieldSelector: "spec.driver=" + driver}))(t)
	out = published{}
	for _, slice := range list.Items {
		pool := out[slice.Spec.Pool.Name]
		pool.Generation = slice.Spec.Pool.Generation
		pool.Slices++
		for _, device := range slice.Spec.Devices {
			pool.Devices = append(pool.Devices, device.Name)
		}
		slices.Sort(pool.Devices)
		out[slice.Spec.Pool.Name] = pool
	}
	return out, list.Items
}

func node(t *testing.T, client kubernetes.Interface) *corev1.Node {
	t.Helper()
	made := must(client.CoreV1().Nodes().Create(background(t), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: unique("node")}}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = client.CoreV1().Nodes().Delete(context.Background(), made.Name, metav1.DeleteOptions{}) })
	return made
}

func forget(t *testing.T, client kubernetes.Interface, driver string) {
	t.Cleanup(func() {
		_ = draclient.New(client).ResourceSlices().DeleteCollection(context.Background(), metav1.DeleteOptions{},
			metav1.ListOptions{FieldSelector: "spec.driver=" + driver})
	})
}

func slice(names ...string) resourceslice.Slice {
	var devices []resourcev1.Device
	for i, name := range names {
		devices = append(devices, resourcev1.Device{
			Name: name,
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"model":   {StringValue: ptr.To("large")},
				"index":   {IntValue: ptr.To(int64(i))},
				"ecc":     {BoolValue: ptr.To(false)},
				"driver":  {VersionValue: ptr.To("1.2.3")},
				"a.org/x": {StringValue: ptr.To("")},
			},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
		})
	}
	return resourceslice.Slice{Devices: devices}
}

const remembered = 500 * time.Millisecond

// TestSliceController: the controller publishes pools as slices, changes as few as it must, gives a pool a new generation
// if more than one of its slices changes, puts back what others delete, and removes the slices of pools that are gone.
func TestSliceController(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, client := background(t), typed(t, e)
			host, driver := node(t, client), unique("driver")+".example.com"
			forget(t, client, driver)
			resources := &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
				"one": {Generation: 1, Slices: []resourceslice.Slice{slice("gpu-0", "gpu-1"), slice("gpu-2")}},
				"two": {Slices: []resourceslice.Slice{slice("nic-0")}},
			}}
			controller := must(resourceslice.StartController(ctx, resourceslice.Options{
				DriverName: driver, KubeClient: client, Resources: resources,
				SyncDelay: ptr.To(100 * time.Millisecond), MutationCacheTTL: ptr.To(remembered),
				Owner: &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: host.Name, UID: host.UID},
			}))(t)
			defer controller.Stop()
			are := func(what string, want published) {
				t.Helper()
				eventually(t, what, func() (bool, error) {
					got, _ := publishedBy(t, client, driver)
					return slices.Equal(keys(got), keys(want)) && all(got, want), nil
				})
			}
			are("both pools", published{
				"one": {1, 2, []string{"gpu-0", "gpu-1", "gpu-2"}}, "two": {1, 1, []string{"nic-0"}},
			})
			_, made := publishedBy(t, client, driver)
			for _, one := range made {
				equal(t, "its owner", one.OwnerReferences, []metav1.OwnerReference{{
					APIVersion: "v1", Kind: "Node", Name: host.Name, UID: host.UID, Controller: ptr.To(true),
				}})
				equal(t, "its node", ptr.Deref(one.Spec.NodeName, ""), host.Name)
			}

			change := func(what string, generation int64, slices ...[]string) {
				t.Helper()
				pool := resourceslice.Pool{Generation: 1}
				var names []string
				for _, devices := range slices {
					pool.Slices = append(pool.Slices, slice(devices...))
					names = append(names, devices...)
				}
				resources = resources.DeepCopy()
				resources.Pools["one"] = pool
				controller.Update(resources)
				are(what, published{"one": {generation, len(slices), names}, "two": {1, 1, []string{"nic-0"}}})
			}
			change("a device more, which takes one update", 1, []string{"gpu-0", "gpu-1"}, []string{"gpu-2", "gpu-3"})
			change("two changed slices", 2, []string{"gpu-0"}, []string{"gpu-1", "gpu-2", "gpu-3"})
			time.Sleep(remembered + 200*time.Millisecond) // the controller believes for so long in what it has made
			check(t, draclient.New(client).ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{},
				metav1.ListOptions{FieldSelector: "spec.driver=" + driver + ",spec.nodeName=" + host.Name}))
			eventually(t, "what others deleted is back", func() (bool, error) {
				got, _ := publishedBy(t, client, driver)
				return got["one"].Slices == 2 && got["two"].Slices == 1, nil
			})
			resources = resources.DeepCopy()
			delete(resources.Pools, "two")
			controller.Update(resources)
			eventually(t, "one pool less", func() (bool, error) {
				got, _ := publishedBy(t, client, driver)
				return slices.Equal(keys(got), []string{"one"}), nil
			})
		})
	}
}

func keys(p published) (out []string) {
	for name := range p {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func all(got, want published) bool {
	for name := range want {
		g, w := got[name], want[name]
		if g.Generation != w.Generation || g.Slices != w.Slices || !slices.Equal(g.Devices, w.Devices) {
			return false
		}
	}
	return true
}

// driver is a driver that never prepares anything.
type driver struct{}

func (driver) PrepareResourceClaims(context.Context, []*resourcev1.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	return nil, nil
}

func (driver) UnprepareResourceClaims(context.Context, []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	return nil, nil
}

func (driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

func (driver) HandleError(context.Context, error, string) {}

// TestDriverHelper: the helper that node drivers are written with publishes a node's devices, again when they change,
// and owns the slices in the name of the node, which it looks up.
func TestDriverHelper(t *testing.T) {
	ctx, client := background(t), typed(t, asProtobuf)
	host, name, folder := node(t, client), unique("driver")+".example.com", t.TempDir()
	forget(t, client, name)
	plugin := must(kubeletplugin.Start(ctx, driver{},
		kubeletplugin.DriverName(name), kubeletplugin.NodeName(host.Name), kubeletplugin.KubeClient(client),
		kubeletplugin.RegistrarDirectoryPath(folder), kubeletplugin.PluginDataDirectoryPath(folder)))(t)
	defer plugin.Stop()
	for _, names := range [][]string{{"gpu-0"}, {"gpu-0", "gpu-1"}} {
		pool := resourceslice.Pool{Slices: []resourceslice.Slice{slice(names...)}}
		check(t, plugin.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{host.Name: pool}}))
		eventually(t, "its slice", func() (bool, error) {
			got, _ := publishedBy(t, client, name)
			return all(got, published{host.Name: {1, 1, names}}), nil
		})
	}
	_, made := publishedBy(t, client, name)
	equal(t, "its owner", made[0].OwnerReferences[0].UID, host.UID)
	dump(t, plain(t, made[0].Spec, name, host.Name))
}
