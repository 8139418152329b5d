// Command driver is a DRA driver on the helper `kubeletplugin` of Kubernetes 1.37, or of 1.36 with the tag `helper036`
// and `-modfile=go036.mod`, for tests of a kubelet: it publishes devices of one node and prepares claims. It prints
// `prepare NAMESPACE/CLAIM UID` and `unprepare NAMESPACE/CLAIM UID` when it is asked to. Lines on its standard input
// change the devices:
//
//	taint gpu-0 NoExecute    publish the device with a taint of this effect, and the others without any
//	health gpu-0 Unhealthy   report the health of the device to the kubelet, and that of the others as Healthy
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// change is what a line on the standard input asks for.
type change struct{ device, value string }

type driver struct {
	healthServer
	name, pool string
	count      int
	health     chan change
}

func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		fmt.Printf("prepare %s/%s %s\n", claim.Namespace, claim.Name, claim.UID)
		var prepared kubeletplugin.PrepareResult
		for _, result := range claim.Status.Allocation.Devices.Results {
			prepared.Devices = append(prepared.Devices, kubeletplugin.Device{
				Requests: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device,
				CDIDeviceIDs: []string{d.name + "/gpu=" + result.Device},
			})
		}
		results[claim.UID] = prepared
	}
	return results, nil
}

func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		fmt.Printf("unprepare %s/%s %s\n", claim.Namespace, claim.Name, claim.UID)
		results[claim.UID] = nil
	}
	return results, nil
}

func (d *driver) HandleError(_ context.Context, err error, message string) {
	fmt.Printf("error %s: %v\n", message, err)
}

// watchHealth sends the health of all devices, by name, and again with each change of it.
func (d *driver) watchHealth(ctx context.Context, send func(map[string]string) error) error {
	var last change
	for {
		healths := map[string]string{}
		for i := range d.count {
			healths[device(i)] = "HEALTHY"
		}
		if last.device != "" {
			healths[last.device] = last.value
		}
		if err := send(healths); err != nil {
			return err
		}
		select {
		case last = <-d.health:
		case <-ctx.Done():
			return nil
		}
	}
}

// resources is what the driver publishes, with at most one taint.
func (d *driver) resources(taint change) resourceslice.DriverResources {
	devices := make([]resourceapi.Device, d.count)
	for i := range devices {
		devices[i] = resourceapi.Device{Name: device(i)}
		if devices[i].Name == taint.device {
			devices[i].Taints = []resourceapi.DeviceTaint{{Key: d.name + "/broken", Effect: resourceapi.DeviceTaintEffect(taint.value)}}
		}
	}
	slices := []resourceslice.Slice{{Devices: devices}}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{d.pool: {Slices: slices}}}
}

func device(i int) string { return fmt.Sprintf("gpu-%d", i) }

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of the API server")
	name := flag.String("driver", "gpu.example.com", "name of the driver")
	node := flag.String("node", "", "node whose devices these are")
	root := flag.String("kubelet-dir", "", "folder of the kubelet, which holds plugins_registry")
	count := flag.Int("devices", 2, "how many devices there are")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	check(err)
	d := &driver{name: *name, pool: *node, count: *count, health: make(chan change)}
	data := filepath.Join(*root, "plugins", *name)
	check(os.MkdirAll(data, 0o750))
	helper, err := kubeletplugin.Start(ctx, d,
		kubeletplugin.DriverName(*name), kubeletplugin.NodeName(*node), kubeletplugin.KubeClient(kubernetes.NewForConfigOrDie(config)),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(*root, "plugins_registry")), kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.RollingUpdate(types.UID(os.Getenv("POD_UID"))))
	check(err)
	defer helper.Stop()
	check(helper.PublishResources(ctx, d.resources(change{})))
	go d.listen(ctx, helper)
	<-ctx.Done()
}

// listen does what the lines on the standard input ask for.
func (d *driver) listen(ctx context.Context, helper *kubeletplugin.Helper) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var command string
		var asked change
		_, err := fmt.Sscan(lines.Text(), &command, &asked.device, &asked.value)
		check(err)
		switch command {
		case "taint":
			check(helper.PublishResources(ctx, d.resources(asked)))
		case "health":
			d.health <- asked
		default:
			log.Fatalf("unknown command %s", command)
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
